import { AssertionError } from 'node:assert/strict';

// The part of templates that is for safety: it reads the strings of a template once, as strictly as
// it can, and refuses every value that does not stand in a safe place.

/** A place where values stand, as the scanner finds it. */
export type ScannedHole =
  | {
      readonly kind: 'text';
      /** True if only elements may stand here: browsers move text out of tables. */
      readonly elementsOnly: boolean;
    }
  /** All of an attribute; its values stand between its strings. */
  | {
      readonly kind: 'attribute';
      /** Number of the start tag that it belongs to. */
      readonly element: number;
      readonly name: string;
      readonly isUrl: boolean;
      readonly strings: readonly string[];
    }
  /** All content of a `title` or `textarea`, which can be nothing but text. */
  | {
      readonly kind: 'content';
      readonly element: number;
      readonly strings: readonly string[];
    };

export interface ScannedTemplate {
  /** Text before, between and after the holes. */
  readonly plain: readonly string[];
  readonly holes: readonly ScannedHole[];
}

/** Attribute and comments that are reserved: live pages find their holes by them. */
export const markName = 'data-live';
export const anyMark: RegExp = /<!--[[,\]]-->|\sdata-live(?=[\s=>/])/i;

const voidElements = new Set(
  'area base br col embed hr img input link meta param source track wbr'.split(' '),
);
/** Elements with text only; in the first two, character references count. */
const textElements = new Set(
  'title textarea script style noscript iframe xmp noembed noframes plaintext'.split(' '),
);
const takesContent = new Set(['title', 'textarea']);
const elementsOnly = new Set(['tbody', 'thead', 'tfoot', 'tr', 'colgroup']);
const urlAttributes = new Set(['href', 'src', 'action', 'formaction', 'data', 'xlink:href']);
/** Elements that can set any attribute of another one, also one that runs code. */
const animations = /^(set|animate\w*)$/;

const entities = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }));

function refusal(why: string, near: string): Error {
  const message = `html: ${why}, near ${JSON.stringify(near.trim().slice(-60))}`;
  return new AssertionError({ message });
}

function decoded(source: string): string {
  return source.replace(/&(?:#(\d+)|#x([\da-f]+)|(\w+));/gi, (all, decimal, hex, name) => {
    if (name === undefined) {
      return String.fromCodePoint(Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10));
    }
    const character = entities.get(name);
    if (character === undefined) throw refusal('write the character itself', all);
    return character;
  });
}

/** An attribute, or the content of an element, of which the first value was read. */
interface OpenHole {
  readonly kind: 'attribute' | 'content';
  readonly name: string;
  readonly strings: string[];
}

/** Reads the strings of a template as a browser would; an unsafe or unclear one is refused. */
export function scan(strings: readonly string[]): ScannedTemplate {
  return new Scanner().scan(strings);
}

/**
 * A state machine over the strings:
 *
 *     text --"<p"--> tag --'class="'--> value --'"'--> tag --">"--> text
 *                     \--">" of a title, textarea, script ...--> raw --"</title"--> text
 *
 * A value may stand in `text`, in `value`, and in `raw` of a title or textarea.
 */
class Scanner {
  readonly #plain: string[] = [];
  readonly #holes: ScannedHole[] = [];
  readonly #open: string[] = [];
  #text = '';
  #source = '';
  #at = 0;
  #state: 'text' | 'tag' | 'value' | 'raw' = 'text';
  #tag = '';
  #quote = '';
  #attribute = '';
  /** Places in the text at which the attribute or the content began, and its value. */
  #began = 0;
  #valueBegan = 0;
  #preEnd = -1;
  #hole: OpenHole | undefined;
  #elements = 0;

