import type { Clock } from 'spillway';
import type { FeedAnswer } from '../feeds/feed.ts';
import type { OpmlFeed } from '../feeds/opml.ts';
import type { ArticleAnswer } from './article.ts';
import type { Validators } from './unavailable.ts';

export interface FetcherOptions {
  /** Whether an address that is not public may be reached all the same. @default none may */
  readonly allow?: ((address: string) => boolean) | undefined;
  /** The browser for pages that need scripts; 'auto' looks for one. @default 'auto' */
  readonly browser?: 'auto' | 'off' | { readonly path: string } | undefined;
  readonly clock?: Clock | undefined;
}

export interface FetchOptions {
  /** What an earlier answer came with. @default none */
  readonly validators?: Validators | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The way to pages and feeds of others. Answers say what the world said; it rejects only when busy
 * (`LANE_FULL`, `BUCKET_FULL`, `POOL_FULL`), late, or with the signal's reason.
 */
export interface Fetcher extends AsyncDisposable {
  fetchArticle(url: string, options?: FetchOptions): Promise<ArticleAnswer>;
  fetchFeed(url: string, options?: FetchOptions): Promise<FeedAnswer>;
  /** Rejects with `OPML_BROKEN` (status 400). */
  parseOpml(text: string, signal?: AbortSignal): Promise<OpmlFeed[]>;
  close(): Promise<void>;
}
