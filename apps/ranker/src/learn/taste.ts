import { SpillwayError } from 'spillway';
import type { RatedArticle } from './document.ts';
import { type Choice, type Model, untrained } from './model.ts';
import { type Edit, numberOf, placeRows, type RatedRows } from './rows.ts';
import { type Explanation, type Score, scoreUnknown } from './score.ts';
import type { ScoreParts, TasteState } from './scorer.ts';
import type { NearLists } from './thread/scorer.ts';

/** A change of a reader's taste. */
export interface TasteChange {
  /** Ratings that are new or that replace older ones of the same article. */
  readonly rated?: readonly RatedArticle[] | undefined;
  /** Articles that are not rated any more. */
  readonly removed?: readonly string[] | undefined;
  /** The result of a training. */
  readonly model?: Model | undefined;
  /** The lists of neighbours of the first rows. */
  readonly lists?: RatedLists | undefined;
}

/** The lists of the rows that have been compared with each other. */
export type RatedLists = Pick<RatedRows, 'compared' | 'nearest' | 'similarities'>;

/** One version of a taste: never changed once it is published. */
export interface TasteVersion {
  readonly version: number;
  /** Undefined while nothing was ever rated. */
  readonly state: TasteState | undefined;
  readonly choice: Choice;
}

interface Waiting {
  readonly change: TasteChange;
  readonly done: PromiseWithResolvers<number>;
}

export interface TasteOptions {
  /** The number of the first version. */
  readonly version: number;
  /** The last number that it may have. */
  readonly versionMax: number;
  readonly choice?: Choice | undefined;
  /** The most ratings that count; older ones are left out. */
  readonly ratedMax: number;
  /** The length of a vector, in numbers. */
  readonly dimension: number;
  /** Makes a version on a thread; `changed` is the number of rows that have changed. */
  readonly make: (
    rows: RatedRows,
    changed: number,
    model: Model | undefined,
    choice: Choice,
  ) => Promise<TasteState>;
}

/** Changes that may wait while one is made; they all become one version. */
const waitingMax = 1_000;

