import type { Json } from 'spillway';
import { check, jsonText } from 'spillway/internal';

/** A value that is read-only in depth. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** Changes the draft, or gives back a new value for it; it must not wait. */
export type StateChange<T> = (draft: T) => T | undefined;

const listenersMax = 10_000;

/**
 * A JSON value in memory, read as a frozen snapshot and changed in atomic steps; subscribers are
 * called once for all changes of one turn.
 */
export class State<T> {
  readonly #listeners = new Set<() => void>();
  #text: string;
  #value: Frozen<T>;
  #version = 0;
  #isNotifying = false;

  constructor(initial: T) {
    this.#text = jsonText(initial as Json);
    this.#value = snapshotOf(this.#text);
  }

  /** Newest value; frozen in depth. */
  get value(): Frozen<T> {
    return this.#value;
  }

  /** Grows with every change. */
  get version(): number {
    return this.#version;
  }

  /** Subscriptions that are not disposed. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** Changes a copy of the value, and gives back the new one. What throws changes nothing. */
  update(change: StateChange<T>): Frozen<T> {
    const draft: T = JSON.parse(this.#text);
    const given = change(draft);
    const text = jsonText((given === undefined ? draft : given) as Json);
    if (text !== this.#text) this.#show(text);
    return this.#value;
  }

  /** Calls back after each change, or once after many in one turn, until it is disposed. */
  subscribe(listener: () => void): Disposable {
    const { size } = this.#listeners;
    check(size < listenersMax, 'listeners', `at most ${listenersMax}: dispose old ones`, size);
    // A new function, so that the same listener may subscribe twice.
    const own = () => listener();
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  #show(text: string): void {
    this.#version += 1;
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
