import type { Feed } from '../feeds/feed.ts';
import { type OpmlList, parseOpml } from '../feeds/opml.ts';
import { parseFeed } from '../feeds/parse-feed.ts';
import { decodeText } from './charset.ts';
import { type Extraction, extractPage } from './extract-page.ts';
import { pageFacts } from './page-facts.ts';
import { UnavailableError, type UnavailableReason } from './unavailable.ts';

/** A body as it was received. */
export interface Document {
  readonly bytes: Uint8Array;
  readonly type: string;
  readonly url: string;
}

/** Extracts a page; undefined if the body is no text. */
export function page({ bytes, type, url }: Document): Extraction | undefined {
  const html = decodeText(bytes, type);
  // Real text has no zero characters; a picture or an archive has many.
  const zeros = html.slice(0, 4_096).split('\0').length - 1;
  return zeros > 4 ? undefined : extractPage(html, url);
}

/** A feed; or the reason why it is none; or the feeds that a page names which came instead. */
export type ParsedFeed =
  | Feed
  | { readonly refused: readonly [reason: UnavailableReason, detail: string] }
  | { readonly elsewhere: readonly string[] };

/** Reads a feed; an error would lose its class on its way to another thread. */
export function feed({ bytes, type, url }: Document): ParsedFeed {
  const text = decodeText(bytes, type);
  if (/<(!doctype\s+html|html)\b/i.test(text.slice(0, 1_000))) {
    return { elsewhere: pageFacts(text).feeds };
  }
  try {
    return parseFeed(text, url);
  } catch (error) {
    if (error instanceof UnavailableError) return { refused: [error.reason, error.detail] };
    throw error;
  }
}

/** Reads a subscription list; a text is the reason why it is none. */
export function opml(sent: string | Uint8Array): OpmlList | string {
  try {
    return parseOpml(typeof sent === 'string' ? sent : decodeText(sent, ''));
  } catch (error) {
    return (error as Error).message;
  }
}