  scan(strings: readonly string[]): ScannedTemplate {
    for (const [index, source] of strings.entries()) {
      this.#source = source;
      this.#at = 0;
      while (this.#at < source.length) this.#step();
      if (index < strings.length - 1) this.#value();
    }
    const left = this.#open.at(-1);
    if (this.#state !== 'text') throw refusal(`<${this.#tag}> does not end`, this.#text);
    if (left !== undefined) throw refusal(`<${left}> is not closed in its template`, this.#text);
    this.#plain.push(this.#text);
    return { plain: this.#plain, holes: this.#holes };
  }

  #step(): void {
    if (this.#state === 'text') this.#readText();
    else if (this.#state === 'tag') this.#readTag();
    else if (this.#state === 'value') this.#readUntil(this.#quote, 1);
    else this.#readUntil(new RegExp(`</${this.#tag}(?=[\\s/>])`, 'i'), 0);
  }

  /** Takes the next characters; inside a hole they belong to the hole. */
  #take(length: number): string {
    const taken = this.#source.slice(this.#at, this.#at + length);
    this.#at += length;
    if (this.#hole === undefined) this.#text += taken;
    return taken;
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    // For a browser such a space is a part of a name, and what comes after it something else.
    const isOdd = found !== null && /^(?!<!).*[^\S\t\n\f\r ]/s.test(found[0]);
    if (isOdd) throw refusal('only plain spaces can stand in a tag', found[0]);
    return found;
  }

  #readText(): void {
    const next = this.#source.indexOf('<', this.#at);
    if (next !== this.#at) {
      this.#take((next === -1 ? this.#source.length : next) - this.#at);
      return;
    }
    const comment = this.#match(/<!--(?!-?>)[\s\S]*?-->|<!doctype[^>]*>/iy);
    const close = this.#match(/<\/([a-z][^\s/>]*)\s*>/iy);
    const open = this.#match(/<([a-z][^\s/>]*)/iy);
    if (comment !== null) {
      const isMark = anyMark.test(comment[0]) || comment[0].includes('--!>');
      if (isMark) throw refusal('a comment like a mark, or with two ends', comment[0]);
      this.#take(comment[0].length);
    } else if (close !== null) {
      const name = String(close[1]).toLowerCase();
      const expected = this.#open.pop();
      if (name !== expected) {
        const wanted = expected === undefined ? 'nothing is open' : `</${expected}> is due`;
        throw refusal(`</${name}> where ${wanted}`, this.#text + close[0]);
      }
      this.#take(close[0].length);
    } else if (open !== null) {
      this.#take(open[0].length);
      this.#tag = String(open[1]).toLowerCase();
      this.#state = 'tag';
      this.#elements += 1;
    } else {
      const rest = this.#source.slice(this.#at, this.#at + 20);
      throw refusal('this < begins nothing whole: a value may cut it, or write &lt;', rest);
    }
  }

  #readTag(): void {
    const end = this.#match(/\s*(\/?)>/y);
    if (end !== null) {
      this.#take(end[0].length);
      this.#endTag(end[1] === '/');
      return;
    }
    const attribute = this.#match(/\s*([^\s"'<>/=]+)(?:\s*=\s*(?:(["'])|[^\s"'=<>`]+|$))?|\s+$/y);
    if (attribute === null) throw refusal(`<${this.#tag}> has a malformed attribute`, this.#text);
    const [all, name = '', quote] = attribute;
    this.#began = this.#text.length;
    this.#take(all.length);
    this.#attribute = name;
    if (name.toLowerCase() === markName) throw refusal(`${markName} is taken`, this.#text);
    if (quote === undefined) return;
    this.#quote = quote;
    this.#valueBegan = this.#text.length;
    this.#state = 'value';
  }

  #endTag(isSelfClosing: boolean): void {
    const isForeign = this.#open.some((name) => name === 'svg' || name === 'math');
    this.#state = 'text';
    if (voidElements.has(this.#tag) || (isSelfClosing && isForeign)) return;
    if (isSelfClosing) throw refusal(`close it with </${this.#tag}>`, this.#text);
    this.#open.push(this.#tag);
    if (this.#tag === 'pre') this.#preEnd = this.#text.length;
    if (!textElements.has(this.#tag)) return;
    this.#state = 'raw';
    this.#began = this.#text.length;
    this.#valueBegan = this.#text.length;
  }

  /** Takes the rest of a quoted value, or of text that ends with a tag. */
  #readUntil(end: string | RegExp, length: number): void {
    const rest = this.#source.slice(this.#at);
    const found = typeof end === 'string' ? rest.indexOf(end) : rest.search(end);
    const piece = this.#take(found === -1 ? rest.length : found);
    this.#hole?.strings.push(decoded(piece));
    if (found === -1) return;
    this.#take(length);
    this.#close();
    this.#state = this.#state === 'value' ? 'tag' : 'text';
  }

  /** Decides whether a value may stand here, and as what. */
  #value(): void {
    if (this.#open.includes('template')) throw refusal('no value in a <template>', this.#text);
    if (this.#state === 'text') this.#textHole();
    else if (this.#state === 'tag') {
      const what = /=\s*$/.test(this.#source) ? 'quote the value' : 'no value outside of quotes';
      throw refusal(`${what} in <${this.#tag}>`, this.#text);
    } else if (this.#hole === undefined) this.#beginHole(this.#state);
    else if (this.#source === '') this.#hole.strings.push('');
  }

  #textHole(): void {
    const parent = this.#open.at(-1);
    if (parent === 'table') throw refusal('no value in a <table>: write <tbody>', this.#text);
    // A browser drops a line break that comes first, so that the value's own would be lost.
    if (parent === 'pre' && this.#text.length === this.#preEnd) this.#text += '\n';
    const isTabular = parent !== undefined && elementsOnly.has(parent);
    this.#holes.push({ kind: 'text', elementsOnly: isTabular });
    this.#cut();
  }

  #beginHole(state: 'value' | 'raw'): void {
    const name = this.#attribute.toLowerCase();
    const kind = state === 'value' ? 'attribute' : 'content';
    if (kind === 'content' && !takesContent.has(this.#tag)) {
      throw refusal(`no value in <${this.#tag}>`, this.#text);
    }
    const runsCode = /^on|^style$|^srcdoc$/.test(name) || animations.test(this.#tag);
    if (kind === 'attribute' && runsCode) {
      throw refusal(`no value in ${name} of <${this.#tag}>`, this.#text);
    }
    const first = decoded(this.#text.slice(this.#valueBegan));
    this.#hole = { kind, name: this.#attribute, strings: [first] };
    this.#text = this.#text.slice(0, this.#began);
    if (this.#tag === 'textarea' && kind === 'content') this.#text += '\n';
    this.#cut();
  }

  #close(): void {
    if (this.#hole === undefined) return;
    const { kind, name, strings } = this.#hole;
    const element = this.#elements;
    const isUrl = urlAttributes.has(name.toLowerCase());
    this.#holes.push(
      kind === 'attribute' ? { kind, element, name, isUrl, strings } : { kind, element, strings },
    );
    this.#hole = undefined;
  }

  #cut(): void {
    this.#plain.push(this.#text);
    this.#text = '';
    this.#preEnd = -1;
  }
}
