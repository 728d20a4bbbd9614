import type { RunArgs } from '../world/records.ts';
import {
  drawEloOf,
  eloEstimate,
  eloOf,
  eloPerDeviation,
  eloToBayesElo,
  scoreOf,
  z95,
} from './elo.ts';
import {
  asLogistic,
  type EloModel,
  type Hypotheses,
  likeliest,
  llr,
  llrLogisticNormal,
  llrLogisticQuick,
  llrNormalizedQuick,
} from './llr.ts';
import {
  type Counts,
  countsOf,
  gamesPerSample,
  moments,
  observed,
  type Results,
  sum,
} from './results.ts';
import { chiSquareTail, upperQuantile, upperQuantileOfLog } from './special-functions.ts';
import type { Sprt, SprtState } from './sprt.ts';
import type { Spsa } from './spsa.ts';

export type RawStatistics = ReturnType<typeof rawStatistics>;
export type SampleStatistics = RawStatistics['trinomial'];

/** The statistics behind the decision on a run. */
export function rawStatistics(results: Results, test?: Hypotheses) {
  const { wins, losses, draws, pentanomial } = results;
  const games = wins + losses + draws;
  const logistic = test === undefined ? undefined : logisticBounds(results, test);
  const trinomial = sampleStatistics([losses, draws, wins], logistic);
  const pairs = pentanomial && sampleStatistics(pentanomial, logistic);
  const each = trinomial.variancePerGame.value;
  const both = pairs?.variancePerGame.value ?? each;
  return {
    drawRatio: games === 0 ? 0 : draws / games,
    drawElo: drawEloOf(results),
    trinomial,
    /** The hypotheses in every model, at the draws and the variance seen. */
    ...(test !== undefined && { bounds: allBounds(results, test) }),
    ...(pairs !== undefined && {
      pentanomial: pairs,
      /** Variance of pairs in proportion to that of single games. */
      varianceRatio: both / each,
      /** Unevenness of openings, in Elo (root mean square). */
      rmsBias: eloOf(0.5 + Math.sqrt(Math.max(0, each - both))),
    }),
  };
}

/** All statistics of pairs, or of single games. */
function sampleStatistics(counts: Counts, logistic: readonly [number, number] | undefined) {
  const seen = observed(counts);
  const about = moments(seen);
  const { samples } = seen;
  const each = gamesPerSample(counts);
  const variance = about.variance * each;
  const scoreError = z95 * Math.sqrt(about.variance / samples);
  // The variance of a sample's variance, from its fourth moment.
  const fourth = about.excessKurtosis + 3;
  const varianceError = z95 * variance * Math.sqrt(Math.max(0, fourth - 1) / samples);
  const deviation = Math.sqrt(variance);
  const t = (about.mean - 0.5) / deviation;
  const tVariance = Math.max(0, 1 / each - tSkew(t, about, each));
  const normal = eloPerDeviation * t;
  const normalError = eloPerDeviation * z95 * Math.sqrt(tVariance / samples);
  return {
    ...about,
    counts,
    games: sum(counts) * each,
    distribution: seen.probabilities,
    elo: eloEstimate(counts),
    /** Per game, as what follows. */
    score: range(about.mean, scoreError),
    variancePerGame: range(variance, varianceError),
    deviationPerGame: range(deviation, varianceError / (2 * deviation)),
    normalizedElo: range(normal, normalError),
    ...(logistic !== undefined && { test: testStatistics(counts, logistic) }),
  };
}

/** Correction for skewness and kurtosis to the variance of a t-value per game. */
function tSkew(
  t: number,
  { skewness, excessKurtosis }: ReturnType<typeof moments>,
  each: number,
): number {
  const own = t * Math.sqrt(each);
  return (own * skewness - (own ** 2 * (excessKurtosis + 2)) / 4) / each;
}

function testStatistics(counts: Counts, [elo0, elo1]: readonly [number, number]) {
  const [n0, n1] = [elo0, elo1].map((elo) => toNormalized(counts, elo)) as [number, number];
  const [losses = 0, draws = 0, wins = 0] = counts;
  const results =
    counts.length === 3
      ? { wins, losses, draws }
      : { wins: 0, losses: 0, draws: 0, pentanomial: counts };
  const under = (elo: number) => likeliest(counts, 'logistic', elo).probabilities;
  const under0 = under(elo0);
  const under1 = under(elo1);
  return {
    llr: {
      logistic: llr(results, { elo0, elo1, model: 'logistic' }),
      normalized: llr(results, { elo0: n0, elo1: n1, model: 'normalized' }),
    },
    llrQuick: {
      logistic: llrLogisticQuick(counts, elo0, elo1),
      normalized: llrNormalizedQuick(counts, n0, n1),
    },
    llrNormal: llrLogisticNormal(counts, elo0, elo1),
    /** Change of the ratio by one sample of each kind. */
    jumps: under1.map((chance, at) => Math.log(chance / (under0[at] as number))),
  };
}

