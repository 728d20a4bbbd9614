export { type Feed, type FeedAnswer, type FeedItem } from './feeds/feed.ts';
export { type OpmlFeed } from './feeds/opml.ts';
export { type Article as FetchedArticle, type ArticleAnswer, type ArticleSource } from './fetching/article.ts';
export { type Fetcher, type FetcherOptions, type FetchOptions } from './fetching/fetcher.ts';
export { type Unavailable, type UnavailableReason, unavailableReasons, type Validators } from './fetching/unavailable.ts';
export { type Article, type ArticleText, type EmbeddedDocument, emptyDocument, isSameModel, type ModelName, type RatedArticle } from './learn/document.ts';
export { type Evaluation, type Quality } from './learn/evaluation.ts';
export { clampScore, type Explanation, type Neighbour, type Reason, type Score, scoreMax, scoreMin, scoreUnknown, type Serving } from './learn/score.ts';
export { type CrossValidatedErrors, type TrainingKind, type TrainingRecord, type TrainingStatus } from './learn/training.ts';
