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
