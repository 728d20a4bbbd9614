import { AssertionError } from 'node:assert/strict';
import { inspect } from 'node:util';
import { type Hole, marks, type Template, templateOf } from './template.ts';
import { anyMark } from './template-scanner.ts';

/** Value of a template: text is escaped; null, undefined and false are nothing. */
export type HtmlValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | Html
  | Raw
  | readonly HtmlValue[];

/** Content of a text hole, or an item of a list. */
export type Content = string | Html | Raw | List;

/** A piece of a page, escaped by construction and never changed: `html` makes them. */
export class Html {
  readonly template: Template;
  /** Content of each hole; undefined for an attribute that is left out. */
  readonly contents: readonly (Content | undefined)[];
  /** Key by which it is found among its siblings when a list changes. */
  readonly key: string | number | undefined;

  constructor(template: Template, contents: readonly (Content | undefined)[], key?: Html['key']) {
    this.template = template;
    this.contents = contents;
    this.key = key;
  }

  toString(): string {
    return written(this, false);
  }
}

/** Text that is HTML already: {@link raw} makes them. */
export class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** The items of an array that stands in a text hole. */
export class List {
  readonly items: readonly Content[];

  constructor(items: readonly Content[]) {
    this.items = items;
  }
}

/**
 * A piece of a page. Values may stand in text and in quoted attributes, where they are escaped, and
 * nowhere else. Alone in its quotes, `true` gives the bare attribute and nothing leaves it out.
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  const template = templateOf(strings);
  const { holes } = template;
  const contents = new Array<Content | undefined>(holes.length);
  let at = 0;
  for (let index = 0; index < holes.length; index += 1) {
    const hole = holes[index] as Hole;
    if (hole.kind === 'text') {
      const content = contentOf(values[at++]);
      if (hole.elementsOnly) checkElements(content);
      contents[index] = content;
    } else {
      const count = hole.strings.length - 1;
      const text = joined(hole.strings, values, at);
      if (hole.kind === 'attribute' && hole.isUrl && text !== undefined && !isSafe(text)) {
        throw refusal(`${hole.name}: must be relative, or begin with ${schemes}`, text);
      }
      contents[index] = hole.kind === 'content' ? (text ?? '') : text;
      at += count;
    }
  }
  return new Html(template, contents);
}

/** An item that keeps its element while its list changes around it; keys are unique in a list. */
export function keyed(key: string | number, item: Html): Html {
  return new Html(item.template, item.contents, key);
}

/** Marks text as HTML that is trusted: whatever a stranger wrote in it runs in every browser. */
export function raw(text: string): Raw {
  if (anyMark.test(text)) throw refusal('raw: must be without the marks of live pages', text);
  return new Raw(text);
}

/** The address, or undefined if following it could run code: for addresses that users gave. */
export function safeUrl(text: string): string | undefined {
  return isSafe(text) ? text : undefined;
}

const schemes = 'http:, https:, mailto: or tel:';

function isSafe(text: string): boolean {
  // Browsers leave these characters out before they look for the scheme.
  const scheme = /^([^/?#:]*):/.exec(text.replace(/[\0-\x20]/g, ''));
  return scheme === null || /^(https?|mailto|tel)$/i.test(String(scheme[1]));
}

function refusal(why: string, value: unknown): Error {
  const got = inspect(value, { depth: 0, maxStringLength: 80 });
  return new AssertionError({ message: `html: ${why}, got ${got}` });
}

/** Replaces what HTML cannot express, so that a page and a patch show the same text. */
function clean(text: string): string {
  return suspect.test(text) ? text.toWellFormed().replaceAll('\0', '\ufffd') : text;
}

const suspect = /[\0\ud800-\udfff]/;

function textOf(value: HtmlValue): string {
  if (typeof value === 'string') return clean(value);
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (value === null || value === undefined || value === false) return '';
  const rule = 'a string, a number or nothing can stand here (true: alone in a quoted attribute)';
  throw refusal(rule, value);
}

function contentOf(value: HtmlValue): Content {
  if (value instanceof Html || value instanceof Raw) return value;
  if (Array.isArray(value)) {
    return new List(value.flat(Number.POSITIVE_INFINITY).map(contentOf));
  }
  return textOf(value);
}

function joined(
  strings: readonly string[],
  values: readonly HtmlValue[],
  first: number,
): string | undefined {
  if (strings.length === 2 && strings[0] === '' && strings[1] === '') {
    const value = values[first];
    if (value === true) return '';
    return value === null || value === undefined || value === false ? undefined : textOf(value);
  }
  let text = strings[0] as string;
  for (let at = 1; at < strings.length; at += 1) {
    text += textOf(values[first + at - 1]) + strings[at];
  }
  return text;
}

function checkElements(content: Content): void {
  if (content instanceof List) content.items.forEach(checkElements);
  else if (typeof content === 'string' && content.trim() !== '') {
    throw refusal('only elements can stand in a table outside of its cells', content);
  }
}

const special = /[&<>"'\r]/;
/** The references of those characters, by their codes. */
const references: Readonly<Record<number, string>> = {
  13: '&#13;',
  34: '&quot;',
  38: '&amp;',
  39: '&#39;',
  60: '&lt;',
  62: '&gt;',
};

/** The text as HTML that means just this text, also within quotes. */
export function escaped(text: string): string {
  let at = text.search(special);
  if (at === -1) return text;
  let done = 0;
  let safe = '';
  for (; at < text.length; at += 1) {
    const reference = references[text.charCodeAt(at)];
    if (reference === undefined) continue;
    safe += text.slice(done, at) + reference;
    done = at + 1;
  }
  return safe + text.slice(done);
}

/** Content of a hole as HTML: for a page as it is, or for a live one with its marks. */
export function written(content: Content, live: boolean): string {
  if (typeof content === 'string') return escaped(content);
  if (content instanceof Raw) return content.text;
  if (content instanceof List) {
    let text = '';
    for (const item of content.items) text += (live ? marks.item : '') + written(item, live);
    return text;
  }
  const { template, contents } = content;
  const strings = live ? template.live : template.plain;
  let text = strings[0] as string;
  for (let at = 0; at < contents.length; at += 1) {
    const inner = contents[at];
    const hole = template.holes[at] as Hole;
    if (hole.kind !== 'attribute') text += written(inner ?? '', live);
    else if (inner !== undefined) text += ` ${hole.name}="${escaped(inner as string)}"`;
    text += strings[at + 1];
  }
  return text;
}