function logisticBounds(results: Results, test: Hypotheses): readonly [number, number] {
  const { elo0, elo1, model } = asLogistic(results, test);
  if (model !== 'normalized') return [elo0, elo1];
  const deviation = gameDeviation(countsOf(results));
  const toLogistic = (elo: number) => eloOf((elo / eloPerDeviation) * deviation + 0.5);
  return [toLogistic(elo0), toLogistic(elo1)];
}

function allBounds(
  results: Results,
  test: Hypotheses,
): Readonly<Record<EloModel, readonly [number, number]>> {
  const logistic = logisticBounds(results, test);
  const counts = countsOf(results);
  const games = results.wins + results.losses + results.draws;
  const drawRatio = games === 0 ? 0.5 : results.draws / games;
  const [elo0, elo1] = logistic;
  return {
    logistic,
    normalized: [toNormalized(counts, elo0), toNormalized(counts, elo1)],
    BayesElo: [eloToBayesElo(elo0, drawRatio).bayesElo, eloToBayesElo(elo1, drawRatio).bayesElo],
    // Not every way back is exact.
    [test.model]: [test.elo0, test.elo1],
  };
}

function toNormalized(counts: Counts, elo: number): number {
  return ((scoreOf(elo) - 0.5) / gameDeviation(counts)) * eloPerDeviation;
}

function gameDeviation(counts: Counts): number {
  return Math.sqrt(moments(observed(counts)).variance * gamesPerSample(counts));
}

/** A value with its 95 % interval. */
function range(value: number, error: number) {
  return { value, low: value - error, high: value + error };
}

/** Pairs of one worker, by its key. */
export interface WorkerPairs {
  readonly key: string;
  readonly pentanomial: Counts;
}

export interface Residuals {
  readonly chi2: number;
  readonly degrees: number;
  /** The chance of a table at least as uneven as this if all workers are alike. */
  readonly p: number;
  /** A residual above it comes from one of the workers with a chance of 5 % (1 %). */
  readonly z95: number;
  readonly z99: number;
  /** Deviation of each worker, in standard deviations; workers with few games are left out. */
  readonly byKey: ReadonlyMap<string, number>;
}

export type ResidualColor = 'green' | 'yellow' | 'red';

/** Shown for tasks with crashes or time losses, whatever their results. */
export const crashResidual = 10;

const none: Residuals = { chi2: NaN, degrees: 0, p: NaN, z95: NaN, z99: NaN, byKey: new Map() };

type Row = readonly [key: string, won: number, lost: number, drawn: number];

/** Compares every worker's results with those of all, by a chi-square test. */
export function residuals(tasks: Iterable<WorkerPairs>): Residuals {
  const { rows, sums } = comparable(table(tasks));
  if (rows.length < 2) return none;
  const all = total(sums);
  let chi2 = 0;
  const byKey = new Map<string, number>();
  for (const row of rows) {
    const share = total(row) / all;
    const off =
      excess(row[1], share * sums[1]) +
      excess(row[2], share * sums[2]) +
      excess(row[3], share * sums[3]);
    chi2 += off;
    const logChance = -off / (1 - share) / 2;
    byKey.set(row[0], logChance < -Math.LN2 ? upperQuantileOfLog(logChance) : 0);
  }
  const degrees = 2 * (rows.length - 1);
  return {
    chi2,
    degrees,
    p: chiSquareTail(chi2, degrees),
    z95: upperQuantile(0.05 / rows.length),
    z99: upperQuantile(0.01 / rows.length),
    byKey,
  };
}

/** Colour of a residual in the list of tasks; an unknown one is as bad as any. */
export function residualColor(residual: number, { z95, z99 }: Residuals): ResidualColor {
  if (Math.abs(residual) < z95) return 'green';
  return Math.abs(residual) < z99 ? 'yellow' : 'red';
}

export interface BadWorkerLimits {
  /** If the p-value of the table is below this, the worst worker is bad. */
  readonly p: number;
  /** A worker is bad beyond this many standard deviations. */
  readonly residual: number;
}

