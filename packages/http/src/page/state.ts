import { type Clock, type Document, type Json, type Store, systemClock } from 'spillway';
import { check, checkInteger, jsonText } from 'spillway/internal';
import { DocumentSource, type Sighting, type StateSource, StoreSource } from './state-source.ts';

/** A value that nobody can change, in depth. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** Changes the draft, or gives back what shall take its place; it must not wait. */
export type StateChange<T> = (draft: T) => T | undefined;

export interface StateDocumentOptions<T> {
  /** Where it is kept; it stays open when the state is disposed. */
  readonly document: Document<T>;
  /** How often changes by other processes are looked for, in ms, from 10; 250 by default. */
  readonly pollMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface StateStoreOptions<T> {
  /** Where it is kept and shared; it stays open when the state is disposed. */
  readonly store: Store;
  /** The name of its record, the same for all who share it. */
  readonly name: string;
  /** What it holds while there is no record. */
  readonly initial: T;
  /** How often changes by other processes are looked for, in ms, from 10; 250 by default. */
  readonly pollMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface StateStats {
  readonly version: number;
  readonly listeners: number;
  /** Times that looking for changes by others failed. */
  readonly failures: number;
}

const listenersMax = 10_000;

/**
 * A value that JSON can hold: read as a frozen snapshot, changed in atomic steps, and told of to
 * who subscribes, once for all changes of one turn. In memory, or kept and shared by {@link open}.
 */
export class State<T> implements AsyncDisposable {
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #source: StateSource | undefined;
  #text: string;
  #value: Frozen<T>;
  #version = 0;
  #isTelling = false;
  #timer: Disposable | undefined;
  #failures = 0;

  constructor(initial: T) {
    this.#text = jsonText(initial as Json);
    this.#value = snapshotOf(this.#text);
  }

  /** A state that is kept in a document, or in a store that many processes share. */
  static async open<T>(options: StateDocumentOptions<T> | StateStoreOptions<T>): Promise<State<T>> {
    const { pollMs = 250, clock = systemClock } = options;
    checkInteger('pollMs', pollMs, 10);
    const source =
      'document' in options
        ? new DocumentSource(options.document)
        : new StoreSource(options.store, options.name, jsonText(options.initial as Json), clock);
    const { text, version } = await source.read();
    const state = new State<T>(JSON.parse(text));
    state.#source = source;
    state.#version = version;
    state.#poll(clock, pollMs);
    return state;
  }

  /** The newest value that this process knows; frozen in depth. */
  get value(): Frozen<T> {
    return this.#value;
  }

  /** Grows with every change. */
  get version(): number {
    return this.#version;
  }

  get stats(): StateStats {
    const [version, failures] = [this.#version, this.#failures];
    return { version, listeners: this.#listeners.size, failures };
  }

  /**
   * Changes a copy of the value in one atomic step and gives back the new one: at once in memory,
   * else once it is durable. A change that throws changes nothing; it may be tried more than once.
   */
  async update(change: StateChange<T>, signal?: AbortSignal): Promise<Frozen<T>> {
    signal?.throwIfAborted();
    const changed = (text: string): string => {
      const draft: T = JSON.parse(text);
      const given = change(draft);
      return jsonText((given === undefined ? draft : given) as Json);
    };
    if (this.#source === undefined) {
      const text = changed(this.#text);
      if (text !== this.#text) this.#show({ text, version: this.#version + 1 });
      return this.#value;
    }
    const seen = await this.#source.update(changed, signal);
    this.#show(seen);
    return snapshotOf<T>(seen.text);
  }

  /** Calls back after each change, or once after many in one turn, until it is disposed. */
  subscribe(listener: () => void): Disposable {
    const { size } = this.#listeners;
    check(size < listenersMax, 'listeners', `at most ${listenersMax}: dispose old ones`, size);
    // A function of its own, so that the same listener may subscribe twice.
    const own = () => listener();
    this.#listeners.add(own);
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(own);
      },
    };
  }

  /** Looks now for what others changed: for a notification that comes by another way. */
  async refresh(signal?: AbortSignal): Promise<void> {
    if (this.#source !== undefined) this.#show(await this.#source.read(signal));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#timer?.[Symbol.dispose]();
    this.#listeners.clear();
  }

  #show({ text, version }: Sighting): void {
    if (version <= this.#version) return;
    this.#version = version;
    if (text === this.#text) return;
    this.#text = text;
    this.#value = snapshotOf(text);
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      this.#tell();
    });
  }

  /** Each by itself: one that throws is a bug, but not one of those that come after it. */
  #tell(): void {
    for (const listener of this.#listeners) {
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener();
      });
    }
  }

  #poll(clock: Clock, pollMs: number): void {
    if (this.#closing.signal.aborted) return;
    this.#timer = clock.after(pollMs, () => {
      const failed = () => {
        if (!this.#closing.signal.aborted) this.#failures += 1;
      };
      void this.refresh(this.#closing.signal)
        .catch(failed)
        .finally(() => this.#poll(clock, pollMs));
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
