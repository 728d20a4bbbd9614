/** Where a continuous function crosses zero between two points where its signs differ (Brent). */
export function root(f: (x: number) => number, low: number, high: number): number {
  let [a, b] = [low, high];
  let [fa, fb] = [f(a), f(b)];
  let [c, fc] = [a, fa];
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

interface Points {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly fa: number;
  readonly fb: number;
  readonly fc: number;
}

/** The step from b to where a secant, or a parabola through three points, meets zero. */
function interpolate({ a, b, c, fa, fb, fc }: Points): number {
  if (a === c) return (-fb * (b - a)) / (fb - fa);
  const [r, s, t] = [fb / fc, fb / fa, fa / fc];
  const p = s * (t * (r - t) * (c - b) - (1 - r) * (b - a));
  return p / ((t - 1) * (r - 1) * (s - 1));
}
