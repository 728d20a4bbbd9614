export { rankerProgram, runProgram } from './commands/program.ts';
export { type RankerErrorCode, rankerError, UnavailableArticleError } from './errors.ts';
export type { Feed, FeedAnswer, FeedItem } from './feeds/feed.ts';
export { formatOpml, type OpmlFeed, parseOpml } from './feeds/opml.ts';
export type {
  Article as FetchedArticle,
  ArticleAnswer,
  ArticleSource,
} from './fetching/article.ts';
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
export { Arena } from './learn/arena.ts';
export { Background } from './learn/background.ts';
export {
  type Calibration,
  calibrate,
  fitCalibration,
  identityCalibration,
  isotonicFit,
  plattFit,
  type Said,
} from './learn/calibration.ts';
export { SymmetricSolver } from './learn/conjugate-gradient.ts';
export {
  type Article,
  type ArticleText,
  type EmbeddedDocument,
  emptyDocument,
  isSameModel,
  type ModelName,
  type RatedArticle,
} from './learn/document.ts';
export {
  Embedder,
  type EmbedderOptions,
  type EmbedderStats,
  type EmbedOptions,
} from './learn/embedder.ts';
export { defaultModel, type EmbeddingModel, type Precision } from './learn/embedding-model.ts';
export { type Evaluation, type Quality, quality } from './learn/evaluation.ts';
export {
  ageFeature,
  featureCount,
  featureNames,
  featurePenalties,
  featureWeights,
  lengthFeature,
  trainingFeatures,
} from './learn/features.ts';
export { Foreground } from './learn/foreground.ts';
export { type Learned, type LearningPlan, learnTaste } from './learn/learning.ts';
export { Network, type NetworkInput, type NetworkShape, networkSize } from './learn/network.ts';
export { foldOf, type PackedArticles, packArticles } from './learn/packed-articles.ts';
export { growRows, noRows, type RatedColumns, type RatedRows } from './learn/rated-rows.ts';
export { fitRidge, type Ridge } from './learn/ridge.ts';
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
export { chunksOf, countWords, sentencesMax, sentencesOf } from './learn/sentences.ts';
export { Shelf, type ShelfOptions } from './learn/shelf.ts';
export {
  type AskOptions,
  type LoadOptions,
  type Ranking,
  Tastes,
  type TastesOptions,
} from './learn/tastes.ts';
export { packTrained, type Trained, unpackTrained, untrained } from './learn/trained.ts';
export type {
  CrossValidatedErrors,
  TrainingKind,
  TrainingRecord,
  TrainingStatus,
} from './learn/training.ts';
export {
  type RatedSource,
  TrainingQueue,
  type TrainingQueueOptions,
} from './learn/training-queue.ts';
export { VectorIndex } from './learn/vector-index.ts';
export { type OpenRankerOptions, openRanker, type RankerService } from './open-ranker.ts';
export { areaUnderCurve } from './ranking/area-under-curve.ts';
export { ArticleRanking, type ArticleRankingOptions } from './ranking/article-ranking.ts';
export { type DocumentEmbedder, Library } from './ranking/library.ts';
export { RankerReader } from './ranking/ranker-reader.ts';
export { sampleArticles } from './ranking/samples.ts';
export { UserTastes } from './ranking/user-tastes.ts';
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
export { atOnce, inSlices, type Slices } from './reader/slices.ts';
export { requireKey } from './server/access.ts';
export { type RankBatch, rankLines } from './server/rank-lines.ts';
export { type RankerLanes, rankerLanes } from './server/ranker-lanes.ts';
export { type TrainingRoutesOptions, trainingRoutes } from './server/training-routes.ts';
export { type Settings, settingRules } from './setting-list.ts';
export { readSettings, shownSettings } from './settings.ts';
export { modelText, type VectorSummary, VectorsCorruptError } from './storage/article-vectors.ts';
export { Articles, articleId, type StoredArticle } from './storage/articles.ts';
export { Feeds, type StoredFetch } from './storage/feeds.ts';
export { KeptTastes } from './storage/kept-tastes.ts';
export { rankerMigrations } from './storage/migrations.ts';
export type { RankerSchema } from './storage/ranker-schema.ts';
export { RankerStorage, type RankerStorageOptions } from './storage/ranker-storage.ts';
export {
  type Accuracy,
  type Correction,
  type RatedUrl,
  type Rating,
  Ratings,
} from './storage/ratings.ts';
export { Rules } from './storage/rules.ts';
export { type ShelfQuery, type ShelvedArticle, Shelves } from './storage/shelves.ts';
export { type KeptTraining, Trainings } from './storage/trainings.ts';
export { type User, Users } from './storage/users.ts';
export { Vectors } from './storage/vectors.ts';
