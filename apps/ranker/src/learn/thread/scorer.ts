import { isDeepStrictEqual } from 'node:util';
import type { TableRows } from '../article-table.ts';
import { type Choice, fit, type Model, manyRatings } from '../model.ts';
import {
  type Common,
  clearNeighbours,
  commonOf,
  comparedRows,
  compareRows,
  type Neighbours,
  type RatedRows,
  ratedOnly,
  rowMean,
} from '../rows.ts';
import {
  type Explained,
  explain,
  findNearest,
  type ScoreParts,
  Scorer,
  type TasteState,
} from '../scorer.ts';

/** The ratings that the first model of a taste is made of: some 50 ms, 200 for 5,000 (2026-11). */
const firstRatings = 1_000;

/** The nearest ratings of each row of the table, for one reader. */
export interface NearLists extends Neighbours {
  /** The stamp of the article that a row's list is of. */
  readonly stamps: Int32Array;
  /** The number of ratings that a row's list has seen. */
  readonly seen: Uint32Array;
}

/** Rows of the table to compare with a reader's ratings. */
export interface CompareTask {
  readonly state: TasteState;
  readonly table: TableRows;
  readonly near: NearLists;
  readonly rows: Uint32Array;
  readonly stamps: Int32Array;
}

export interface RankTask extends CompareTask {
  /** For each source of the table its number in the taste, or -1. */
  readonly sources: Int32Array;
  readonly now: number;
  /** The most pairs of an article and a rating to compare; if there are more, none are. */
  readonly pairsMax: number;
}

export interface RankResult {
  readonly scores: Float32Array;
  readonly widths: Float32Array;
  /** The places of articles that were scored without comparing them with all ratings. */
  readonly behind: number[];
}

/**
 * A version of a taste. The model is fitted anew, unless a few votes join many: through the weights
 * one of 5,000 ratings moves a score by 0.01, which is left to the next training.
 */
export function update(task: {
  readonly rows: RatedRows;
  /** The number of rows that have changed. */
  readonly changed: number;
  /** The model of the version before. */
  readonly model: Model | undefined;
  readonly common: Common;
  readonly choice: Choice;
  readonly halfLifeMs: number;
}): TasteState {
  const { common, choice, halfLifeMs, model, changed } = task;
  const rows = comparedRows(task.rows);
  const isVote = changed < rows.count / 100 && rows.count >= manyRatings;
  const isChosen = model !== undefined && isDeepStrictEqual(model.choice, choice);
  if (isVote && isChosen) return { rows, model };
  return { rows, model: refit({ rows, common, choice, halfLifeMs }) };
}

/** Fits a model; where few articles have been seen, the ratings tell what all have in common. */
export function refit(task: {
  readonly rows: RatedRows;
  readonly common: Common;
  readonly choice: Choice;
  readonly halfLifeMs: number;
}): Model {
  const { rows, choice, halfLifeMs } = task;
  const common = task.common.count < rows.count ? commonOf(rows) : task.common;
  // Until all ratings have been compared and this is done again, the newest ones must do.
  const only = rows.compared < rows.count ? ratedOnly(rows).slice(-firstRatings) : undefined;
  return fit(rows, common, choice, { halfLifeMs, only });
}

/** Compares rated rows with all before them; their lists are written where they are. */
export function compareRated(task: {
  readonly rows: RatedRows;
  readonly from: number;
  readonly to: number;
}): void {
  compareRows(task.rows, task.from, task.to);
}

/** Scores one article and says why. */
export function score(task: { readonly state: TasteState; readonly asked: Explained }): ScoreParts {
  return explain(task.state, task.asked);
}

/** Scores rows of the table; NaN for articles that were changed or removed in the meantime. */
export function rank(task: RankTask): RankResult {
  const { state, table, near } = task;
  const scorer = new Scorer(state);
  const scores = new Float32Array(task.rows.length);
  const widths = new Float32Array(task.rows.length);
  const behind: number[] = [];
  const missing = Uint32Array.from(task.rows, (row, at) =>
    missingRatings(task, row, task.stamps[at] as number),
  );
  const pairs = missing.reduce((sum, one) => sum + one, 0);
  for (const [at, row] of task.rows.entries()) {
    const stamp = task.stamps[at] as number;
    if (pairs <= task.pairsMax) catchUp(task, row, missing[at] as number);
    else if (missing[at] !== 0) behind.push(at);
    const source = task.sources[table.sources[row] as number] ?? -1;
    const found = scorer.score(table, row, near, { source, now: task.now });
    scores[at] = Atomics.load(table.stamps, row) === stamp ? found : Number.NaN;
    widths[at] = scorer.width;
  }
  return { scores, widths, behind };
}

/** Compares rows with all ratings that their lists have not seen. */
export function compare(task: CompareTask): void {
  for (const [at, row] of task.rows.entries()) {
    catchUp(task, row, missingRatings(task, row, task.stamps[at] as number));
  }
}

/** The ratings that a row's list has not seen; clears a list that is another article's. */
function missingRatings({ state, near }: CompareTask, row: number, stamp: number): number {
  if (near.stamps[row] !== stamp) {
    clearNeighbours(near, row);
    near.seen[row] = 0;
    near.stamps[row] = stamp;
  }
  return Math.max(0, state.rows.count - (near.seen[row] as number));
}

/** Compares a row with the newest ratings: its list knows the others. */
function catchUp({ state, table, near }: CompareTask, row: number, missing: number): void {
  const { count } = state.rows;
  if (missing === 0) return;
  findNearest(state.rows, rowMean(table, row), near, row, count - missing);
  near.seen[row] = count;
}
