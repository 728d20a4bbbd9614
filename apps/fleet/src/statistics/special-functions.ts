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
 * The {@link upperQuantile} of a chance given by its logarithm, at most ln 0.5: a chance that is
 * too small for a number has one.
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

/** The chance that a chi-square variable exceeds `value`; the degrees of freedom must be even. */
export function chiSquareTail(value: number, degrees: number): number {
  // With 2m degrees this is the chance of fewer than m Poisson events; logarithms, because single
  // terms leave the range of numbers for some thousand degrees.
  const mean = value / 2;
  if (mean <= 0) return 1;
  let logTerm = -mean;
  let total = Math.exp(logTerm);
  for (let event = 1; event < degrees / 2; event += 1) {
    logTerm += Math.log(mean / event);
    total += Math.exp(logTerm);
  }
  return Math.min(1, total);
}

/** Finds the root of a continuous function between two points of different sign (Brent). */
export function root(f: (x: number) => number, low: number, high: number): number {
  let a = low;
  let b = high;
  let fa = f(a);
  let fb = f(b);
  let c = a;
  let fc = fa;
  let before = b - a;
  let step = before;
  for (let round = 0; round < 200; round += 1) {
    if (fb > 0 === fc > 0) {
      [c, fc] = [a, fa];
      before = b - a;
      step = before;
    }
    if (Math.abs(fc) < Math.abs(fb)) [a, b, c, fa, fb, fc] = [b, c, b, fb, fc, fb];
    const tolerance = 2 * Number.EPSILON * Math.abs(b) + 1e-15;
    const half = (c - b) / 2;
    if (Math.abs(half) <= tolerance || fb === 0) return b;
    const guess = interpolate({ a, b, c, fa, fb, fc });
    const good =
      Math.abs(before) >= tolerance &&
      guess * Math.sign(half) > 0 &&
      Math.abs(guess) < Math.min(1.5 * Math.abs(half), Math.abs(before / 2));
    before = good ? step : half;
    step = good ? guess : half;
    [a, fa] = [b, fb];
    b += Math.abs(step) > tolerance ? step : Math.sign(half) * tolerance;
    fb = f(b);
  }
  return b;
}

type Points = Readonly<Record<'a' | 'b' | 'c' | 'fa' | 'fb' | 'fc', number>>;

/** The step from b to where a secant, or a parabola through three points, meets zero. */
function interpolate({ a, b, c, fa, fb, fc }: Points): number {
  if (a === c) return (-fb * (b - a)) / (fb - fa);
  const r = fb / fc;
  const s = fb / fa;
  const t = fa / fc;
  const p = s * (t * (r - t) * (c - b) - (1 - r) * (b - a));
  return p / ((t - 1) * (r - 1) * (s - 1));
}
