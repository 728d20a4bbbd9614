import { decodeHTMLStrict } from 'entities/decode';
import { webUrl } from './canonical-url.ts';
import { attributes, htmlPieces } from './html-scan.ts';

/** A picture of an article. */
export interface PageImage {
  /** Absolute, http or https. */
  readonly url: string;
  /** The text in its place; empty if it is decoration. */
  readonly alt: string;
  /** The number of characters of text before it; white space is not counted. */
  readonly at: number;
}

/** Most pictures of one article. */
const imagesMax = 40;
const altCharsMax = 500;
/** The smallest picture to keep, in pixels: smaller ones count visits or draw lines. */
const sideMin = 16;

/** The pictures in a piece of markup, in their order and each once. */
export function imagesIn(html: string, base: string): PageImage[] {
  const found = new Map<string, PageImage>();
  let at = 0;
  for (const piece of htmlPieces(html)) {
    if (piece.kind === 'text') at += textLength(decodeHTMLStrict(piece.text));
    if (piece.kind !== 'open' || piece.name !== 'img') continue;
    const tag = attributes(piece.inside);
    const url = imageUrl(tag, base);
    if (url === undefined || found.has(url) || isTiny(tag)) continue;
    found.set(url, { url, alt: (tag.get('alt') ?? '').slice(0, altCharsMax).toWellFormed(), at });
    if (found.size >= imagesMax) break;
  }
  return [...found.values()];
}

/** A picture that a page or an entry names outside of its text, as a list. */
export function leadImage(url: string | undefined, base: string): PageImage[] {
  const address = url === undefined ? undefined : imageAddress(url, base);
  return address === undefined ? [] : [{ url: address, alt: '', at: 0 }];
}

/** The number of characters of a text, white space left out. */
export function textLength(text: string): number {
  return text.replace(/\s+/g, '').length;
}

/** Finds the address of a picture: pages that load late have a placeholder as `src`. */
function imageUrl(tag: ReadonlyMap<string, string>, base: string): string | undefined {
  const [first = ''] = (tag.get('srcset') ?? tag.get('data-srcset') ?? '').split(/\s+/);
  const named = [tag.get('data-src'), tag.get('data-original'), tag.get('src'), first];
  return named.map((text) => imageAddress(text ?? '', base)).find((url) => url !== undefined);
}

function imageAddress(text: string, base: string): string | undefined {
  if (text.trim() === '') return undefined;
  const url = webUrl(text, base);
  if (url === undefined) return undefined;
  url.hash = '';
  return url.href;
}

function isTiny(tag: ReadonlyMap<string, string>): boolean {
  const sides = [tag.get('width'), tag.get('height')].map((text) =>
    Number.parseInt(text ?? '', 10),
  );
  return sides.some((side) => side < sideMin);
}
