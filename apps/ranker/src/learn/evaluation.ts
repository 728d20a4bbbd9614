/** How good one way of scoring is, on articles rated after all that it learned from. */
export interface Quality {
  /** The chance that a liked article (8 and more) stands above a disliked one (3 and less). */
  readonly auc: number;
  /** How good the ten at the top are, from 0 to 1. */
  readonly ndcg10: number;
  /** The correlation of ranks, from -1 to 1. */
  readonly spearman: number;
  /** The mean distance to the reader's score, in points. */
  readonly mae: number;
}

/** What came of an evaluation on a split by time. */
export interface Evaluation {
  readonly trained: number;
  readonly tested: number;
  readonly constant: Quality;
  readonly neighbours: Quality;
  readonly ridge: Quality;
  readonly network: Quality;
  readonly served: Quality;
}
