import { AsyncLocalStorage } from 'node:async_hooks';
import { check, checkInteger } from '../base/check.ts';
import { type Clock, microtask, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { callback, clockRule, integer, maybe, number, or, settle, word } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { RunOptions } from '../base/task.ts';
import { told } from '../base/tell.ts';
import { Ring, type RingMember } from '../wait/ring.ts';
import { mayGrant, nextTurn } from '../wait/turn-budget.ts';
import { WaitQueue } from '../wait/wait-queue.ts';

/**
 * Reason for which an item was dropped: its `attempts` are used up, the backlog `closed` first,
 * `key` or `merge` threw an `error`, the backlog was `full`, or `clear` was called.
 */
export type DropReason = 'attempts' | 'cleared' | 'closed' | 'error' | 'full';

export interface BacklogOptions<T> {
  /** Items held at most: waiting, running or waiting to be retried. An integer from 1. */
  readonly queueMax: number;
  /** Does the work of one item; the signal aborts when the time to close is over. */
  readonly consume: (item: T, signal: AbortSignal) => Promise<void> | void;
  /** Name of the part in stats and messages. @default 'backlog' */
  readonly name?: string | undefined;
  /** Items that may run at once. An integer from 1. @default 1 */
  readonly consumers?: number | undefined;
  /** Items of one key run one after another; waiting ones are merged. @default none */
  readonly key?: ((item: T) => string) | undefined;
  /** Merges two items of the same key, the older one first. @default keeps the newer one */
  readonly merge?: ((waiting: T, incoming: T) => T) | undefined;
  /** Attempts for an item, merged or not. An integer from 1. @default 5 */
  readonly attemptsMax?: number | undefined;
  /** The longest wait before attempt 2, in ms; doubles with each attempt. @default 100 */
  readonly backoffMs?: number | undefined;
  /** The longest wait before any attempt, in ms, from `backoffMs` to a day. @default 30_000 */
  readonly backoffMsMax?: number | undefined;
  /** Called for each dropped item; an error that it throws is ignored. @default none */
  readonly onDrop?: ((item: T, reason: DropReason, error?: unknown) => void) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** `added` is always the sum of `merged`, `done`, all `dropped`, and the items still held. */
export interface BacklogStats {
  readonly kind: 'backlog';
  /** Items passed to `add`, also those that were dropped. */
  readonly added: number;
  /** Items that were merged with a waiting one of their key. */
  readonly merged: number;
  readonly done: number;
  /** Attempts that failed. */
  readonly failed: number;
  readonly dropped: Readonly<Record<DropReason, number>>;
  readonly waiting: number;
  readonly running: number;
  /** Items that failed and wait for their next attempt. */
  readonly retrying: number;
}

const dayMs = 86_400_000;

function settings<T>(options: BacklogOptions<T>) {
  const { backoffMs = 0 }: BacklogOptions<T> = Object(options);
  const settled = settle('Backlog', options, {
    queueMax: integer(1),
    consume: callback,
    name: or(word, 'backlog'),
    consumers: or(integer(1), 1),
    key: maybe(callback),
    merge: or(callback, (_: T, incoming: T) => incoming),
    attemptsMax: or(integer(1), 5),
    backoffMs: or(number(0, dayMs), 100),
    backoffMsMax: or(number(backoffMs, dayMs), Math.max(30_000, backoffMs)),
    onDrop: maybe(callback),
    clock: or(clockRule, systemClock),
    random: or(callback, systemRandom),
  });
  const isKeyed = options.key !== undefined || options.merge === undefined;
  check(isKeyed, 'Backlog: merge', 'given together with `key`', options.merge);
  return settled;
}

class Entry<T> implements RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  item: T;
  readonly key: string | undefined;
  attempts = 0;
  retry: Disposable | undefined = undefined;
  /** Runs a function in the AsyncLocalStorage context of the caller that added the item. */
  readonly inContext: <R>(work: () => R) => R = AsyncLocalStorage.snapshot();

  constructor(item: T, key: string | undefined) {
    this.item = item;
    this.key = key;
  }
}

/**
 * Fire-and-forget work: bounded, tried again when it fails, and coalesced by key, so that at most
 * one item of a key runs and one waits. Each item runs in the AsyncLocalStorage context of the
 * caller that added it. Items that are dropped are counted and passed to `onDrop`.
 */
export class Backlog<T> implements Part, AsyncDisposable {
  readonly name: string;
  readonly #settings: ReturnType<typeof settings<T>>;
  readonly #waiting = new Ring<Entry<T>>();
  /** Entries whose turn came while their key was running; older than all that wait. */
  readonly #blocked = new Map<string, Entry<T>>();
  readonly #running = new Set<Entry<T>>();
  readonly #retrying = new Set<Entry<T>>();
  /** The one entry of each key that waits, for its turn or for its retry. */
  readonly #waitingByKey = new Map<string, Entry<T>>();
  readonly #busyKeys = new Set<string>();
  readonly #idle = new WaitQueue();
  readonly #abort = new AbortController();
  readonly #dropped = { attempts: 0, cleared: 0, closed: 0, error: 0, full: 0 };
  #added = 0;
  #merged = 0;
  #done = 0;
  #failed = 0;
  #startDue: boolean = false;
  #consumers: number;
  #isPaused = false;
  readonly #closing: Closing;

  constructor(options: BacklogOptions<T>) {
    this.#settings = settings(options);
    this.name = this.#settings.name;
    this.#consumers = this.#settings.consumers;
    this.#closing = new Closing(this.#settings.clock, (limit) => this.#finish(limit));
  }

  /** True until `close`. */
  get ready(): boolean {
    return !this.#closing.hasBegun;
  }

  get stats(): BacklogStats {
    return {
      kind: 'backlog',
      added: this.#added,
      merged: this.#merged,
      done: this.#done,
      failed: this.#failed,
      dropped: { ...this.#dropped },
      waiting: this.#waiting.size + this.#blocked.size,
      running: this.#running.size,
      retrying: this.#retrying.size,
    };
  }

  get #size(): number {
    return this.#waiting.size + this.#blocked.size + this.#running.size + this.#retrying.size;
  }

  /**
   * Takes the item, or drops it, and returns at once; it never throws. A merged item keeps the
   * place, the attempts and the retry time of the one that waited.
   */
  add(item: T): 'added' | 'merged' | 'dropped' {
    this.#added += 1;
    if (this.#closing.hasBegun) return this.#drop(item, 'closed');
    let key: string | undefined;
    try {
      key = this.#settings.key?.(item);
      const waiting = key === undefined ? undefined : this.#waitingByKey.get(key);
      if (waiting !== undefined) {
        waiting.item = this.#settings.merge(waiting.item, item);
        this.#merged += 1;
        return 'merged';
      }
    } catch (error) {
      return this.#drop(item, 'error', error);
    }
    if (this.#size >= this.#settings.queueMax) return this.#drop(item, 'full');
    this.#enqueue(new Entry(item, key));
    return 'added';
  }

  /** Resolves when no item waits, runs or is to be retried. */
  async idle({ signal }: RunOptions = {}): Promise<void> {
    if (this.#size > 0 || signal?.aborted) await this.#idle.wait(signal);
  }

  /**
   * Accepts no more items and finishes those held. When the time is over it aborts those that run,
   * drops the rest, and rejects with `BACKLOG_LEFT`; every call gets the outcome of the first.
   */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Starts no items until `resume` or `close`; items that run go on. */
  pause(): void {
    this.#isPaused = !this.#closing.hasBegun;
  }

  /** Undoes `pause`. */
  resume(): void {
    this.#isPaused = false;
    this.#startSoon(microtask);
  }

  /** Changes how many items may run at once. */
  resize(consumers: number): void {
    checkInteger('Backlog.resize: consumers', consumers, 1);
    this.#consumers = consumers;
    this.#startSoon(microtask);
  }

  /** Drops all items that wait for their turn or for a retry; items that run go on. */
  clear(): void {
    for (const entry of this.#takeWaiting()) this.#drop(entry.item, 'cleared');
    this.#wakeIdle();
  }

  #takeWaiting(): Entry<T>[] {
    const taken = [...this.#retrying, ...this.#blocked.values()];
    for (let entry = this.#waiting.shift(); entry; entry = this.#waiting.shift()) taken.push(entry);
    for (const held of [this.#retrying, this.#blocked, this.#waitingByKey]) held.clear();
    for (const entry of taken) entry.retry?.[Symbol.dispose]();
    return taken;
  }

  async #finish(limit: AbortSignal): Promise<void> {
    this.resume();
    // If the time is over first, some items are not finished.
    await this.idle({ signal: limit }).catch(() => {});
    if (this.#size === 0) return;
    const message = `${this.#size} items were left, ${this.#running.size} of them running`;
    const error = new SpillwayError('BACKLOG_LEFT', message);
    const left = [...this.#running, ...this.#takeWaiting()];
    this.#running.clear();
    for (const entry of left) this.#drop(entry.item, 'closed');
    this.#abort.abort(error);
    this.#wakeIdle();
    throw error;
  }

  #enqueue(entry: Entry<T>): void {
    if (entry.key !== undefined) this.#waitingByKey.set(entry.key, entry);
    this.#waiting.push(entry);
    this.#startSoon(microtask);
  }

  /** Starting is put off, so that `add` returns first and a burst of one key becomes one item. */
  #startSoon(defer: (callback: () => void) => void): void {
    if (this.#startDue) return;
    this.#startDue = true;
    defer(this.#start);
  }

  readonly #start = (): void => {
    this.#startDue = false;
    for (let entry = this.#next(); entry !== undefined; entry = this.#next()) {
      if (!mayGrant(this.#settings.clock.now())) {
        this.#startSoon(nextTurn);
        return;
      }
      void this.#run(entry);
    }
  };

  /**
   * Finds the oldest entry whose key is free. Entries with a running key are put aside, so that
   * the search skips them until their key is free.
   */
  #next(): Entry<T> | undefined {
    if (this.#isPaused || this.#running.size >= this.#consumers) return undefined;
    for (;;) {
      const entry = this.#waiting.first;
      if (entry?.key === undefined || !this.#busyKeys.has(entry.key)) return entry;
      this.#waiting.remove(entry);
      this.#blocked.set(entry.key, entry);
    }
  }

  async #run(entry: Entry<T>): Promise<void> {
    const { key } = entry;
    this.#waiting.remove(entry);
    this.#running.add(entry);
    entry.attempts += 1;
    if (key !== undefined) {
      this.#waitingByKey.delete(key);
      this.#busyKeys.add(key);
    }
    const { consume } = this.#settings;
    const work = entry.inContext(async () => await consume(entry.item, this.#abort.signal));
    const [outcome] = await Promise.allSettled([work]);
    // An item that close has dropped is over, however it ends.
    if (!this.#running.delete(entry)) return;
    if (outcome.status === 'fulfilled') this.#done += 1;
    else this.#fail(entry, outcome.reason);
    if (key !== undefined) this.#freeKey(key);
    this.#startSoon(microtask);
    this.#wakeIdle();
  }

  #freeKey(key: string): void {
    this.#busyKeys.delete(key);
    const blocked = this.#blocked.get(key);
    if (blocked === undefined) return;
    this.#blocked.delete(key);
    this.#waiting.unshift(blocked);
  }

  #fail(entry: Entry<T>, error: unknown): void {
    this.#failed += 1;
    const { key, attempts } = entry;
    const { attemptsMax, backoffMs, backoffMsMax, merge, clock, random } = this.#settings;
    if (attempts >= attemptsMax) {
      this.#drop(entry.item, 'attempts', error);
      return;
    }
    const newer = key === undefined ? undefined : this.#waitingByKey.get(key);
    if (newer !== undefined) {
      try {
        entry.item = merge(entry.item, newer.item);
      } catch (mergeError) {
        this.#drop(entry.item, 'error', mergeError);
        return;
      }
      if (!this.#waiting.remove(newer)) this.#blocked.delete(key as string);
      this.#merged += 1;
    }
    if (key !== undefined) this.#waitingByKey.set(key, entry);
    this.#retrying.add(entry);
    // Full jitter; the exponent is bounded, so that the delay cannot overflow.
    const waitMsMax = Math.min(backoffMs * 2 ** Math.min(attempts - 1, 50), backoffMsMax);
    entry.retry = clock.after(random() * waitMsMax, () => {
      this.#retrying.delete(entry);
      this.#enqueue(entry);
    });
  }

  #drop(item: T, reason: DropReason, error?: unknown): 'dropped' {
    this.#dropped[reason] += 1;
    if (told.dropped.hasSubscribers) told.dropped.publish({ part: this, item, reason, error });
    try {
      this.#settings.onDrop?.(item, reason, error);
    } catch {
      // The drop is counted already, and an error in `onDrop` must not stop the work.
    }
    return 'dropped';
  }

  #wakeIdle(): void {
    while (this.#size === 0 && this.#idle.wake());
  }
}