/** The worker that is most probably bad, if any is. */
export function worstWorker(found: Residuals, limits: BadWorkerLimits): string | undefined {
  let worst: string | undefined;
  let most = -1;
  for (const [key, residual] of found.byKey) {
    if ((found.p < limits.p || residual > limits.residual) && residual > most) {
      worst = key;
      most = residual;
    }
  }
  return worst;
}

function table(tasks: Iterable<WorkerPairs>): Row[] {
  const sums = new Map<string, [string, number, number, number]>();
  for (const { key, pentanomial } of tasks) {
    const [ll = 0, ld = 0, even = 0, wd = 0, ww = 0] = pentanomial;
    const row = sums.get(key);
    if (row === undefined) {
      sums.set(key, [key, wd + ww, ll + ld, even]);
    } else {
      row[1] += wd + ww;
      row[2] += ll + ld;
      row[3] += even;
    }
  }
  return [...sums.values()];
}

/** Leaves out workers with too few games for the test, until it holds for all others. */
function comparable(rows: readonly Row[]): { readonly rows: readonly Row[]; readonly sums: Row } {
  for (let left = rows; ; ) {
    let won = 0;
    let lost = 0;
    let drawn = 0;
    for (const row of left) {
      won += row[1];
      lost += row[2];
      drawn += row[3];
    }
    const sums: Row = ['', won, lost, drawn];
    const least = Math.min(won, lost, drawn) / total(sums);
    const kept = left.filter((row) => least * total(row) > 5);
    if (kept.length === left.length) return { rows: kept, sums };
    left = kept;
  }
}

function excess(count: number, expected: number): number {
  return (count - expected) ** 2 / expected;
}

function total(row: Row): number {
  return row[1] + row[2] + row[3];
}

type ShownSprt = Pick<
  Sprt,
  'state' | 'elo_model' | 'llr' | 'lower_bound' | 'upper_bound' | 'elo0' | 'elo1'
>;

/** Brackets around the bounds of a sequential test, by its model. */
export const brackets = { BayesElo: '[]', logistic: '{}', normalized: '<>' } as const;

/** The part of a run that its results are shown with. */
interface ShownRules extends Pick<RunArgs, 'num_games'> {
  readonly sprt?: ShownSprt | undefined;
  readonly spsa?: Pick<Spsa, 'iter' | 'num_iter'> | undefined;
}

/** Results of a run as people see them; `style` is a background colour, or the empty string. */
export function resultText({ num_games, sprt, spsa }: ShownRules, results: Results) {
  const { wins, losses, draws, pentanomial } = results;
  const games = wins + losses + draws;
  if (spsa !== undefined) {
    const { iter, num_iter } = spsa;
    const info = [`${iter}/${num_iter} iterations`, `${games}/${num_games} games played`];
    return { style: '', info };
  }
  const info = [
    sprt === undefined ? eloLine(results) : sprtLine(sprt),
    `Total: ${games} W: ${wins} L: ${losses} D: ${draws}`,
  ];
  if (pentanomial !== undefined) info.push(`Ptnml(0-2): ${pentanomial.join(', ')}`);
  const state = sprt === undefined ? fixedGamesState(results) : sprt.state;
  return { style: background(state, results, sprt), info };
}

/** Verdict on a fixed number of games at 95 %. */
export function fixedGamesState(results: Results): SprtState {
  const { los } = eloEstimate(countsOf(results));
  if (los < 0.05) return 'rejected';
  return los > 0.95 ? 'accepted' : '';
}

function eloLine(results: Results): string {
  if (results.wins + results.losses + results.draws === 0) return 'Elo: unknown before any game';
  const { elo, error95, los } = eloEstimate(countsOf(results));
  const share = (100 * los).toFixed(1);
  return `Elo: ${elo.toFixed(2)} ± ${error95.toFixed(1)} (95%) LOS: ${share}%`;
}

function sprtLine(sprt: ShownSprt): string {
  const [open, close] = brackets[sprt.elo_model ?? 'BayesElo'];
  const bounds = `(${sprt.lower_bound.toFixed(2)},${sprt.upper_bound.toFixed(2)})`;
  const elos = `${open}${sprt.elo0.toFixed(2)},${sprt.elo1.toFixed(2)}${close}`;
  return `LLR: ${sprt.llr.toFixed(2)} ${bounds} ${elos}`;
}

function background(state: SprtState, { wins, losses }: Results, sprt?: ShownSprt): string {
  if (state === 'rejected') return wins > losses ? 'yellow' : '#FF6A6A';
  if (state === '') return '';
  return sprt !== undefined && sprt.elo0 + sprt.elo1 < 0 ? '#66CCFF' : '#44EB44';
}
