import { scoreMax, scoreMin } from './score.ts';

/** Maps what a model says to a score: straight lines between these points, which only rise. */
export interface Calibration {
  readonly kind: 'identity' | 'isotonic' | 'platt';
  readonly raw: Float32Array;
  readonly scores: Float32Array;
}

/** With fewer samples a fit would follow chance. */
const samplesMin = 20;
/** A fit must be better than leaving things as they are by this share of the squared error. */
const gainMin = 0.01;
/** Beyond the outermost points the line goes on this steeply, so that order is never lost. */
const slopeOutside = 0.1;
const tries = 5;

const nothing = new Float32Array(0);
export const identityCalibration: Calibration = { kind: 'identity', raw: nothing, scores: nothing };

export function calibrate({ raw, scores }: Calibration, value: number): number {
  const last = raw.length - 1;
  if (last < 0) return value;
  const [low, high] = [raw[0] as number, raw[last] as number];
  if (value <= low) return (scores[0] as number) - slopeOutside * (low - value);
  if (value >= high) return (scores[last] as number) + slopeOutside * (value - high);
  let [below, above] = [0, last];
  while (above - below > 1) {
    const middle = (below + above) >> 1;
    if ((raw[middle] as number) <= value) below = middle;
    else above = middle;
  }
  const [x0, x1] = [raw[below] as number, raw[above] as number];
  const [y0, y1] = [scores[below] as number, scores[above] as number];
  return y0 + ((y1 - y0) * (value - x0)) / (x1 - x0);
}

/** One sample: the raw score for an article that the model had not seen, and its rating. */
export interface Prediction {
  readonly raw: number;
  readonly score: number;
}

/** The fit that errs least on samples it has not seen; identity if none helps or they are few. */
export function fitCalibration(samples: readonly Prediction[]): Calibration {
  if (samples.length < samplesMin) return identityCalibration;
  const fits = [() => identityCalibration, plattFit, isotonicFit];
  const errors = fits.map((fit) => crossError(samples, fit));
  const identity = errors[0] as number;
  const best = errors.indexOf(Math.min(...errors));
  const isBetter = (errors[best] as number) < identity * (1 - gainMin);
  return isBetter ? (fits[best] as typeof plattFit)(samples) : identityCalibration;
}

function crossError(
  samples: readonly Prediction[],
  fit: (part: readonly Prediction[]) => Calibration,
): number {
  let error = 0;
  for (let turn = 0; turn < tries; turn += 1) {
    const calibration = fit(samples.filter((_, at) => at % tries !== turn));
    for (let at = turn; at < samples.length; at += tries) {
      const { raw, score } = samples[at] as Prediction;
      error += (calibrate(calibration, raw) - score) ** 2;
    }
  }
  return error;
}

/** The rising steps nearest to the samples, as a line through the middle of each step. */
export function isotonicFit(samples: readonly Prediction[]): Calibration {
  const sorted = [...samples].sort((one, other) => one.raw - other.raw);
  const steps: { raw: number; score: number; weight: number }[] = [];
  for (const { raw, score } of sorted) {
    let step = { raw, score, weight: 1 };
    for (let last = steps.at(-1); last && mustJoin(last, step); last = steps.at(-1)) {
      steps.pop();
      const weight = last.weight + step.weight;
      const mix = (a: number, b: number, of: typeof step) =>
        (a * of.weight + b * step.weight) / weight;
      step = {
        raw: mix(last.raw, step.raw, last),
        score: mix(last.score, step.score, last),
        weight,
      };
    }
    steps.push(step);
  }
  const [raw, scores] = [steps.map((step) => step.raw), steps.map((step) => step.score)];
  return { kind: 'isotonic', raw: Float32Array.from(raw), scores: Float32Array.from(scores) };
}

/** Steps that do not rise become one, as do those too near for a line between them. */
function mustJoin(last: { raw: number; score: number }, next: { raw: number; score: number }) {
  return last.score >= next.score || next.raw - last.raw < 1e-3;
}

/** A logistic curve between the lowest and the highest score, by Newton's method. */
export function plattFit(samples: readonly Prediction[]): Calibration {
  const middle = samples.reduce((sum, { raw }) => sum + raw, 0) / samples.length;
  let [slope, offset] = [0.4, 0];
  const curve = (raw: number) => 1 / (1 + Math.exp(-slope * (raw - middle) - offset));
  for (let round = 0; round < 30; round += 1) {
    // A little of a penalty keeps the slope finite when the samples can be told apart perfectly.
    let [gSlope, gOffset, hSlope, hBoth, hOffset] = [0.1 * (slope - 0.4), 0, 0.1, 0, 1e-6];
    for (const { raw, score } of samples) {
      const chance = curve(raw);
      const wanted = (score - scoreMin) / (scoreMax - scoreMin);
      const [x, spread] = [raw - middle, chance * (1 - chance)];
      gSlope += (chance - wanted) * x;
      gOffset += chance - wanted;
      hSlope += spread * x * x;
      hBoth += spread * x;
      hOffset += spread;
    }
    const determinant = hSlope * hOffset - hBoth * hBoth;
    slope -= (hOffset * gSlope - hBoth * gOffset) / determinant;
    offset -= (hSlope * gOffset - hBoth * gSlope) / determinant;
  }
  if (!(slope > 0) || !Number.isFinite(offset)) return identityCalibration;
  const raw = Float32Array.from({ length: 41 }, (_, at) => -1 + at * 0.325);
  const scores = raw.map((value) => scoreMin + (scoreMax - scoreMin) * curve(value));
  return { kind: 'platt', raw, scores };
}
