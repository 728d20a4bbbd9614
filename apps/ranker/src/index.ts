export type { Feed, FeedAnswer, FeedItem } from './feeds/feed.ts';
export { formatOpml, type OpmlFeed, parseOpml } from './feeds/opml.ts';
export type { Article, ArticleAnswer, ArticleSource } from './fetching/article.ts';
export type { BrowserStats } from './fetching/browser.ts';
export { canonicalUrl } from './fetching/canonical-url.ts';
export {
  Fetcher,
  type FetcherBrowser,
  type FetcherOptions,
  type FetcherStats,
  type FetchOptions,
} from './fetching/fetcher.ts';
export { isPublicAddress } from './fetching/public-address.ts';
export {
  type Unavailable,
  type UnavailableReason,
  unavailableReasons,
  type Validators,
} from './fetching/unavailable.ts';
