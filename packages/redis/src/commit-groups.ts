import { SpillwayError, type StoreChange, type StoreCommit } from 'spillway';
import { nextTurn } from 'spillway/internal';

/** A commit without an answer yet; its values are JSON, an empty one removes the record. */
export interface PendingCommit extends PromiseWithResolvers<StoreCommit | undefined> {
  readonly changes: readonly StoreChange[];
  readonly values: readonly string[];
}

/** Most changes in one call, unless one commit has more: Redis does nothing else meanwhile. */
const changesMax = 1_000;

/** A group of this many commits or more is sent as two calls, if none is under way. */
const halvedMin = 4;

/**
 * Puts the commits of one turn of the promise queue into one call, and sends it at once. It does
 * not wait for the call before, or server and process would wait for each other in turn. For the
 * same reason many commits that arrive while no call is under way become two calls, one turn of
 * the event loop apart: the server works on the second while the first's answers are handled.
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

  /** Resolves with the answer to the commit; throws if too many are under way. */
  add(changes: readonly StoreChange[], values: readonly string[]): PendingCommit['promise'] {
    if (this.waiting >= this.#queueMax) {
      throw new SpillwayError('LANE_FULL', `${this.waiting} commits of the store are under way`);
    }
    if (this.#gathered.length === 0) queueMicrotask(this.#flush);
    const { promise, resolve, reject } = Promise.withResolvers<StoreCommit | undefined>();
    this.#gathered.push({ changes, values, promise, resolve, reject });
    this.waiting += 1;
    return promise;
  }

  /** Resolves when all commits that were added before are answered. */
  async idle(): Promise<void> {
    while (this.waiting > 0) {
      await Promise.all(this.#running);
      // Commits of this turn of the promise queue are sent in it, or in the loop's next turn.
      await new Promise<void>(nextTurn);
    }
  }

  readonly #flush = (): void => {
    const { length } = this.#gathered;
    const isHalved = this.#running.size === 0 && length >= halvedMin;
    const gathered = this.#gathered.splice(0, isHalved ? length / 2 : length);
    let group: PendingCommit[] = [];
    let count = 0;
    for (const pending of gathered) {
      count += pending.changes.length;
      if (group.length > 0 && count > changesMax) {
        this.#begin(group);
        group = [];
        count = pending.changes.length;
      }
      group.push(pending);
    }
    this.#begin(group);
    // The client writes the first half in the next turn of the loop, before this runs.
    if (isHalved) nextTurn(this.#flush);
  };

  #begin(group: readonly PendingCommit[]): void {
    const end = () => {
      this.#running.delete(ending);
      this.waiting -= group.length;
      this.ended += 1;
    };
    const ending = this.#call(group).then(end, (error: unknown) => {
      for (const { reject } of group) reject(error);
      end();
    });
    this.#running.add(ending);
  }
}
