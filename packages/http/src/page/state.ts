import {
  type Clock,
  deadline,
  type Every,
  every,
  Gate,
  type Json,
  SpillwayError,
  type Store,
  systemClock,
} from 'spillway';
import {
  anything,
  check,
  clockRule,
  integer,
  jsonText,
  or,
  settle,
  storeRule,
  word,
} from 'spillway/internal';

/** A value that is read-only in depth. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** Changes the draft, or gives back a new value for it; it must not wait. */
export type StateChange<T> = (draft: T) => T | undefined;

export interface StateOptions<T> {
  /** Store that keeps the value; it stays open when the state is disposed. */
  readonly store: Store;
  /** Name of its record, the same in all processes. */
  readonly name: string;
  /** Value while there is no record. */
  readonly initial: T;
  /** Milliseconds between two looks for changes by others. An integer from 10. @default 250 */
  readonly pollMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface StateStats {
  readonly kind: 'state';
  readonly version: number;
  readonly listeners: number;
  /** Looks for changes by others that failed. */
  readonly failures: number;
}

interface SignalOptions {
  readonly signal?: AbortSignal | undefined;
}

const rules = {
  store: storeRule,
  name: word,
  initial: anything,
  pollMs: or(integer(10), 250),
  clock: or(clockRule, systemClock),
};

const listenersMax = 10_000;

/**
 * A JSON value, read as a frozen snapshot and changed in atomic steps; subscribers are called once
 * for all changes of one turn. It is in memory, or kept in a store and shared by {@link open}.
 */
export class State<T> implements AsyncDisposable {
  readonly #listeners = new Set<() => void>();
  #record: StateRecord | undefined;
  #looks: Every | undefined;
  #text: string;
  #value: Frozen<T>;
  #version = 0;
  #isNotifying = false;

  constructor(initial: T) {
    this.#text = jsonText(initial as Json);
    this.#value = snapshotOf(this.#text);
  }

  /** Opens a state that is kept in a store, which many processes may share. */
  static async open<T>(options: StateOptions<T>): Promise<State<T>> {
    const settings = settle<StateOptions<T>, typeof rules>('State', options, rules);
    const { name, pollMs, clock } = settings;
    const record = new StateRecord(settings.store, name, jsonText(options.initial as Json), clock);
    const { text, version } = await record.read();
    const state = new State<T>(JSON.parse(text));
    state.#record = record;
    state.#version = version;
    const run = (signal: AbortSignal) => state.refresh({ signal });
    state.#looks = every({ name, periodMs: pollMs, run, clock });
    state.#looks.start();
    return state;
  }

  /** Newest value that this process knows; frozen in depth. */
  get value(): Frozen<T> {
    return this.#value;
  }

  /** Grows with every change. */
  get version(): number {
    return this.#version;
  }

  get stats(): StateStats {
    return {
      kind: 'state',
      version: this.#version,
      listeners: this.#listeners.size,
      failures: this.#looks?.stats.failures ?? 0,
    };
  }

  /**
   * Changes a copy of the value in one atomic step and gives back the new one: at once in memory,
   * else once it is durable. A change that throws changes nothing; it may be tried more than once.
   */
  async update(change: StateChange<T>, { signal }: SignalOptions = {}): Promise<Frozen<T>> {
    signal?.throwIfAborted();
    const changed = (text: string): string => {
      const draft: T = JSON.parse(text);
      const given = change(draft);
      return jsonText((given === undefined ? draft : given) as Json);
    };
    if (this.#record === undefined) {
      const text = changed(this.#text);
      if (text !== this.#text) this.#show({ text, version: this.#version + 1 });
      return this.#value;
    }
    const newest = await this.#record.update(changed, signal);
    this.#show(newest);
    return snapshotOf<T>(newest.text);
  }

  /** Calls back after each change, or once after many in one turn, until it is disposed. */
  subscribe(listener: () => void): Disposable {
    const { size } = this.#listeners;
    check(size < listenersMax, 'listeners', `at most ${listenersMax}: dispose old ones`, size);
    // A new function, so that the same listener may subscribe twice.
    const own = () => listener();
    this.#listeners.add(own);
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(own);
      },
    };
  }

  /** Looks now for changes by others, after a notification that came by another way. */
  async refresh({ signal }: SignalOptions = {}): Promise<void> {
    if (this.#record !== undefined) this.#show(await this.#record.read(signal));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
    await this.#looks?.close();
  }

  #show({ text, version }: Version): void {
    if (version <= this.#version) return;
    this.#version = version;
    if (text === this.#text) return;
    this.#text = text;
    this.#value = snapshotOf(text);
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    queueMicrotask(() => {
      this.#isNotifying = false;
      for (const listener of this.#listeners) {
        // In a microtask of its own, so that one that throws stops no other.
        queueMicrotask(() => {
          if (this.#listeners.has(listener)) listener();
        });
      }
    });
  }
}

function snapshotOf<T>(text: string): Frozen<T> {
  return frozen(JSON.parse(text));
}

function frozen<T>(value: T): Frozen<T> {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value as Frozen<T>;
}

interface Version {
  readonly text: string;
  readonly version: number;
}

const triesMax = 100;
const updateMsMax = 5_000;
const queueMax = 1_000;

/** The record of a value in a store; processes change it by comparing its version. */
class StateRecord {
  readonly #store: Store;
  readonly #name: string;
  readonly #initial: string;
  readonly #clock: Clock;
  /** One update at a time: those of one process would only make each other try again. */
  readonly #gate = new Gate({ limit: 1, queueMax });

  constructor(store: Store, name: string, initial: string, clock: Clock) {
    this.#store = store;
    this.#name = name;
    this.#initial = initial;
    this.#clock = clock;
  }

  async read(signal?: AbortSignal): Promise<Version> {
    using limit = deadline(this.#clock, updateMsMax, signal);
    return await this.#read(limit.signal);
  }

  async update(change: (text: string) => string, signal?: AbortSignal): Promise<Version> {
    using limit = deadline(this.#clock, updateMsMax, signal);
    using _turn = await this.#gate.enter(limit);
    for (let tries = 0; tries < triesMax; tries += 1) {
      const { text: before, version: ifVersion } = await this.#read(limit.signal);
      const text = change(before);
      if (text === before && ifVersion > 0) return { text, version: ifVersion };
      const changes = [{ name: this.#name, ifVersion, value: JSON.parse(text) }];
      const done = await this.#store.commit(changes, { signal: limit.signal });
      if (done !== undefined) return { text, version: done.version };
    }
    const message = `${this.#name}: others changed it ${triesMax} times meanwhile`;
    throw new SpillwayError('STORE_UNREACHABLE', message, { retryAfterMs: 1_000 });
  }

  async #read(signal: AbortSignal): Promise<Version> {
    const [record] = (await this.#store.read([this.#name], { signal })).records;
    if (record === undefined) return { text: this.#initial, version: 0 };
    return { text: jsonText(record.value), version: record.version };
  }
}
