import { crc32 } from 'node:zlib';
import {
  decimal,
  document,
  list,
  oneOf,
  optional,
  orElse,
  required,
  text,
  type ValueOf,
} from '../protocol/rules.ts';

type SpsaParam = ValueOf<typeof paramRule>;
const ends = ['start', 'min', 'max', 'c_end', 'r_end'] as const;
const paramRule = document({
  ...required(text, 'name'),
  ...required(decimal, ...ends, 'c', 'a_end', 'a', 'theta'),
});

/** One parameter at one moment of the tuning. */
type SpsaSample = ValueOf<typeof sampleRule>;
const sampleRule = document(required(decimal, 'theta', 'R', 'c'));

/** A tuning as it is stored with its run. */
export type Spsa = ValueOf<typeof spsaRule>;
export const spsaRule = document({
  ...required(decimal, 'A', 'alpha', 'gamma', 'iter', 'num_iter'),
  ...required(list(paramRule), 'params'),
  ...orElse('', text, 'raw_params'),
  ...optional(oneOf('classic'), 'algorithm'),
  ...optional(list(list(sampleRule)), 'param_history'),
});

export interface SpsaOptions {
  /** `name,start,min,max,c_end,r_end`, one parameter a line. */
  readonly rawParams: string;
  /** All games of the run; even. */
  readonly numGames: number;
  /** A as a share of the iterations; 0.1 if absent. */
  readonly ratioA?: number | undefined;
  /** Exponent by which steps shrink; 0.602 if absent. */
  readonly alpha?: number | undefined;
  /** Exponent by which trials narrow; 0.101 if absent. */
  readonly gamma?: number | undefined;
}

/** A tuning that starts; throws a RangeError that names the line it cannot use. */
export function newSpsa({
  rawParams,
  numGames,
  ratioA = 0.1,
  alpha = 0.602,
  gamma = 0.101,
}: SpsaOptions): Spsa {
  const A = Math.floor((ratioA * numGames) / 2);
  const num_iter = numGames / 2;
  const lines = rawParams.split('\n').filter((line) => line.trim() !== '');
  const params = lines.map((line) => newParam(line, { A, alpha, gamma, num_iter }));
  const common = { A, alpha, gamma, raw_params: rawParams, iter: 0, num_iter, params };
  return { algorithm: 'classic', ...common };
}

/**
 * The step of one parameter for results asked for at this iteration: size of its trials (`c`), and
 * gain with which results move it (`R`).
 */
export function spsaStep(
  { A, alpha, gamma }: Pick<Spsa, 'A' | 'alpha' | 'gamma'>,
  param: Pick<SpsaParam, 'a' | 'c'>,
  iter: number,
) {
  const k = iter + 1;
  const c = param.c / k ** gamma;
  return { c, R: param.a / (A + k) ** alpha / c ** 2 };
}

/** Parameters for a worker's games: the new engine one way from theta, the base the other. */
export function spsaTrial(spsa: Spsa, flips: readonly Flip[]) {
  const tried = spsa.params.map((param, at) => {
    const flip = flips[at] as Flip;
    return { param, flip, ...spsaStep(spsa, param, spsa.iter) };
  });
  return {
    w_params: tried.map(({ param, flip, c, R }) => {
      return { name: param.name, value: within(param, param.theta + c * flip), c, R, flip };
    }),
    b_params: tried.map(({ param, flip, c }) => {
      return { name: param.name, value: within(param, param.theta - c * flip) };
    }),
  };
}

/** The results of games that were played with these flips, asked for at this iteration. */
export interface SpsaOutcome {
  readonly iter: number;
  readonly packedFlips: ArrayLike<number>;
  readonly wins: number;
  readonly losses: number;
  readonly num_games: number;
}

/** Moves every parameter by the results, and adds samples to the history. */
export function updateSpsa(spsa: Spsa, outcome: SpsaOutcome): void {
  const flips = unpackFlips(outcome.packedFlips, spsa.params.length);
  const result = outcome.wins - outcome.losses;
  const steps = spsa.params.map((param) => spsaStep(spsa, param, outcome.iter));
  spsa.iter += outcome.num_games / 2;
  for (const [at, param] of spsa.params.entries()) {
    const { R, c } = steps[at] as (typeof steps)[number];
    param.theta = within(param, param.theta + R * c * result * (flips[at] as Flip));
  }
  const period = historyPeriod(spsa.num_iter, spsa.params.length);
  const history = spsa.param_history ?? [];
  if (period === 0 || history.length + 1 > spsa.iter / period) return;
  const sample = ({ theta }: SpsaParam, at: number) => {
    return { theta, ...(steps[at] as (typeof steps)[number]) };
  };
  history.push(spsa.params.map(sample));
  spsa.param_history = history;
}

