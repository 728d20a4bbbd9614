export type { Feed, FeedAnswer, FeedItem } from './feeds/feed.ts';
export type { OpmlFeed } from './feeds/opml.ts';
export type { Article, ArticleAnswer, ArticleSource } from './fetching/article.ts';
export type { Fetcher, FetcherOptions, FetchOptions } from './fetching/fetcher.ts';
export {
  type Unavailable,
  type UnavailableReason,
  unavailableReasons,
  type Validators,
} from './fetching/unavailable.ts';
