import { AssertionError } from 'node:assert/strict';

/** A place in a template where values stand; `part` is what the browser finds it by. */
export type Hole = TextHole | AttributeHole | ContentHole;

interface TextHole {
  readonly kind: 'text';
  readonly part: number;
  /** Browsers move text out of tables: only elements may stand here. */
  readonly elementsOnly: boolean;
}

/** All of an attribute; its values stand between its strings. */
interface AttributeHole {
  readonly kind: 'attribute';
  readonly part: number;
  readonly name: string;
  readonly isUrl: boolean;
  readonly strings: readonly string[];
}

/** All that a `title` or `textarea` holds, which can be nothing but text. */
interface ContentHole {
  readonly kind: 'content';
  readonly part: number;
  readonly strings: readonly string[];
}

/** What is the same each time a template is used, found once. */
export interface Template {
  /** What stands before, between and after the holes. */
  readonly plain: readonly string[];
  /** The same with the marks by which the browser part of a live page finds the holes. */
  readonly live: readonly string[];
  readonly holes: readonly Hole[];
}

/** The comments around a text hole of a live page, and before each item of a list. */
export const marks = { open: '<!--[-->', item: '<!--,-->', close: '<!--]-->' } as const;
/** The attribute of elements with holes in a live page. */
const markName = 'data-live';
export const anyMark: RegExp = /<!--[[,\]]-->|\sdata-live(?=[\s=>/])/i;

const voidElements = new Set(
  'area base br col embed hr img input link meta param source track wbr'.split(' '),
);
/** What they hold is text for the browser; in the first two, character references count. */
const textElements = new Set(
  'title textarea script style noscript iframe xmp noembed noframes plaintext'.split(' '),
);
const takesContent = new Set(['title', 'textarea']);
const elementsOnly = new Set(['tbody', 'thead', 'tfoot', 'tr', 'colgroup']);
const urlAttributes = new Set(['href', 'src', 'action', 'formaction', 'data', 'xlink:href']);
/** They can set any attribute of another element, also one that runs code. */
const animations = /^(set|animate\w*)$/;

const entities = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }));

function refusal(why: string, near: string): Error {
  const message = `html: ${why}, near ${JSON.stringify(near.trim().slice(-60))}`;
  return new AssertionError({ message });
}

/** The text that a piece of HTML source stands for. */
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

const cache = new WeakMap<readonly string[], Template>();

/** The template that these strings are, refused unless each value stands in a safe place. */
export function templateOf(strings: TemplateStringsArray): Template {
  const known = cache.get(strings);
  if (known !== undefined) return known;
  const template = new Scanner().scan(strings);
  cache.set(strings, template);
  return template;
}

/** An attribute or the content of an element that has met its first value. */
interface OpenHole {
  readonly kind: 'attribute' | 'content';
  readonly name: string;
  readonly strings: string[];
}

/** Reads the strings of a template as a browser would, as strictly as it can. */
class Scanner {
  readonly #plain: string[] = [];
  readonly #live: string[] = [];
  readonly #holes: Hole[] = [];
  readonly #open: string[] = [];
  /** What is read since the last hole, and the mark that the last hole left to be written. */
  #text = '';
  #mark = '';
  #source = '';
  #at = 0;
  #state: 'text' | 'tag' | 'value' | 'raw' = 'text';
  #tag = '';
  #quote = '';
  #attribute = '';
  /** Where in the text the attribute or the content began, and where its value did. */
  #began = 0;
  #valueBegan = 0;
  #preEnd = -1;
  #hole: OpenHole | undefined;
  #parts = 0;
  #elementPart: number | undefined;

  scan(strings: readonly string[]): Template {
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
    this.#live.push(this.#mark + this.#text);
    return { plain: this.#plain, live: this.#live, holes: this.#holes };
  }

  #step(): void {
    if (this.#state === 'text') this.#readText();
    else if (this.#state === 'tag') this.#readTag();
    else if (this.#state === 'value') this.#readUntil(this.#quote, 1);
    else this.#readUntil(new RegExp(`</${this.#tag}(?=[\\s/>])`, 'i'), 0);
  }

  /** Goes on; what is read inside a hole belongs to the hole. */
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
      this.#elementPart = undefined;
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

  /** A value stands here: decides whether it may, and as what. */
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
    this.#holes.push({ kind: 'text', part: this.#parts, elementsOnly: isTabular });
    this.#parts += 1;
    this.#cut(marks.open, marks.close);
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
    const isMarked = this.#elementPart !== undefined;
    if (!isMarked) this.#elementPart = this.#parts++;
    const mark = isMarked ? '' : ` ${markName}`;
    if (kind === 'attribute') this.#cut(mark, '');
    else
      this.#cut(
        '',
        '',
        this.#text.replace(/>\n?$/, (end) => mark + end),
      );
  }

  #close(): void {
    if (this.#hole === undefined) return;
    const { kind, name, strings } = this.#hole;
    const part = this.#elementPart ?? 0;
    const isUrl = urlAttributes.has(name.toLowerCase());
    this.#holes.push(
      kind === 'attribute' ? { kind, part, name, isUrl, strings } : { kind, part, strings },
    );
    this.#hole = undefined;
  }

  /** Ends what stands before a hole, with its mark, and keeps the one that comes after it. */
  #cut(before: string, after: string, live: string = this.#text): void {
    this.#plain.push(this.#text);
    this.#live.push(this.#mark + live + before);
    this.#text = '';
    this.#mark = after;
    this.#preEnd = -1;
  }
}
