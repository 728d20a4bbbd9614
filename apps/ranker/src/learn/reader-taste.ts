import { Snapshot, SpillwayError } from 'spillway';
import type { Shelf } from './shelf.ts';
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
  const [rowOf, sources] = [new Map(), new Map()];
  return { state: undefined, ids: [], rowOf, sources, trained: untrained, networkNumber: 0 };
}

/** One reader's taste: changed by one at a time, each change published whole. */
export class ReaderTaste {
  readonly snapshot: Snapshot<TasteVersion> = new Snapshot(nobody());
  readonly #maker: TasteMaker;
  readonly #number: number;
  #waiting: Waiting[] = [];
  #isBusy = false;
  /** What this reader's network said of the articles on the shelf. */
  #network: { readonly number: number; says: Float32Array; stamps: Int32Array } | undefined;

  /** The number is another one for each that was ever made. */
  constructor(maker: TasteMaker, number: number) {
    this.#maker = maker;
    this.#number = number;
  }

  /** Names for workers, which keep what they have read: a name never means two things. */
  keys({ networkNumber }: TasteVersion, version: number) {
    return { key: `${this.#number} ${version}`, networkKey: `${this.#number} ${networkNumber}` };
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

  /** Remembers what the network said, so that the whole shelf can be scored without sentences. */
  remember(shelf: Shelf, id: string, networkNumber: number, says: number): void {
    const place = shelf.find(id);
    if (place === undefined || Number.isNaN(says)) return;
    if ((this.#network?.number ?? -1) < networkNumber) {
      const says = new Float32Array(new SharedArrayBuffer(4 * shelf.sizeMax));
      const stamps = new Int32Array(new SharedArrayBuffer(4 * shelf.sizeMax));
      this.#network = { number: networkNumber, says, stamps };
    }
    if (this.#network?.number !== networkNumber) return;
    this.#network.says[place.row] = says;
    this.#network.stamps[place.row] = place.stamp;
  }

  /** What the network of this number said of the shelf, if anything. */
  remembered(networkNumber: number): { says: Float32Array; stamps: Int32Array } | undefined {
    return this.#network?.number === networkNumber ? this.#network : undefined;
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
        const { ids, rowOf, sources, trained, networkNumber } = plan;
        const first = changes.findLast(({ version }) => version !== undefined)?.version ?? 0;
        const number = Math.max(first, this.snapshot.stats.version + 1);
        const names = { ids, rowOf, sources };
        this.snapshot.publish({ state, ...names, trained, networkNumber }, number);
        for (const { done } of due) done.resolve(number);
      } catch (error) {
        for (const { done } of due) done.reject(error);
      }
    }
    this.#isBusy = false;
  }
}
