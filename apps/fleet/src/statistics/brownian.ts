import { normalCdf } from './normal.ts';

/** A Brownian motion that starts at 0 and ends where it meets `a` (below 0) or `b` (above 0). */
export interface Brownian {
  readonly a: number;
  readonly b: number;
  readonly drift: number;
  readonly variance: number;
}

/** Far more than the series needs where it is used: about 20. */
const termsMax = 1000;

/** The chance that by `time` the motion has ended at `a`, or stands or ended at most at `y`. */
export function outcomeCdf(motion: Brownian, time: number, y: number): number {
  const { a, b, drift, variance } = motion;
  const width = b - a;
  const pull = drift / variance;
  // The series needs too many terms for a short time, and overflows for a strong drift.
  const free = (variance * time) / width ** 2 < 0.01 || Math.abs(pull * width) > 15;
  return free ? almostFree(motion, time, y) : bySeries(motion, time, y);
}

function bySeries({ a, b, drift, variance }: Brownian, time: number, y: number): number {
  const width = b - a;
  const pull = drift / variance;
  const [x, end] = [-a, y - a];
  const rate = (n: number) =>
    (((n * Math.PI) / width) ** 2 * variance) / 2 + drift ** 2 / (2 * variance);
  const factor = Math.exp(-rate(1) * time - x * pull + end * pull);
  let total = 0;
  for (let n = 1; n <= termsMax; n += 1) {
    const angle = (Math.PI * n * end) / width;
    const u =
      (2 * width * pull * Math.sin(angle) - 2 * Math.PI * n * Math.cos(angle)) /
      (width ** 2 * pull ** 2 + Math.PI ** 2 * n ** 2);
    const term = Math.exp(-(rate(n) - rate(1)) * time) * u;
    total += term * Math.sin((n * Math.PI * x) / width);
    if (Math.abs(factor * term) <= 1e-9) break;
  }
  return chanceOfLower(pull * width, pull * x, x / width) + factor * total;
}

/** The chance to end at the lower bound, if time does not matter. */
function chanceOfLower(pullWidth: number, pullStart: number, share: number): number {
  if (Math.abs(pullWidth) < 1e-8) return 1 - share;
  if (pullWidth > 30) return Math.exp(-2 * pullStart);
  return (1 - Math.exp(2 * (pullWidth - pullStart))) / (1 - Math.exp(2 * pullWidth));
}

/** The free motion, and the first mirror image at each bound. */
function almostFree({ a, b, drift, variance }: Brownian, time: number, y: number): number {
  const pull = drift / variance;
  const deviation = Math.sqrt(time * variance);
  const free = (y - drift * time) / deviation;
  const atA = (-y + drift * time + 2 * a) / deviation;
  const atB = (y - drift * time - 2 * b) / deviation;
  return normalCdf(free) + image(pull * a, atA) - image(pull * b, atB);
}

/** exp(2·weight) · Φ(z), by the tail's asymptote where the two factors would overflow. */
function image(weight: number, z: number): number {
  if (weight < 5) return Math.exp(2 * weight) * normalCdf(z);
  const density = Math.exp((-z * z) / 2 + 2 * weight) / Math.sqrt(2 * Math.PI);
  return -density * (1 / z - 1 / z ** 3);
}
