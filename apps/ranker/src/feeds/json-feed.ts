import { UnavailableError } from '../fetching/unavailable.ts';
import type { RawFeed, RawItem } from './parse-feed.ts';

type Fields = Readonly<Record<string, unknown>>;

/** JSON Feed 1.0 and 1.1. */
export function readJsonFeed(text: string): RawFeed {
  const feed = parse(text);
  if (!String(feed.version).includes('jsonfeed.org/version/')) {
    throw new UnavailableError('not_feed', 'JSON, but not a JSON Feed');
  }
  if (!Array.isArray(feed.items)) throw new UnavailableError('broken_feed', 'it has no items');
  const author = authorOf(feed);
  return {
    title: { text: textOf(feed.title) ?? '' },
    siteUrl: textOf(feed.home_page_url),
    base: undefined,
    language: textOf(feed.language),
    items: feed.items.map((item) => readItem(Object(item), author)),
  };
}

function parse(text: string): Fields {
  try {
    return Object(JSON.parse(text));
  } catch (error) {
    const isFeed = text.slice(0, 4_096).includes('jsonfeed.org/version/');
    const reason = isFeed ? 'broken_feed' : 'not_feed';
    throw new UnavailableError(reason, (error as Error).message);
  }
}

function readItem(item: Fields, feedAuthor: string | undefined): RawItem {
  const html = textOf(item.content_html);
  const plain = textOf(item.content_text) ?? textOf(item.summary) ?? '';
  return {
    id: textOf(item.id),
    url: textOf(item.url) ?? textOf(item.external_url),
    title: { text: textOf(item.title) ?? '' },
    content: html === undefined ? { text: plain } : { html },
    author: authorOf(item) ?? feedAuthor,
    published: textOf(item.date_published) ?? textOf(item.date_modified),
    image: textOf(item.image) ?? textOf(item.banner_image),
    tags: Array.isArray(item.tags) ? item.tags.flatMap((tag) => textOf(tag) ?? []) : [],
  };
}

function authorOf({ authors, author }: Fields): string | undefined {
  const first = Array.isArray(authors) ? authors[0] : author;
  return textOf(Object(first).name);
}

/** Numbers are found where texts belong, mostly as ids. */
function textOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && text.trim() !== '' ? text.trim() : undefined;
}
