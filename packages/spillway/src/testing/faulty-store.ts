import type { Clock } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import { callback, clockRule, type Filled, number, or, settle } from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type {
  Durability,
  NamedRecord,
  Store,
  StoreApplied,
  StoreCallOptions,
  StoreChange,
  StoreCommit,
  StoreDecision,
  StoreListOptions,
  StoreNews,
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
 * A store behind a bad network, for tests on a virtual clock. Give each simulated process one of
 * its own around the store that they share. An aborted call may arrive, as on a real network.
 */
export class FaultyStore implements Store {
  /** True while the network is down: no message arrives and every call fails. */
  down = false;
  readonly #store: Store;
  readonly #options: Filled<FaultyStoreOptions>;

  constructor(store: Store, options: FaultyStoreOptions) {
    this.#store = store;
    this.#options = settle('FaultyStore', options, {
      clock: clockRule,
      process: or(clockRule, options.clock),
      random: or(callback, systemRandom),
      delayMsMax: or(number(0, 3_600_000), 0),
      faultShare: or(number(0, 1), 0),
    });
  }

  get durability(): Durability | undefined {
    return this.#store.durability;
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

  apply(
    name: string,
    decision: StoreDecision,
    argument: Json,
    options?: StoreCallOptions,
  ): Promise<StoreApplied> | undefined {
    if (this.#store.apply === undefined) return undefined;
    const copy = structuredClone(argument);
    const ask = async () => (await this.#store.apply?.(name, decision, copy)) as StoreApplied;
    return this.#send(ask, options);
  }

  /** Watches the names; a notification may come late or never, as on a real network. */
  watch(names: readonly string[], changed: (news?: StoreNews) => void): StoreWatch {
    const { process, random, faultShare } = this.#options;
    let isWatching = true;
    const watch = this.#store.watch?.(names, (news) => {
      const hear = () => {
        if (isWatching) changed(news);
      };
      if (!this.down && random() >= faultShare) this.#later(process, hear);
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
    const { clock, process, random, faultShare } = this.#options;
    const waiter = new Waiter<T>(signal);
    const fault = random() < faultShare ? Math.floor(random() * 3) : -1;
    const fail = () => waiter.refuse(new Error('the network failed'));
    const arrive = async () => {
      if (this.down || fault === 0) return this.#later(process, fail);
      // The answer is read first: it is the store's state at the moment of the call.
      const answer = await ask().then(
        (value) => () => waiter.grant(value),
        (error) => () => waiter.refuse(error),
      );
      if (fault !== 2) this.#later(process, fault === 1 ? fail : answer);
    };
    this.#later(clock, () => void arrive());
    return waiter.promise;
  }

  #later(clock: Clock, callback: () => void): void {
    // Without a delay the answer comes at the same virtual time, but in a later microtask.
    clock.after(this.#options.random() * this.#options.delayMsMax, callback);
  }
}
