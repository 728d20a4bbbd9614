export { type RankerErrorCode, rankerError } from './errors.ts';
export type { Feed, FeedAnswer, FeedItem } from './feeds/feed.ts';
export type { OpmlFeed } from './feeds/opml.ts';
export type {
  Article as FetchedArticle,
  ArticleAnswer,
  ArticleSource,
} from './fetching/article.ts';
export type { Fetcher, FetcherOptions, FetchOptions } from './fetching/fetcher.ts';
export {
  type Unavailable,
  type UnavailableReason,
  unavailableReasons,
  type Validators,
} from './fetching/unavailable.ts';
export {
  type Article,
  type ArticleText,
  type EmbeddedDocument,
  emptyDocument,
  isSameModel,
  type ModelName,
  type RatedArticle,
} from './learn/document.ts';
export type { Evaluation, Quality } from './learn/evaluation.ts';
export {
  clampScore,
  type Explanation,
  type Neighbour,
  type Reason,
  type Score,
  type Serving,
  scoreMax,
  scoreMin,
  scoreUnknown,
} from './learn/score.ts';
export type {
  CrossValidatedErrors,
  TrainingKind,
  TrainingRecord,
  TrainingStatus,
} from './learn/training.ts';
export { Desks, type DesksOptions, type DesksStats } from './reader/desks.ts';
export { duplicateMsMax, type Groups, groupDuplicates, isDuplicate } from './reader/duplicates.ts';
export {
  FeedRefresh,
  type FeedRefreshOptions,
  type FeedRefreshStats,
} from './reader/feed-refresh.ts';
export {
  type FeedHistory,
  feedIntervalMsMax,
  feedIntervalMsMin,
  feedTurn,
} from './reader/feed-turn.ts';
export { type Listing, type OrderOptions, order, type Place } from './reader/order.ts';
export { type ReaderPagesOptions, readerPages } from './reader/reader-pages.ts';
export type {
  DueFeed,
  FeedClaim,
  FeedFetched,
  NewArticle,
  NewFeed,
  NewRule,
  ReaderAccuracy,
  ReaderArticle,
  ReaderExplanation,
  ReaderFeed,
  ReaderQuery,
  ReaderRule,
  ReaderShelf,
  ReaderStore,
  ReaderUser,
  ReaderVote,
} from './reader/reader-store.ts';
export { checkRule, RuleBook, ruleLengthMax, type Verdict } from './reader/rule-book.ts';
export { sampleArticles } from './reader/samples.ts';
export { atOnce, inSlices, type Slices } from './reader/slices.ts';