/** One reader's taste: changed by one at a time, each version published whole. */
export class Taste {
  readonly sources: Map<string, number> = new Map();
  /** The nearest ratings of the table's rows; to be used in {@link alone} only. */
  near: NearLists | undefined;
  /** Articles that were scored before they were compared with all ratings. */
  readonly behind: Set<string> = new Set();
  /** True while the articles of {@link behind} are being compared. */
  isComparing = false;
  /** The comparison of the ratings with each other, while it goes on. */
  comparing: Promise<void> | undefined;
  #alone: Promise<unknown> = Promise.resolve();
  readonly #options: TasteOptions;
  /** The article of each row; rows are never used again. */
  readonly #ids: string[] = [];
  readonly #rowOf = new Map<string, number>();
  #current: TasteVersion;
  #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(options: TasteOptions) {
    const { version, choice = untrained } = options;
    this.#options = options;
    this.#current = { version, choice, state: undefined };
  }

  get current(): TasteVersion {
    return this.#current;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** True if it should be loaded anew: its version numbers end, or too many rows are unused. */
  get isWorn(): boolean {
    const { versionMax, ratedMax } = this.#options;
    return this.#current.version > versionMax - 50 || this.#ids.length > 1.5 * ratedMax + 100;
  }

  /** Does work that uses {@link near}: one after another, in the order of the calls. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#alone.then(work);
    this.#alone = done.catch(() => {});
    return done;
  }

  /** The article of a row. */
  idOf(row: number): string {
    return this.#ids[row] as string;
  }

  /** The rating of this very article by a version, if it has one. */
  ratingOf({ state }: TasteVersion, id: string): number | undefined {
    const score = state?.rows.scores[this.#rowOf.get(id) ?? -1];
    return score === undefined || Number.isNaN(score) ? undefined : score;
  }

  /** Resolves with the first version with the change; changes that wait are made together. */
  change(change: TasteChange): Promise<number> {
    if (this.#waiting.length >= waitingMax) {
      const message = `${waitingMax} changes of this taste wait`;
      return Promise.reject(new SpillwayError('POOL_FULL', message, { retryAfterMs: 1_000 }));
    }
    const done = Promise.withResolvers<number>();
    this.#waiting.push({ change, done });
    if (!this.#isBusy) void this.#work();
    return done.promise;
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      const due = this.#waiting;
      this.#waiting = [];
      try {
        await this.#make(due.map(({ change }) => change));
        for (const { done } of due) done.resolve(this.#current.version);
      } catch (error) {
        for (const { done } of due) done.reject(error);
      }
    }
    this.#isBusy = false;
  }

  async #make(changes: readonly TasteChange[]): Promise<void> {
    const { version, state: before } = this.#current;
    const trained = changes.findLast((one) => one.model)?.model;
    const choice = trained?.choice ?? this.#current.choice;
    const edits = new Map<number, Edit>();
    // A change that failed gives its rows back.
    for (const id of this.#ids.splice(before?.rows.count ?? 0)) this.#rowOf.delete(id);
    for (const { rated = [], removed = [] } of changes) {
      for (const article of rated) this.#rate(article, edits, before);
      for (const id of removed) {
        const row = this.#rowOf.get(id);
        if (row === undefined) continue;
        edits.set(row, { ...edits.get(row), row, score: Number.NaN, ratedAt: 0 });
      }
    }
    this.#leaveOut(edits, before);
    const isNothing = before === undefined && edits.size === 0;
    const lists = changes.findLast((one) => one.lists)?.lists;
    const known = before && { ...before.rows, ...lists };
    const { make, dimension } = this.#options;
    // Written here, into memory that threads share: a message with thousands of vectors is slow.
    const rows = () => placeRows(known, [...edits.values()], dimension);
    const model = trained ?? before?.model;
    const state = isNothing ? undefined : await make(rows(), edits.size, model, choice);
    this.#current = { version: version + 1, state, choice };
  }

  #rate(article: RatedArticle, edits: Map<number, Edit>, before: TasteState | undefined): void {
    const { id, score, ratedAt } = article;
    const row = this.#rowOf.get(id) ?? this.#ids.length;
    if (row === this.#ids.length) {
      this.#ids.push(id);
      this.#rowOf.set(id, row);
    }
    const isNew = row >= (before?.rows.count ?? 0);
    const added = isNew
      ? { ...article, source: numberOf(this.sources, article.source) }
      : undefined;
    edits.set(row, { row, score, ratedAt, added });
  }

  /** Leaves the oldest ratings out where there are too many. */
  #leaveOut(edits: Map<number, Edit>, before: TasteState | undefined): void {
    const scoreOf = (row: number) =>
      edits.get(row)?.score ?? before?.rows.scores[row] ?? Number.NaN;
    const rated = this.#ids.map((_, row) => row).filter((row) => !Number.isNaN(scoreOf(row)));
    for (const row of rated.slice(0, Math.max(0, rated.length - this.#options.ratedMax))) {
      edits.set(row, { ...edits.get(row), row, score: Number.NaN, ratedAt: 0 });
    }
  }
}

/**
 * A score with its explanation. Without any rating every score is 5.5; the score of a rated article
 * is its rating.
 */
export function scoreOf(
  parts: ScoreParts | undefined,
  taste: Taste,
  { version, state, choice }: TasteVersion,
  rating?: number,
): Score {
  if (parts === undefined || state === undefined) {
    const contributions = [{ reason: 'start', points: scoreUnknown }] as const;
    const source = { score: scoreUnknown, ratings: 0 };
    const explanation = { neighbours: [], sentences: [], words: [], source, contributions };
    return { score: scoreUnknown, version, support: 0, width: choice.width, explanation };
  }
  const { score: own, support, width, ...reasons } = parts;
  const score = rating ?? own;
  const explanation: Explanation = {
    ...reasons,
    contributions: [...parts.contributions, { reason: 'rated', points: score - own }],
    neighbours: parts.neighbours.map(({ row, similarity, weight }) => {
      return { id: taste.idOf(row), similarity, score: state.rows.scores[row] as number, weight };
    }),
  };
  return { score, version, support, width, explanation };
}
