import type { sideNames } from './model.ts';

/** The lowest and the highest score, and that of an article of which nothing is known. */
export const scoreMin = 1;
export const scoreMax = 10;
export const scoreUnknown = 5.5;

/** The sources of a score's points, in the order in which they are added up. */
export type Reason = 'start' | 'topic' | 'words' | (typeof sideNames)[number] | 'limits' | 'rated';

/** A rated article that is like this one. */
export interface Neighbour {
  readonly id: string;
  /** The cosine of the two. */
  readonly similarity: number;
  /** The reader's score of it. */
  readonly score: number;
  /** Its share of the weight of all neighbours, from 0 to 1. */
  readonly weight: number;
}

/** The reasons for a score. */
export interface Explanation {
  /** The nearest rated articles, nearest first. */
  readonly neighbours: readonly Neighbour[];
  /** The sentences that count most: the score falls by the points of one that is deleted. */
  readonly sentences: readonly { readonly index: number; readonly points: number }[];
  /** The n-grams that count most, by bucket. */
  readonly words: readonly { readonly bucket: number; readonly points: number }[];
  /** The mean rating of articles of this source, and their number. */
  readonly source: { readonly score: number; readonly ratings: number };
  /** Their sum is the score. */
  readonly contributions: readonly { readonly reason: Reason; readonly points: number }[];
}

/** A reader's predicted score for an article. */
export interface Score {
  /** From 1 to 10. */
  readonly score: number;
  /** The version of the taste that alone made this score. */
  readonly version: number;
  /** The cosine to the nearest rated article, from 0 to 1; with a low one the score is a guess. */
  readonly support: number;
  /** The error, in points, within which 8 of 10 ratings are. */
  readonly width: number;
  readonly explanation: Explanation;
}

/** The nearest score that is allowed. */
export function clampScore(score: number): number {
  return Math.min(scoreMax, Math.max(scoreMin, score));
}
