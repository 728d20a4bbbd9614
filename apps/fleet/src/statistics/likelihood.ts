import { type Distribution, meanOf, varianceOf } from './distribution.ts';
import { root } from './root.ts';

/** The likeliest distribution behind the observed one, given that its mean is `expected`. */
export function likeliestWithMean(seen: Distribution, expected: number): Distribution {
  const shifted = seen.values.map((value) => value - expected);
  return { values: seen.values, probabilities: tilted(seen.probabilities, shifted) };
}

const tValueRounds = 10;

/**
 * The likeliest distribution behind the observed one, given that its mean lies `tValue` of its own
 * standard deviations above `reference`. Each round solves the problem linearised at the last.
 */
export function likeliestWithTValue(
  seen: Distribution,
  reference: number,
  tValue: number,
): Distribution {
  const { values } = seen;
  let probabilities: readonly number[] = values.map(() => 1 / values.length);
  for (let round = 0; round < tValueRounds; round += 1) {
    const mean = meanOf({ values, probabilities });
    const deviation = Math.sqrt(varianceOf({ values, probabilities }, mean));
    const bent = values.map((value) => {
      const square = ((mean - value) / deviation) ** 2;
      return value - reference - (tValue * deviation * (1 + square)) / 2;
    });
    const last = probabilities;
    probabilities = tilted(seen.probabilities, bent);
    const moved = probabilities.map((one, at) => Math.abs(one - (last[at] as number)));
    if (Math.max(...moved) < 1e-9) break;
  }
  return { values, probabilities };
}

/** Divides each probability by 1 + x·value, with the x that makes the mean of the values zero. */
function tilted(probabilities: readonly number[], values: readonly number[]): number[] {
  const slope = (x: number): number => {
    let total = 0;
    for (let at = 0; at < values.length; at += 1) {
      const value = values[at] as number;
      total += ((probabilities[at] as number) * value) / (1 + x * value);
    }
    return total;
  };
  // Beyond these ends a probability would be negative; at them the sum has no value.
  const low = -1 / Math.max(...values) + 1e-9;
  const high = -1 / Math.min(...values) - 1e-9;
  const x = root(slope, low, high);
  return probabilities.map((one, at) => one / (1 + x * (values[at] as number)));
}
