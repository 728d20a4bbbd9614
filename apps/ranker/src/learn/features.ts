import { dot } from './document.ts';
import { type Common, type Neighbours, neighboursUsed, noRow } from './rows.ts';

/** A neighbour whose cosine is greater by this much has 2.7 times the weight. */
const temperature = 0.1;
/** The distance above unrelated articles at which a neighbour counts as much as the prior. */
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
 * The cosine at which a neighbour counts as much as the prior. In languages that the model does
 * not know, unrelated articles have high cosines, too: their mean is the baseline.
 */
export function similarityUnknown({ centre }: Common): number {
  return Math.min(similarityMax, similarityOver + dot(centre, centre));
}

/** The weight of a neighbour at this cosine. */
export function neighbourWeight(similarity: number, unknown: number): number {
  return Math.exp((similarity - unknown) / temperature);
}

/**
 * The mean of the nearest scores above `start`, by how near they are: a weight of 1 for 0 draws it
 * to 0. The second number is the cosine to the nearest one, from 0 to 1. Scores to be left out
 * are NaN; the scores of ratings that are newer than this version are missing.
 */
export function neighbourFeature(
  { nearest, similarities, size }: Neighbours,
  place: number,
  scores: Float32Array,
  { start, unknown }: { readonly start: number; readonly unknown: number },
): { readonly feature: number; readonly support: number } {
  let sum = 0;
  let weights = 1;
  let used = 0;
  let support = 0;
  for (let at = place * size; at < (place + 1) * size && used < neighboursUsed; at += 1) {
    const row = nearest[at] as number;
    if (row === noRow) break;
    const score = scores[row];
    if (score === undefined || Number.isNaN(score)) continue;
    const similarity = similarities[at] as number;
    support = Math.max(support, Math.min(1, similarity));
    const weight = neighbourWeight(similarity, unknown);
    sum += weight * (score - start);
    weights += weight;
    used += 1;
  }
  return { feature: sum / weights, support };
}