/** Iterations between two samples of the history: 100 samples, fewer with many parameters. */
export function historyPeriod(iterations: number, params: number): number {
  if (params < 100) return iterations / 100;
  return params < 1000 ? (iterations * params) / 10_000 : iterations;
}

function newParam(
  line: string,
  { A, alpha, gamma, num_iter }: Pick<Spsa, 'A' | 'alpha' | 'gamma' | 'num_iter'>,
): SpsaParam {
  const fields = line.split(',').map((field) => field.trim());
  const [name = '', ...texts] = fields;
  const numbers = texts.map((text) => (text === '' ? NaN : Number(text)));
  const [start = NaN, min = NaN, max = NaN, c_end = NaN, r_end = NaN] = numbers;
  const good = fields.length === 6 && numbers.every(Number.isFinite) && c_end > 0 && r_end >= 0;
  if (!good) throw new RangeError(`spsa: ${line}: must be name,start,min,max,c_end,r_end`);
  const a_end = r_end * c_end ** 2;
  return {
    name,
    start,
    min,
    max,
    c_end,
    r_end,
    c: c_end * num_iter ** gamma,
    a_end,
    a: a_end * (A + num_iter) ** alpha,
    theta: start,
  };
}

function within({ min, max }: SpsaParam, value: number): number {
  return Math.min(Math.max(value, min), max);
}

/** The direction in which a parameter is tried. */
export type Flip = 1 | -1;

/** Eight flips a byte, the most significant bit first; 1 stands for +1. */
export function packFlips(flips: readonly Flip[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(flips.length / 8));
  for (const [at, flip] of flips.entries()) {
    if (flip === 1) bytes[at >> 3] = (bytes[at >> 3] as number) | (0x80 >> (at & 7));
  }
  return bytes;
}

export function unpackFlips(bytes: ArrayLike<number>, count: number): Flip[] {
  return Array.from({ length: count }, (_, at) => {
    return ((bytes[at >> 3] ?? 0) & (0x80 >> (at & 7))) === 0 ? -1 : 1;
  });
}

/** Checksum that a worker sends back to show which flips its games were played with. */
export function flipsSignature(bytes: Uint8Array): number {
  return crc32(bytes);
}

/** One moment of a tuning: how far it was, and where each parameter stood. */
interface SpsaChartRow {
  readonly iter_ratio: number;
  readonly values: readonly number[];
  readonly c_values?: readonly number[];
}

/** The history of all parameters, from their start to their present values. */
export function spsaChart(spsa: Spsa) {
  const { params, num_iter, param_history: history = [] } = spsa;
  const iterations = sampleIterations(spsa, history);
  const rows: SpsaChartRow[] = [{ iter_ratio: 0, values: params.map(({ start }) => start) }];
  for (const [at, samples] of history.entries()) {
    rows.push({
      iter_ratio: (iterations[at] as number) / num_iter,
      values: samples.map(({ theta }) => theta),
      c_values: samples.map(({ c }) => c),
    });
  }
  const values = params.map(({ theta }) => theta);
  const last = rows.at(-1) as SpsaChartRow;
  if (spsa.iter > 0 && !values.every((value, at) => value === last.values[at])) {
    const c_values = params.map((param) => spsaStep(spsa, param, spsa.iter).c);
    rows.push({ iter_ratio: Math.min(1, spsa.iter / num_iter), values, c_values });
  }
  return { param_names: params.map(({ name }) => name), chart_rows: rows };
}

/** The iterations of samples, which are not stored but follow from c: it shrinks with them. */
function sampleIterations(spsa: Spsa, history: readonly (readonly SpsaSample[])[]): number[] {
  let last = 0;
  return history.map((samples, at) => {
    const told = samples.flatMap((sample, index) => {
      const param = spsa.params[index];
      return param === undefined ? [] : iterationOf(spsa, param, sample);
    });
    const spread = (spsa.iter * (at + 1)) / (history.length + 1);
    const found = median(told) ?? spread;
    last = Math.min(Math.max(found, last), Math.max(spsa.iter, last));
    return last;
  });
}

function iterationOf({ gamma }: Spsa, param: SpsaParam, { c }: SpsaSample): number[] {
  const iteration = (param.c / c) ** (1 / gamma) - 1;
  return Number.isFinite(iteration) ? [iteration] : [];
}

function median(numbers: readonly number[]): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length % 2 === 1) return sorted[Math.floor(middle)];
  const low = sorted[middle - 1];
  const high = sorted[middle];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}
