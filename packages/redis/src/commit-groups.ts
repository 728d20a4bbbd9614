import { SpillwayError, type StoreChange, type StoreCommit } from 'spillway';

/** A commit that is not answered, with its values as JSON; an empty one removes the record. */
export interface PendingCommit extends PromiseWithResolvers<StoreCommit | undefined> {
  readonly changes: readonly StoreChange[];
  readonly values: readonly string[];
}

/** Sum of the changes of the commits in one call: Redis does nothing else while it runs. */
const changesMax = 1_000;

/**
 * Puts the commits of one turn of the promise queue into one call, and sends it at once: a call
 * that waited for the one before would leave the server and this process idle in turns.
 */
export class CommitGroups {
  readonly #queueMax: number;
  /** Answers all commits of a group, or rejects. */
  readonly #call: (group: readonly PendingCommit[]) => Promise<void>;
  #gathered: PendingCommit[] = [];
  readonly #running = new Set<Promise<void>>();
  waiting = 0;
  /** Calls that have ended. */
  ended = 0;

  constructor(queueMax: number, call: (group: readonly PendingCommit[]) => Promise<void>) {
    this.#queueMax = queueMax;
    this.#call = call;
  }

  async add(
    changes: readonly StoreChange[],
    values: readonly string[],
  ): Promise<StoreCommit | undefined> {
    if (this.waiting >= this.#queueMax) {
      throw new SpillwayError('LANE_FULL', `${this.waiting} commits of the store are under way`);
    }
    if (this.#gathered.length === 0) queueMicrotask(this.#flush);
    const pending = { changes, values, ...Promise.withResolvers<StoreCommit | undefined>() };
    this.#gathered.push(pending);
    this.waiting += 1;
    try {
      return await pending.promise;
    } finally {
      this.waiting -= 1;
    }
  }

  /** Resolves when all that was added before is answered. */
  async idle(): Promise<void> {
    // What came in this turn is sent by then.
    await undefined;
    await Promise.all(this.#running);
  }

  readonly #flush = (): void => {
    let group: PendingCommit[] = [];
    let count = 0;
    for (const pending of this.#gathered) {
      count += pending.changes.length;
      if (group.length > 0 && count > changesMax) {
        this.#begin(group);
        group = [];
        count = pending.changes.length;
      }
      group.push(pending);
    }
    this.#gathered = [];
    this.#begin(group);
  };

  #begin(group: readonly PendingCommit[]): void {
    const ending = this.#call(group)
      .catch((error: unknown) => {
        for (const { reject } of group) reject(error);
      })
      .then(() => {
        this.#running.delete(ending);
        this.ended += 1;
      });
    this.#running.add(ending);
  }
}
