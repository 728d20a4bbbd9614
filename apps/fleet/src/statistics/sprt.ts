import { demand } from '../errors.ts';
import {
  decimal,
  document,
  oneOf,
  optional,
  orElse,
  required,
  type ValueOf,
  whole,
} from '../protocol/rules.ts';
import { eloEstimate, eloOf, eloPerDeviation, scoreOf } from './elo.ts';
import {
  asLogistic,
  type EloModel,
  eloModels,
  type Hypotheses,
  isEloModel,
  llr,
  outcomeCdf,
} from './llr.ts';
import {
  countsOf,
  gamesPerSample,
  meanOf,
  observed,
  type Results,
  sum,
  varianceOf,
} from './results.ts';
import { root } from './special-functions.ts';

/** Jumps of the ratio past its former extremes; a bound is overshot by about as much. */
type Overshoot = ValueOf<typeof overshootRule>;
const jumps = ['ref0', 'm0', 'sq0', 'ref1', 'm1', 'sq1'] as const;
const overshootRule = document(required(decimal, 'last_update', 'skipped_updates', ...jumps));

export type SprtState = Sprt['state'];

const alpha = 0.05;
const beta = 0.05;
const lower = Math.log(beta / (1 - alpha));
const upper = Math.log((1 - beta) / alpha);

/** A sequential test as it is stored with its run and sent to workers. */
export type Sprt = ValueOf<typeof sprtRule>;
export const sprtRule = document({
  ...required(decimal, 'elo0', 'elo1', 'llr'),
  /** The chances to accept a change worth `elo0`, and to reject one worth `elo1`. */
  ...orElse(0.05, decimal, 'alpha', 'beta'),
  ...optional(oneOf(...eloModels), 'elo_model'),
  ...orElse('', oneOf('', 'accepted', 'rejected'), 'state'),
  /** In samples: pairs if the run counts pairs. */
  ...orElse(1, whole(1), 'batch_size'),
  ...orElse(lower, decimal, 'lower_bound'),
  ...orElse(upper, decimal, 'upper_bound'),
  ...optional(overshootRule, 'overshoot'),
  ...optional(decimal, 'lost_samples', 'illegal_update'),
});

type NewSprt = Pick<Sprt, 'elo0' | 'elo1' | 'batch_size'> & { readonly elo_model: EloModel };

/** A sequential test without results. */
export function newSprt({ elo0, elo1, elo_model, batch_size }: NewSprt): Sprt {
  return {
    alpha,
    beta,
    elo0,
    elo1,
    elo_model,
    state: '',
    llr: 0,
    batch_size,
    lower_bound: lower,
    upper_bound: upper,
    overshoot: {
      last_update: 0,
      skipped_updates: 0,
      ref0: 0,
      m0: 0,
      sq0: 0,
      ref1: 0,
      m1: 0,
      sq1: 0,
    },
  };
}

/** Updates the test with the results so far, and its decision. */
export function updateSprt(sprt: Sprt, results: Results): void {
  const { elo0, elo1, elo_model: model = 'BayesElo' } = sprt;
  const samples = sum(countsOf(results));
  sprt.llr = llr(results, { elo0, elo1, model });
  if (samples % sprt.batch_size !== 0) {
    sprt.illegal_update = samples;
    delete sprt.overshoot;
  }
  if (sprt.overshoot !== undefined) watchOvershoot(sprt, sprt.overshoot, samples);
  const { below, above } = expectedOvershoot(sprt.overshoot);
  if (sprt.llr < sprt.lower_bound + below) sprt.state = 'rejected';
  else if (sprt.llr > sprt.upper_bound - above) sprt.state = 'accepted';
  else sprt.state = '';
}

/** Average distance by which the ratio passes each bound when it does. */
export function expectedOvershoot(
  overshoot: Pick<Overshoot, 'm0' | 'sq0' | 'm1' | 'sq1'> | undefined,
): { readonly below: number; readonly above: number } {
  if (overshoot === undefined) return { below: 0, above: 0 };
  const { m0, sq0, m1, sq1 } = overshoot;
  return { below: m0 === 0 ? 0 : -sq0 / m0 / 2, above: m1 === 0 ? 0 : sq1 / m1 / 2 };
}

