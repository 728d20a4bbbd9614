import { type Choice, cautiousSlope, fit, type Model, untrained } from './model.ts';
import { type Common, foldCount, type RatedRows, ratedOnly, scoresOf } from './rows.ts';
import { clampScore } from './score.ts';
import { Scorer, spread } from './scorer.ts';

/** `quick` tries a few penalties; `intensive` tries a grid of them. */
export type TrainingKind = 'quick' | 'intensive';

/** Mean absolute errors on articles that the model had not seen; NaN when not measured. */
export interface CrossValidatedErrors {
  /** The error of the reader's own mean. */
  readonly constant: number;
  /** The error of the embedding alone. */
  readonly topic: number;
  /** The error of the words alone. */
  readonly words: number;
  /** The error of the scores that readers see. */
  readonly served: number;
}

/** The result of a training. */
export interface Learned {
  /** The new choice; undefined if none has a smaller error than the present one. */
  readonly choice: Choice | undefined;
  readonly errors: CrossValidatedErrors;
}

type Penalties = Pick<Choice, 'topic' | 'words'>;

const onlyTopic: Penalties = { topic: 0.5, words: Infinity };
const onlyWords: Penalties = { topic: Infinity, words: 0.5 };
const quickGrid: readonly Penalties[] = [
  untrained,
  onlyTopic,
  onlyWords,
  { topic: 0.25, words: 0.5 },
  { topic: 1, words: 0.5 },
  { topic: 2, words: 4 },
];
const steps = [0.15, 0.3, 0.6, 1.2, 2.5, Infinity];
const penaltiesOf: Record<TrainingKind, readonly Penalties[]> = {
  quick: quickGrid,
  intensive: [
    ...quickGrid,
    ...steps.flatMap((topic) => steps.map((words) => ({ topic, words: 1.5 * words }))),
  ],
};

/** Ratings from which on penalties and slope are chosen: with fewer, chance would choose. */
const ratingsMin = 40;
/** Ratings from which on errors are measured. */
const measuredMin = 6;
/** The share by which other penalties must reduce the squared error. */
const gainMin = 0.01;
/** The weight of the assumed slope, as a number of ratings. */
const slopeRatings = 40;
const slopeMax = 1.2;
/** The weight of the assumed width, as a number of ratings. */
const widthRatings = 8;
/** The share of ratings that are within the width. */
const coverage = 0.8;

export interface TrainingTask {
  readonly rows: RatedRows;
  readonly common: Common;
  readonly kind: TrainingKind;
  /** The present choice. */
  readonly current: Choice;
  readonly halfLifeMs: number;
  /** The rows to learn from. @default all that are rated */
  readonly only?: readonly number[] | undefined;
}

/** Predictions for articles that the model had not seen, by row, and their similarity. */
interface Unseen {
  readonly says: Float64Array;
  readonly starts: Float64Array;
  readonly supports: Float64Array;
}

/**
 * Chooses penalties, slope and width by cross-validation. Yields its progress, from 0 to 1, between
 * two pieces of work.
 */
export function* choose(task: TrainingTask): Generator<number, Learned> {
  const { rows, kind, current, only = ratedOnly(task.rows) } = task;
  const folds = new Set(only.map((row) => rows.folds[row]));
  if (only.length < measuredMin || folds.size < 2) {
    return { choice: undefined, errors: unknownErrors };
  }
  const others = only.length < ratingsMin ? [] : penaltiesOf[kind];
  const grid = [{ topic: current.topic, words: current.words }, ...others];
  const unseen = grid.map(() => emptyUnseen(rows.count));
  for (let fold = 0; fold < foldCount; fold += 1) {
    const asked = only.filter((row) => rows.folds[row] === fold);
    if (asked.length === 0) continue;
    const known = only.filter((row) => rows.folds[row] !== fold);
    // Each row keeps more neighbours than are used, so enough are left without its own fold.
    const past = { ...rows, scores: scoresOf(rows, known) };
    for (const [at, penalties] of grid.entries()) {
      yield (fold + at / grid.length) / foldCount;
      const model = fit(
        rows,
        task.common,
        { ...untrained, ...penalties, slope: 1 },
        {
          halfLifeMs: task.halfLifeMs,
          only: known,
        },
      );
      answer(past, model, asked, unseen[at] as Unseen);
    }
  }
  return decide(task, only, grid, unseen);
}

