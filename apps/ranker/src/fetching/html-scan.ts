import { decodeHTMLStrict } from 'entities/decode';

/** A piece of a page: a tag with what is inside its brackets, or the text between two tags. */
export type HtmlPiece =
  | { readonly kind: 'open'; readonly name: string; readonly inside: string }
  | { readonly kind: 'close'; readonly name: string }
  | { readonly kind: 'text'; readonly text: string }
  /** The content of an element that holds no markup. */
  | { readonly kind: 'raw'; readonly name: string; readonly inside: string; readonly text: string };

const rawElements = new Set(['script', 'style', 'textarea', 'title', 'template', 'svg', 'iframe']);
const tagStart = /<(\/?)([a-z][^\s/>]*)/giy;
const blocks: ReadonlySet<string> = new Set(
  (
    'address article aside blockquote br dd div dl dt figcaption figure footer form h1 h2 h3 h4 ' +
    'h5 h6 header hr li main nav ol p pre section table td th tr ul'
  ).split(' '),
);

/** Splits a page into pieces in one pass. */
export function* htmlPieces(html: string): Generator<HtmlPiece> {
  for (let at = 0; at < html.length; ) {
    const bracket = html.indexOf('<', at);
    const textEnd = bracket === -1 ? html.length : bracket;
    if (textEnd > at) yield { kind: 'text', text: html.slice(at, textEnd) };
    if (bracket === -1) return;
    at = bracket;
    tagStart.lastIndex = at;
    const tag = tagStart.exec(html);
    if (tag === null) {
      const end = markupEnd(html, at);
      if (end === at + 1) yield { kind: 'text', text: '<' };
      at = end;
      continue;
    }
    const [start, slash, written = ''] = tag;
    const name = written.toLowerCase();
    const end = tagEnd(html, at + start.length);
    const inside = html.slice(at + start.length, end);
    at = end + 1;
    if (slash === '/') yield { kind: 'close', name };
    else if (!rawElements.has(name) || inside.endsWith('/')) yield { kind: 'open', name, inside };
    else {
      const closing = closingTag(html, name, at);
      yield { kind: 'raw', name, inside, text: html.slice(at, closing) };
      at = tagEnd(html, closing) + 1;
    }
  }
}

/** The end of a comment or declaration; the character after a bare bracket. */
function markupEnd(html: string, at: number): number {
  if (html.startsWith('<!--', at)) return after(html, '-->', at + 4);
  return /[!?/]/.test(html[at + 1] ?? '') ? after(html, '>', at + 2) : at + 1;
}

function after(html: string, mark: string, from: number): number {
  const found = html.indexOf(mark, from);
  return found === -1 ? html.length : found + mark.length;
}

/** The place of the closing bracket; brackets in quotes do not count. */
function tagEnd(html: string, from: number): number {
  let quote = '';
  for (let at = from; at < html.length; at += 1) {
    const char = html[at] as string;
    if (quote !== '') quote = char === quote ? '' : quote;
    else if (char === '>') return at;
    // A quote counts only as the start of a value.
    else if ((char === '"' || char === "'") && /=\s*$/.test(html.slice(at - 2, at))) quote = char;
  }
  return html.length;
}

function closingTag(html: string, name: string, from: number): number {
  const pattern = new RegExp(`</${name}(?=[\\s/>])`, 'gi');
  pattern.lastIndex = from;
  return pattern.exec(html)?.index ?? html.length;
}

/** The attributes of a tag, by names in small letters. */
export function attributes(inside: string): ReadonlyMap<string, string> {
  const found = inside.matchAll(/([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g);
  return new Map(
    found.map(([, name = '', double, single, bare]) => [
      name.toLowerCase(),
      decodeHTMLStrict(double ?? single ?? bare ?? '').trim(),
    ]),
  );
}

export function isBlock(name: string): boolean {
  return blocks.has(name);
}

/** The text of a piece of markup, with an empty line between its blocks. */
export function plainText(html: string): string {
  let text = '';
  for (const piece of htmlPieces(html)) {
    if (piece.kind === 'text') text += piece.text.replace(/\s+/g, ' ');
    else if (piece.kind !== 'raw' && isBlock(piece.name)) text += '\n\n';
  }
  return tidyText(decodeHTMLStrict(text));
}

/** Collapses white space to single blanks and single empty lines. */
export function tidyText(text: string): string {
  return text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{2,}/g, '\n\n')
    .trim();
}