function watchOvershoot(sprt: Sprt, overshoot: Overshoot, samples: number): void {
  const added = samples - overshoot.last_update;
  if (added < 0) {
    sprt.lost_samples = -added;
    delete sprt.overshoot;
  } else if (added === sprt.batch_size) {
    learn(overshoot, sprt.llr);
  } else if (added > 0) {
    // Updates were skipped, so the single jumps are unknown.
    overshoot.ref0 = sprt.llr;
    overshoot.ref1 = sprt.llr;
    overshoot.skipped_updates += added - 1;
  }
  overshoot.last_update = samples;
}

function learn(overshoot: Overshoot, ratio: number): void {
  if (ratio < overshoot.ref0) {
    const jump = ratio - overshoot.ref0;
    overshoot.m0 += jump;
    overshoot.sq0 += jump ** 2;
    overshoot.ref0 = ratio;
  }
  if (ratio > overshoot.ref1) {
    const jump = ratio - overshoot.ref1;
    overshoot.m1 += jump;
    overshoot.sq1 += jump ** 2;
    overshoot.ref1 = ratio;
  }
}

type SprtEloOptions = Hypotheses & Partial<Pick<Sprt, 'alpha' | 'beta'>>;

const eloMax = 1000;

/**
 * An estimate without the bias of stopping early: the test is seen as a bounded motion. Its Elo,
 * with the 95 % interval `ci`, is logistic, whatever the bounds are in.
 */
export function sprtElo(results: Results, options: SprtEloOptions) {
  const { alpha = 0.05, beta = 0.05 } = options;
  const a = Math.log(beta / (1 - alpha));
  const b = Math.log((1 - beta) / alpha);
  const counts = countsOf(results);
  const seen = observed(counts);
  const mean = meanOf(seen);
  const variance = varianceOf(seen, mean);
  const { elo0, elo1, model } = asLogistic(results, options);
  const gameDeviation = Math.sqrt(gamesPerSample(counts) * variance);
  const boundScore = (elo: number) =>
    model === 'normalized' ? (elo / eloPerDeviation) * gameDeviation + 0.5 : scoreOf(elo);
  const s0 = boundScore(elo0);
  const s1 = boundScore(elo1);
  const drift = (score: number) => ((score - (s0 + s1) / 2) * (s1 - s0)) / variance;

  const walked = seen.samples * drift(mean);
  const held = Math.min(Math.max(walked, a), b);
  const time = held === walked ? seen.samples : held / drift(mean);
  const chance = (elo: number) => {
    const motion = { a, b, drift: drift(scoreOf(elo)), variance: (s1 - s0) ** 2 / variance };
    return outcomeCdf(motion, time, held);
  };
  const at = (quantile: number) => eloWhere(chance, 1 - quantile, eloOf(s0), eloOf(s1));
  return {
    a,
    b,
    elo: at(0.5),
    ci: [at(0.025), at(0.975)] as const,
    LOS: chance(0),
    LLR: llr(results, options),
  };
}

/** Finds the Elo for a chance, which falls with Elo; searches ever farther from the bounds. */
function eloWhere(
  chance: (elo: number) => number,
  value: number,
  elo0: number,
  elo1: number,
): number {
  const middle = (elo0 + elo1) / 2;
  const excess = (elo: number) => chance(elo) - value;
  for (let reach = Math.max(30 * (elo1 - elo0), 1); reach < 4 * eloMax; reach *= 2) {
    const low = Math.max(middle - reach, -eloMax);
    const high = Math.min(middle + reach, eloMax);
    if (excess(low) * excess(high) <= 0) return root(excess, low, high);
  }
  return excess(-eloMax) > 0 ? eloMax : -eloMax;
}

export interface SprtCalculatorOptions {
  readonly model: 'logistic' | 'normalized';
  readonly elo0: number;
  readonly elo1: number;
  /** Share of drawn games, from 0 to 1. */
  readonly drawRatio: number;
  /** Unevenness of openings, in Elo (root mean square). */
  readonly rmsBias: number;
}

