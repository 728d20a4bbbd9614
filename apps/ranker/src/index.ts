export { duplicateMsMax, type Groups, groupDuplicates, isDuplicate } from './reader/duplicates.ts';
export { type Listing, type OrderOptions, order, type Place } from './reader/order.ts';
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
export { atOnce, inSlices, type Slices } from './reader/slices.ts';
