import { createHash } from 'node:crypto';
import { decodeHTMLStrict } from 'entities/decode';
import { webUrl } from '../fetching/canonical-url.ts';
import { plainText, tidyText } from '../fetching/html-scan.ts';
import { imagesIn, leadImage } from '../fetching/page-images.ts';
import { UnavailableError } from '../fetching/unavailable.ts';
import { readAtom } from './atom.ts';
import type { Feed, FeedItem } from './feed.ts';
import { readJsonFeed } from './json-feed.ts';
import { readDate } from './read-date.ts';
import { readRss } from './rss.ts';
import { child, parseXml } from './xml.ts';

/** Text of a feed: plain, or markup. */
export interface FeedText {
  readonly text?: string | undefined;
  readonly html?: string | undefined;
}

/** An entry as its format has it, nothing resolved or cleaned yet. */
export interface RawItem {
  readonly id: string | undefined;
  readonly url: string | undefined;
  readonly title: FeedText;
  readonly content: FeedText;
  readonly author: string | undefined;
  readonly published: string | undefined;
  /** The address of a picture that is not in its content. */
  readonly image: string | undefined;
  readonly tags: readonly string[];
}

/** A feed as its format has it. */
export interface RawFeed {
  readonly title: FeedText;
  readonly siteUrl: string | undefined;
  /** The base of relative addresses, if the feed names one. */
  readonly base: string | undefined;
  readonly language: string | undefined;
  readonly items: readonly RawItem[];
}

const itemsMax = 1_000;
const idCharsMax = 1_000;
const titleCharsMax = 500;
const textCharsMax = 100_000;
const tagsMax = 30;
const tagCharsMax = 100;
/** Markup that people put into titles; anything else between brackets is meant to be read. */
const titleMarkup =
  /<\/?(a|b|br|cite|code|div|em|font|h\d|i|img|mark|p|s|small|span|strong|su[bp]|u)\b[^<>]*>/gi;

/** A feed of any format; throws an `UnavailableError` for what is none or cannot be read. */
export function parseFeed(text: string, url: string): Feed {
  const raw = /^\s*\{/.test(text) ? readJsonFeed(text) : readXmlFeed(text);
  const base = webUrl(raw.base ?? '', url)?.href ?? url;
  const items = new Map<string, FeedItem>();
  for (const one of raw.items.slice(0, itemsMax)) {
    const item = readItem(one, base);
    if (item !== undefined && !items.has(item.id)) items.set(item.id, item);
  }
  return {
    url,
    title: titleText(raw.title) || new URL(url).hostname,
    siteUrl: raw.siteUrl && webUrl(raw.siteUrl, base)?.href,
    language: /^[a-z]{2,3}([-_][a-z\d]{2,8})*$/i.exec(raw.language ?? '')?.[0].replace('_', '-'),
    items: [...items.values()],
  };
}

function readXmlFeed(text: string): RawFeed {
  const document = parseXml(text);
  if ('broken' in document && typeof document.broken === 'string') {
    // A page, a picture or an archive is not a feed that broke.
    const isFeed = /<(rss|feed|\w+:RDF)[\s>]/.test(text.slice(0, 4_096));
    throw new UnavailableError(isFeed ? 'broken_feed' : 'not_feed', document.broken);
  }
  const feed = child(document, 'feed');
  if (feed !== undefined) return readAtom(feed);
  const root = child(document, 'rss') ?? child(document, 'rdf:RDF');
  if (root !== undefined) return readRss(root);
  throw new UnavailableError('not_feed', 'neither RSS nor Atom nor JSON Feed');
}

function readItem(raw: RawItem, base: string): FeedItem | undefined {
  const url = raw.url ? webUrl(raw.url, base)?.href : undefined;
  const title = titleText(raw.title);
  const text = contentText(raw.content);
  if (url === undefined && title === '' && text === '') return undefined;
  const shown = imagesIn(raw.content.html ?? '', url ?? base);
  const images = shown.length > 0 ? shown : leadImage(raw.image, url ?? base);
  const tags = tagsOf(raw.tags);
  return {
    id: (raw.id || url || digest(`${title}\n${text}`)).slice(0, idCharsMax),
    url,
    title: title || text.slice(0, 80) || (url ?? ''),
    text,
    author: raw.author?.slice(0, titleCharsMax) || undefined,
    published: raw.published === undefined ? undefined : readDate(raw.published),
    ...(images.length > 0 && { images }),
    ...(tags.length > 0 && { tags }),
  };
}

function tagsOf(tags: readonly string[]): string[] {
  const tidy = tags.map((tag) => tag.replace(/\s+/g, ' ').trim().slice(0, tagCharsMax));
  return [...new Set(tidy)].filter(Boolean).slice(0, tagsMax);
}

function titleText({ text, html = '' }: FeedText): string {
  const plain = text ?? decodeHTMLStrict(html.replace(titleMarkup, ' '));
  return plain.replace(/\s+/g, ' ').trim().slice(0, titleCharsMax).toWellFormed();
}

function contentText({ text, html = '' }: FeedText): string {
  const plain = text === undefined ? plainText(html) : tidyText(text);
  return plain.slice(0, textCharsMax).toWellFormed();
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
