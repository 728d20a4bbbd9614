import { Snapshot, SpillwayError } from 'spillway';
import type { TasteChange, TastePlan, TasteVersion } from './taste-change.ts';
import type { TasteState } from './taste-reader.ts';
import { untrained } from './trained.ts';

/** How a change becomes a version. */
export interface TasteMaker {
  plan(before: TasteVersion, changes: readonly TasteChange[]): TastePlan;
  make(plan: TastePlan): Promise<TasteState>;
}

interface Waiting {
  readonly change: TasteChange;
  readonly done: PromiseWithResolvers<number>;
}

/** Changes that may wait while one is made; they all become one version. */
const waitingMax = 1_000;

function nobody(): TasteVersion {
  return { state: undefined, ids: [], rowOf: new Map(), sources: new Map(), trained: untrained };
}

/** One reader's taste: changed by one at a time, each change published whole. */
export class ReaderTaste {
  readonly snapshot: Snapshot<TasteVersion> = new Snapshot(nobody());
  readonly #maker: TasteMaker;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isBusy = false;

  /** The number is another one for each that was ever made. */
  constructor(maker: TasteMaker, number: number) {
    this.#maker = maker;
    this.#number = number;
  }

  /** The name of a version for workers, which keep what they have read: it is never used twice. */
  key(version: number): string {
    return `${this.#number} ${version}`;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** Resolves with the version in which the change is; changes that wait are made together. */
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
        const changes = due.map(({ change }) => change);
        const plan = this.#maker.plan(this.snapshot.current, changes);
        const state = await this.#maker.make(plan);
        const { ids, rowOf, sources, trained } = plan;
        const first = changes.findLast(({ version }) => version !== undefined)?.version ?? 0;
        const number = Math.max(first, this.snapshot.stats.version + 1);
        this.snapshot.publish({ state, ids, rowOf, sources, trained }, number);
        for (const { done } of due) done.resolve(number);
      } catch (error) {
        for (const { done } of due) done.reject(error);
      }
    }
    this.#isBusy = false;
  }
}
