import { dot } from './document.ts';
import type { Common } from './rows.ts';

/** A neighbour nearer by this much has a say 2.7 times as strong. */
const temperature = 0.1;
/** Neighbours nearer than unrelated articles by less than this count less than knowing nothing. */
const similarityOver = 0.3;
const similarityMax = 0.9;
const dayMs = 86_400_000;

/** A text's length as a feature: 0 at 400 words, 1 at 1,800. */
export function lengthFeature(words: number): number {
  return (Math.log1p(words) - 6) / 1.5;
}

/** An article's age as a feature: 0 at two days or when it is not known, 1 at two weeks. */
export function ageFeature(publishedAt: number, now: number): number {
  if (Number.isNaN(publishedAt)) return 0;
  return (Math.log1p(Math.max(0, now - publishedAt) / dayMs) - 1) / 1.7;
}

/**
 * The cosine at which a neighbour counts as much as knowing nothing. In languages that the model
 * does not know, unrelated articles are alike too: their mean tells how much.
 */
export function similarityUnknown({ centre }: Common): number {
  return Math.min(similarityMax, similarityOver + dot(centre, centre));
}

/** The say of a neighbour at this cosine. */
export function neighbourWeight(similarity: number, unknown: number): number {
  return Math.exp((similarity - unknown) / temperature);
}