function decide(
  { rows, current }: TrainingTask,
  only: readonly number[],
  grid: readonly Penalties[],
  unseen: readonly Unseen[],
): Learned {
  const squared = (one: Unseen, slope: number) =>
    meanOf(only, (row) => off(rows, one, slope, row) ** 2);
  const slopeInUse = current.slope ?? cautiousSlope(only.length);
  const tried = unseen.map((one, at) => {
    const slope = only.length < ratingsMin ? slopeInUse : slopeOf(rows, only, one);
    return { at, slope, error: squared(one, slope) };
  });
  const [own] = tried as [(typeof tried)[number]];
  const inUse = { ...own, slope: slopeInUse, error: squared(unseen[0] as Unseen, slopeInUse) };
  const best = tried.reduce((least, one) => (one.error < least.error ? one : least), own);
  const better = own.error < inUse.error ? own : inUse;
  const chosen = best.error < inUse.error * (1 - gainMin) ? best : better;
  const served = unseen[chosen.at] as Unseen;
  const width = widthOf(rows, only, served, chosen.slope);
  const absolute = (one: Unseen, slope: number) =>
    meanOf(only, (row) => Math.abs(off(rows, one, slope, row)));
  const errorOf = (penalties: Penalties) => {
    const one = tried[1 + quickGrid.indexOf(penalties)];
    return one === undefined ? Number.NaN : absolute(unseen[one.at] as Unseen, one.slope);
  };
  const errors: CrossValidatedErrors = {
    constant: absolute(unseen[0] as Unseen, 0),
    topic: errorOf(onlyTopic),
    words: errorOf(onlyWords),
    served: absolute(served, chosen.slope),
  };
  const { topic, words } = grid[chosen.at] as Penalties;
  const slope = chosen === inUse ? current.slope : chosen.slope;
  const isSame =
    chosen.at === 0 &&
    Math.abs(chosen.slope - slopeInUse) < 0.01 &&
    Math.abs(width - current.width) < 0.05;
  return { choice: isSame ? undefined : { topic, words, slope, width }, errors };
}

/** The error of a prediction whose distance to the reader's mean is multiplied by `slope`. */
function off(rows: RatedRows, { says, starts }: Unseen, slope: number, row: number): number {
  const start = starts[row] as number;
  const score = clampScore(start + slope * ((says[row] as number) - start));
  return score - (rows.scores[row] as number);
}

/** The regression slope of ratings on predictions, drawn towards the assumed one. */
function slopeOf(rows: RatedRows, only: readonly number[], { says, starts }: Unseen): number {
  let both = 0;
  let own = 0;
  for (const row of only) {
    const said = (says[row] as number) - (starts[row] as number);
    both += said * ((rows.scores[row] as number) - (starts[row] as number));
    own += said * said;
  }
  const believed = (slopeRatings * own) / only.length;
  const slope = (both + cautiousSlope(only.length) * believed) / (own + believed);
  return own === 0 ? 1 : Math.min(slopeMax, Math.max(0, slope));
}

/** The error within which 8 of 10 ratings were, for articles without any similar rated one. */
function widthOf(rows: RatedRows, only: readonly number[], unseen: Unseen, slope: number): number {
  const errors = only.map((row) => {
    const error = Math.abs(off(rows, unseen, slope, row));
    return error / spread(unseen.supports[row] as number);
  });
  const sorted = errors.sort((one, other) => one - other);
  const measured = sorted[
    Math.min(sorted.length, Math.ceil(coverage * sorted.length)) - 1
  ] as number;
  const { length } = only;
  return (length * measured + widthRatings * untrained.width) / (length + widthRatings);
}

function answer(rows: RatedRows, model: Model, asked: readonly number[], into: Unseen): void {
  const scorer = new Scorer({ rows, model });
  for (const row of asked) {
    const now = rows.ratedAt[row] as number;
    scorer.score(rows, row, rows, { source: rows.sources[row] as number, now });
    into.says[row] = scorer.raw;
    into.starts[row] = model.start;
    into.supports[row] = scorer.support;
  }
}

function meanOf(rows: readonly number[], of: (row: number) => number): number {
  return rows.reduce((sum, row) => sum + of(row), 0) / rows.length;
}

function emptyUnseen(count: number): Unseen {
  const nothing = () => new Float64Array(count).fill(Number.NaN);
  return { says: nothing(), starts: nothing(), supports: nothing() };
}

const unknownErrors: CrossValidatedErrors = {
  constant: Number.NaN,
  topic: Number.NaN,
  words: Number.NaN,
  served: Number.NaN,
};
