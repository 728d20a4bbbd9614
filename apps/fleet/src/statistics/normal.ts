const sqrtTwoPi = Math.sqrt(2 * Math.PI);

/** The chance that a standard normal variable is below z. */
export function normalCdf(z: number): number {
  return z > 0 ? 1 - upperTail(z) : upperTail(-z);
}

/** The z that a standard normal variable exceeds with a chance of at most one half. */
export function upperQuantile(chance: number): number {
  return upperQuantileOfLog(Math.log(chance));
}

/**
 * The same from the chance's logarithm, at most ln 0.5: chances too small for a number have one.
 * The logarithm of the tail is concave, so Newton's steps from the right never overshoot far.
 */
export function upperQuantileOfLog(logChance: number): number {
  let z = Math.sqrt(Math.max(0, -2 * logChance));
  for (let round = 0; round < 100; round += 1) {
    const ratio = millsRatio(z);
    const logTail = Math.log(ratio / sqrtTwoPi) - (z * z) / 2;
    const step = (logTail - logChance) * ratio;
    z += step;
    // Each step squares the error, so what is left after this one is below rounding.
    if (Math.abs(step) <= 1e-9 * Math.max(1, z)) break;
  }
  return z;
}

function upperTail(z: number): number {
  return (Math.exp((-z * z) / 2) / sqrtTwoPi) * millsRatio(z);
}

/** Upper tail divided by density, for z from 0: it neither underflows nor cancels. */
function millsRatio(z: number): number {
  return z < 3 ? nearMillsRatio(z) : farMillsRatio(z);
}

/** By the series of the lower half: its terms are all positive. */
function nearMillsRatio(z: number): number {
  let term = z;
  let total = z;
  for (let odd = 3; term > total * 1e-17; odd += 2) {
    term *= (z * z) / odd;
    total += term;
  }
  return (sqrtTwoPi / 2) * Math.exp((z * z) / 2) - total;
}

/** By Laplace's continued fraction, from the inside out; 60 terms are exact from z = 3. */
function farMillsRatio(z: number): number {
  let below = z;
  for (let term = 60; term >= 1; term -= 1) below = z + term / below;
  return 1 / below;
}
