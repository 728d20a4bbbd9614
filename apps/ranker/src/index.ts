export { Arena } from './learn/arena.ts';
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
export { type Learned, type LearningPlan, learnTaste } from './learn/learning.ts';
export { Network, type NetworkInput, type NetworkShape, networkSize } from './learn/network.ts';
export { foldOf, type PackedArticles, packArticles } from './learn/packed-articles.ts';
export {
  growRows,
  noRows,
  type RatedColumns,
  type RatedRows,
} from './learn/rated-rows.ts';
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
