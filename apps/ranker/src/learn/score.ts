/** The lowest and the highest score, and what an article gets of which nothing is known. */
export const scoreMin = 1;
export const scoreMax = 10;
export const scoreUnknown = 5.5;

/** Where points of a score come from, in the order in which they are added up. */
export type Reason =
  | 'start'
  | 'topic'
  | 'profile'
  | 'neighbours'
  | 'source'
  | 'length'
  | 'age'
  | 'title'
  | 'calibration'
  | 'limits'
  | 'rated';

/** A rated article that is like this one. */
export interface Neighbour {
  readonly id: string;
  /** The cosine of the two. */
  readonly similarity: number;
  /** What its reader gave it. */
  readonly score: number;
  /** Its share of the neighbours' word, from 0 to 1. */
  readonly weight: number;
}

/** Why a score is what it is. */
export interface Explanation {
  /** The nearest rated articles, nearest first. */
  readonly neighbours: readonly Neighbour[];
  /** The sentences that count most, by number, with the points that each added. */
  readonly sentences: readonly { readonly index: number; readonly points: number }[];
  /** What articles of this source got, and how many there are. */
  readonly source: { readonly score: number; readonly ratings: number };
  /** Their sum is the score. */
  readonly contributions: readonly { readonly reason: Reason; readonly points: number }[];
}

/** What an article is worth to its reader. */
export interface Score {
  /** From 1 to 10. */
  readonly score: number;
  /** The version of the taste that alone made this score. */
  readonly version: number;
  /** How like it is to anything rated, from 0 to 1: low means that the score is a guess. */
  readonly support: number;
  readonly explanation: Explanation;
}

/** The nearest score that is allowed. */
export function clampScore(score: number): number {
  return Math.min(scoreMax, Math.max(scoreMin, score));
}
