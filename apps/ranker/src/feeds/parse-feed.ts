import { createHash } from 'node:crypto';
import { decodeHTMLStrict } from 'entities/decode';
import { type AnyFeed, parseFeed as parse } from 'feedsmith';
import { webUrl } from '../fetching/canonical-url.ts';
import { plainText, tidyText } from '../fetching/html-scan.ts';
import { imagesIn, leadImage } from '../fetching/page-images.ts';
import { UnavailableError } from '../fetching/unavailable.ts';
import type { Feed, FeedItem } from './feed.ts';
import {
  type FeedText,
  fromAtom,
  fromJson,
  fromRss,
  type RawFeed,
  type RawItem,
} from './formats.ts';
import { readDate } from './read-date.ts';
import { hasManyAttributes, tooManyAttributes } from './xml.ts';

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
  const raw = readFeed(text);
  const base = webUrl(raw.base ?? '', url)?.href ?? url;
  const items = new Map<string, FeedItem>();
  for (const one of newestOf(raw.items)) {
    const item = readItem(one, base);
    if (item === undefined) continue;
    // Some feeds give all entries one id: pages tell them apart.
    const key = item.url ?? item.id;
    if (!items.has(key)) items.set(key, item);
  }
  return {
    url,
    title: titleText(raw.title) || new URL(url).hostname,
    siteUrl: raw.siteUrl && webUrl(raw.siteUrl, base)?.href,
    items: [...items.values()],
  };
}

/** As many entries as are read; some feeds with all there ever was have the newest at the end. */
function newestOf(items: readonly RawItem[]): readonly RawItem[] {
  if (items.length <= itemsMax) return items;
  const dated = items.map((item) => ({ item, at: readDate(item.published ?? '') ?? 0 }));
  const sorted = dated.sort((one, other) => other.at - one.at);
  return sorted.slice(0, itemsMax).map(({ item }) => item);
}

/** The entries of a feed of any format, as they are written there. */
function readFeed(text: string): RawFeed {
  const isFeed = /<(rss|feed|\w+:RDF)[\s>]|jsonfeed\.org\/version\//.test(text.slice(0, 4_096));
  // A page, a picture or an archive is not a feed that broke.
  const reason = isFeed ? 'broken_feed' : 'not_feed';
  if (hasManyAttributes(text)) throw new UnavailableError(reason, tooManyAttributes);
  let read: AnyFeed;
  try {
    read = parse<string>(text.trimStart());
  } catch (error) {
    throw new UnavailableError(reason, (error as Error).message);
  }
  if (read.format === 'atom') return fromAtom(read.feed);
  return read.format === 'json' ? fromJson(read.feed) : fromRss(read.feed);
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
  // Postgres takes no NUL, which JSON may name.
  const clean = plain.replaceAll('\0', '').replace(/\s+/g, ' ').trim();
  return clean.slice(0, titleCharsMax).toWellFormed();
}

function contentText({ text, html = '' }: FeedText): string {
  const plain = text === undefined ? plainText(html) : tidyText(text);
  return plain.slice(0, textCharsMax).toWellFormed();
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
