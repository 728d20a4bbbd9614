import { checkNumber } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type {
  NamedRecord,
  Store,
  StoreCallOptions,
  StoreChange,
  StoreCommit,
  StoreListOptions,
  StoreReading,
  StoreWatch,
} from '../store/store.ts';
import { Waiter } from '../wait/wait-queue.ts';

export interface FaultyStoreOptions {
  /** Virtual clock of the network. */
  readonly clock: Clock;
  /** Clock of the calling process: no answer arrives while it is paused. @default `clock` */
  readonly process?: Clock | undefined;
  /** Source of chance for failures and delays. @default systemRandom */
  readonly random?: Random | undefined;
  /** The longest delay of a message, in ms; messages overtake each other. @default 0 */
  readonly delayMsMax?: number | undefined;
  /**
   * Share of calls that fail, from 0 to 1: a third of them before anything is done, a third after
   * it was done, and a third are done and never answered. @default 0
   */
  readonly faultShare?: number | undefined;
}

/**
 * A store behind a bad network, for tests on a virtual clock. Give each simulated process its own
 * around the one they share. A call that is aborted may still arrive, as it may in life.
 */
export class FaultyStore implements Store {
  /** True while the network is down: no message arrives and every call fails. */
  down = false;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #process: Clock;
  readonly #random: Random;
  readonly #delayMsMax: number;
  readonly #faultShare: number;

  constructor(store: Store, options: FaultyStoreOptions) {
    const { clock, process = clock, random = systemRandom } = options;
    const { delayMsMax = 0, faultShare = 0 } = options;
    checkNumber('delayMsMax', delayMsMax, 0, 3_600_000);
    checkNumber('faultShare', faultShare, 0, 1);
    this.#store = store;
    this.#clock = clock;
    this.#process = process;
    this.#random = random;
    this.#delayMsMax = delayMsMax;
    this.#faultShare = faultShare;
  }

  read(names: readonly string[], options?: StoreCallOptions): Promise<StoreReading> {
    return this.#send(() => this.#store.read(names), options);
  }

  commit(
    changes: readonly StoreChange[],
    options?: StoreCallOptions,
  ): Promise<StoreCommit | undefined> {
    const copy = structuredClone(changes);
    return this.#send(() => this.#store.commit(copy), options);
  }

  /** Watches the names; a notification may come late or never, as on a real network. */
  watch(names: readonly string[], changed: () => void): StoreWatch {
    let isWatching = true;
    const hear = () => {
      if (isWatching) changed();
    };
    const watch = this.#store.watch?.(names, () => {
      if (!this.down && this.#random() >= this.#faultShare) this.#later(this.#process, hear);
    });
    return {
      isLive: watch !== undefined,
      [Symbol.dispose]() {
        isWatching = false;
        watch?.[Symbol.dispose]();
      },
    };
  }

  list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]> {
    const { max, after } = options;
    return this.#send(() => this.#store.list(prefix, { max, after }), options);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #send<T>(ask: () => Promise<T>, { signal }: StoreCallOptions = {}): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const waiter = new Waiter<T>(signal);
    const fault = this.#random() < this.#faultShare ? Math.floor(this.#random() * 3) : -1;
    const fail = () => waiter.refuse(new Error('the network failed'));
    const arrive = async () => {
      if (this.down || fault === 0) return this.#later(this.#process, fail);
      // The answer is read first: it is the store's state at the moment of the call.
      const answer = await ask().then(
        (value) => () => waiter.grant(value),
        (error) => () => waiter.refuse(error),
      );
      if (fault !== 2) this.#later(this.#process, fault === 1 ? fail : answer);
    };
    this.#later(this.#clock, () => void arrive());
    return waiter.promise;
  }

  #later(clock: Clock, callback: () => void): void {
    // Without a delay the answer comes at the same virtual time, but in a later microtask.
    clock.after(this.#random() * this.#delayMsMax, callback);
  }
}
