/** Frequency of each result, from worst to best: loss, draw, win, or the five of a pair. */
export type Counts = readonly number[];

/** Results of games from the new engine's side; the pentanomial counts pairs, if there is one. */
export interface Results {
  readonly wins: number;
  readonly losses: number;
  readonly draws: number;
  readonly pentanomial?: Counts | undefined;
}

/** Scores from 0 to 1 with their probabilities. */
export interface Distribution {
  readonly values: readonly number[];
  readonly probabilities: readonly number[];
}

/** Pairs if they were counted, else single games. */
export function countsOf(results: Results): Counts {
  return results.pentanomial ?? [results.losses, results.draws, results.wins];
}

/** No count is zero, so that logarithms of probabilities exist. */
export function regularized(counts: Counts): number[] {
  return counts.map((count) => (count === 0 ? 0.001 : count));
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** The observed distribution of the score, and how many samples it stands for. */
export function observed(counts: Counts): Distribution & { readonly samples: number } {
  const weights = regularized(counts);
  const samples = sum(weights);
  return {
    values: weights.map((_, at) => at / (weights.length - 1)),
    probabilities: weights.map((weight) => weight / samples),
    samples,
  };
}

export function meanOf({ values, probabilities }: Distribution): number {
  return values.reduce((total, value, at) => total + value * (probabilities[at] as number), 0);
}

export function varianceOf(distribution: Distribution, mean: number): number {
  return central(distribution, mean, 2);
}

/** The first four moments; skewness and excess kurtosis are those of the standardised score. */
export function moments(distribution: Distribution) {
  const mean = meanOf(distribution);
  const variance = central(distribution, mean, 2);
  return {
    mean,
    variance,
    skewness: central(distribution, mean, 3) / variance ** 1.5,
    excessKurtosis: central(distribution, mean, 4) / variance ** 2 - 3,
  };
}

function central({ values, probabilities }: Distribution, mean: number, power: number): number {
  let total = 0;
  for (let at = 0; at < values.length; at += 1) {
    total += (probabilities[at] as number) * ((values[at] as number) - mean) ** power;
  }
  return total;
}

/** Two for pairs, one for single games. */
export function gamesPerSample(counts: Counts): number {
  return (counts.length - 1) / 2;
}
