import { chiSquareTail } from './chi-square.ts';
import type { Counts } from './distribution.ts';
import { upperQuantile, upperQuantileOfLog } from './normal.ts';

/** What one worker's pairs are told apart by. */
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
  /** How far each worker is off, in standard deviations; workers with few games are left out. */
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

/** What a residual looks like in the list of tasks; an unknown one is as bad as any. */
export function residualColor(residual: number, { z95, z99 }: Residuals): ResidualColor {
  if (Math.abs(residual) < z95) return 'green';
  return Math.abs(residual) < z99 ? 'yellow' : 'red';
}

export interface BadWorkerLimits {
  /** The whole table is bad if it is less probable than this. */
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

/** Leaves out workers of whom too little is expected to judge, until all others can be judged. */
function comparable(rows: readonly Row[]): { readonly rows: readonly Row[]; readonly sums: Row } {
  for (let left = rows; ; ) {
    let [won, lost, drawn] = [0, 0, 0];
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