/** The chance to pass and the games it takes, for a change worth `elo`; NaN if impossible. */
export function sprtForecast(options: SprtCalculatorOptions, elo: number) {
  const variance = (1 - options.drawRatio) / 4 - (scoreOf(options.rmsBias) - 0.5) ** 2;
  if (!(variance > 0)) return { passChance: NaN, games: NaN };
  const score = (value: number) =>
    options.model === 'normalized'
      ? (value / eloPerDeviation) * Math.sqrt(variance) + 0.5
      : scoreOf(value);
  const s0 = score(options.elo0);
  const s1 = score(options.elo1);
  const s = score(elo);
  const square = (s1 - s0) ** 2 / variance;
  const h = (2 * s - (s0 + s1)) / (s1 - s0);
  if (Math.abs(h * (lower - upper)) < 1e-6) {
    return { passChance: -lower / (upper - lower), games: (-lower * upper) / square };
  }
  const atLower = Math.exp(-h * lower);
  const atUpper = Math.exp(-h * upper);
  const passChance = (1 - atLower) / (atUpper - atLower);
  const games = ((2 / h) * (upper * passChance + lower * (1 - passChance))) / square;
  return { passChance, games };
}

/** The parameters of a question about results, as texts. */
export type EloQuery = Readonly<Record<string, string | undefined>>;

const gamesMax = 2 ** 32;

/** Estimates strength from given results; with bounds, as those of a sequential test. */
export function calculateElo(query: EloQuery) {
  const results = readResults(query);
  // One bound alone is no test.
  if (query.elo0 === undefined || query.elo1 === undefined) {
    const { elo, error95, los } = eloEstimate(countsOf(results));
    return { elo, ci: [elo - error95, elo + error95], LOS: los };
  }
  const elo0 = readNumber(query, 'elo0');
  const elo1 = readNumber(query, 'elo1');
  const model = query.elo_model ?? 'normalized';
  demand(isEloModel(model), `elo_model: unknown: ${model}`);
  demand(elo1 >= elo0 + 0.5, 'elo1: must be at least elo0 + 0.5');
  demand(Math.abs(elo0) <= 10 && Math.abs(elo1) <= 10, 'elo0, elo1: must be from -10 to 10');
  const known = model !== 'BayesElo' || results.wins + results.losses + results.draws > 0;
  demand(known, 'elo_model: BayesElo needs W, D and L');
  return sprtElo(results, { elo0, elo1, model });
}

const pairKeys = ['LL', 'LD', 'DDWL', 'WD', 'WW'];
const gameKeys = ['W', 'D', 'L'];

/** Pairs if all five are there and can be counts, else games. */
function readResults(query: EloQuery): Results {
  const given = (keys: readonly string[]) =>
    keys.every((key) => isUnsigned(query[key]) && isCount(Number(query[key] || NaN)));
  const counts = (keys: readonly string[]) => keys.map((key) => readCount(query, key));
  const pentanomial = given(pairKeys) ? counts(pairKeys) : undefined;
  const games = pentanomial === undefined || given(gameKeys) ? counts(gameKeys) : [0, 0, 0];
  const [wins = 0, draws = 0, losses = 0] = games;
  const played = pentanomial === undefined ? sum(games) : 2 * sum(pentanomial);
  demand(played > 0, 'no games');
  demand(played <= gamesMax, 'too many games');
  return { wins, draws, losses, pentanomial };
}

function readCount(query: EloQuery, key: string): number {
  const number = readNumber(query, key);
  demand(isUnsigned(query[key]) && isCount(number), `${key}: must be an integer from 0`);
  return number;
}

function isUnsigned(text: string | undefined): boolean {
  return text?.trimStart().startsWith('+') !== true;
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0;
}

function readNumber(query: EloQuery, key: string): number {
  const text = query[key];
  demand(text !== undefined, `${key}: missing`);
  const number = text.trim() === '' ? NaN : Number(text);
  demand(Number.isFinite(number), `${key}: not a number`);
  return number;
}
