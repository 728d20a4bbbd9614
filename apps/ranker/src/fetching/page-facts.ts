import { decodeHTMLStrict } from 'entities/decode';
import { readDate } from '../feeds/read-date.ts';
import { attributes, htmlPieces, tidyText } from './html-scan.ts';
import { type StructuredData, structuredData } from './structured-data.ts';

/** A page's metadata, which is not in its text. */
export interface PageFacts {
  readonly title: string;
  /** The texts of its larger headings, the first few. */
  readonly headings: ReadonlySet<string>;
  readonly author: string | undefined;
  /** UNIX time in milliseconds. */
  readonly published: number | undefined;
  /** The address it claims, as it is written there. */
  readonly canonical: string | undefined;
  /** The feeds it names, as they are written there. */
  readonly feeds: readonly string[];
  readonly structured: StructuredData | undefined;
  /** The picture that represents it, as it is written there. */
  readonly image: string | undefined;
  /** True if it says that it needs scripts. */
  readonly needsScripts: boolean;
  /** True if a parser takes too long for it: too deep, too many elements or attributes. */
  readonly isHuge: boolean;
}

/** Deepest nesting for Readability: 60 ms, and 1.2 s at 5,000, by the square (2026-11). */
const depthMax = 500;
const elementsMax = 60_000;
/** Most attributes of one element, for the same reason: minutes for 200,000 (2026-11). */
const attributesMax = 1_000;

/** Elements without a required closing tag: they do not nest. */
const flat: ReadonlySet<string> = new Set(
  (
    'area base br col dd dt embed hr img input li link meta option p param source tbody td th ' +
    'thead tr track wbr'
  ).split(' '),
);
const feedType = /^application\/((rss|atom|rdf)\+xml|feed\+json|json)$/i;
/** Names of metadata with the time of publication, the most reliable first. */
const dateNames =
  'article:published_time og:article:published_time datepublished date pubdate parsely-pub-date ' +
  'dc.date.issued dc.date';
const feedsMax = 10;
const headingsMax = 10;

/** Reads the facts of a page in one pass over its tags. */
export function pageFacts(html: string): PageFacts {
  const found = scan(html);
  const { meta, links, structured } = found;
  const published = [
    structured?.published,
    ...dateNames.split(' ').map((name) => meta.get(name)),
    found.time,
  ];
  const author = structured?.author ?? meta.get('author') ?? meta.get('article:author');
  return {
    title: meta.get('og:title') ?? structured?.title ?? found.title,
    headings: found.headings,
    author: author && !/^https?:/.test(author) ? author.slice(0, 200) : undefined,
    published: published.map((text) => readDate(text ?? '')).find((time) => time !== undefined),
    canonical: links.find((link) => /\bcanonical\b/i.test(link.get('rel') ?? ''))?.get('href'),
    feeds: feedsOf(links),
    structured,
    image: meta.get('og:image') ?? meta.get('twitter:image'),
    needsScripts: found.needsScripts,
    isHuge: found.isHuge,
  };
}

function feedsOf(links: readonly ReadonlyMap<string, string>[]): string[] {
  const feeds = links.filter((link) => {
    return /\balternate\b/i.test(link.get('rel') ?? '') && feedType.test(link.get('type') ?? '');
  });
  return feeds.flatMap((link) => link.get('href') ?? []).slice(0, feedsMax);
}

interface Found {
  title: string;
  time: string | undefined;
  isHuge: boolean;
  needsScripts: boolean;
  readonly headings: Set<string>;
  readonly meta: Map<string, string>;
  readonly links: ReadonlyMap<string, string>[];
  structured: StructuredData | undefined;
}

function scan(html: string): Found {
  const meta = new Map<string, string>();
  const links: ReadonlyMap<string, string>[] = [];
  const found: Found = {
    title: '',
    time: undefined,
    isHuge: false,
    needsScripts: false,
    meta,
    links,
    headings: new Set<string>(),
    structured: undefined,
  };
  const blocks: string[] = [];
  let depth = 0;
  let elements = 0;
  let inNoscript = false;
  let heading: string | undefined;
  for (const piece of htmlPieces(html)) {
    if (piece.kind === 'text') {
      if (heading !== undefined) heading += piece.text;
      if (inNoscript && /javascript|enable scripts/i.test(piece.text)) found.needsScripts = true;
      continue;
    }
    const { kind, name } = piece;
    if (name === 'noscript') inNoscript = kind === 'open';
    if (/^h[12]$/.test(name)) {
      const isFull = heading === undefined || found.headings.size >= headingsMax;
      if (!isFull) found.headings.add(tidyText(decodeHTMLStrict(heading ?? '')));
      heading = kind === 'open' ? '' : undefined;
    }
    if (kind === 'raw') {
      if (name === 'title') found.title ||= tidyText(decodeHTMLStrict(piece.text));
      else if (/ld\+json/i.test(piece.inside)) blocks.push(piece.text);
      continue;
    }
    if (!flat.has(name)) depth = Math.max(0, depth + (kind === 'open' ? 1 : -1));
    if (kind !== 'open') continue;
    elements += 1;
    found.isHuge ||= depth > depthMax || elements > elementsMax || hasManyAttributes(piece.inside);
    note(found, name, piece.inside);
  }
  found.structured = structuredData(blocks);
  return found;
}

function hasManyAttributes(inside: string): boolean {
  if (inside.length < 2 * attributesMax) return false;
  // Values in quotes may be as long as they like: they are no attributes.
  const names = inside.replaceAll(/=\s*(?:"[^"]*"|'[^']*')/g, '=').match(/\s+/g);
  return names !== null && names.length > attributesMax;
}

function note(found: Found, name: string, inside: string): void {
  if (name === 'meta') {
    const tag = attributes(inside);
    const key = tag.get('property') ?? tag.get('name') ?? tag.get('itemprop') ?? '';
    const value = tag.get('content');
    const known = (key || (tag.get('http-equiv') ?? '')).toLowerCase();
    if (known !== '' && value && !found.meta.has(known)) found.meta.set(known, value);
  } else if (name === 'link') {
    found.links.push(attributes(inside));
  } else if (name === 'time') {
    found.time ??= attributes(inside).get('datetime') || undefined;
  } else if (
    name === 'div' &&
    /\bid\s*=\s*["']?(root|app|__next|__nuxt|___gatsby)\b/.test(inside)
  ) {
    found.needsScripts = true;
  }
}
