import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { misuse } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { inDoubt, SpillwayError } from '../base/errors.ts';
import { callback, clockRule, type Filled, integer, number, or, settle } from '../base/options.ts';
import type { RunOptions } from '../base/task.ts';
import { Deadlines } from './deadlines.ts';
import { Ring } from './ring.ts';
import { rejectSoon, Waiter } from './wait-queue.ts';

/** One item and its caller; the call answers it with `grant` or `refuse`. */
export class BatchEntry<Item, Result> extends Waiter<Result> {
  readonly item: Item;
  readonly dueAt: number;
  /** Costs a fifth of what `AsyncLocalStorage.snapshot` does (2026-11). */
  readonly #context = new AsyncResource('BatchEntry');
  /**
   * True if the item may have been written when its caller leaves now: an error such as that of the
   * deadline is then marked as not retryable. `take` sets it; a call that takes before it is ready
   * to write may set it back until then.
   */
  mayBeDone = false;
  #leaving: AbortController | undefined = undefined;
  #gone: { readonly reason: unknown } | undefined = undefined;

  constructor(item: Item, dueAt: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.item = item;
    this.dueAt = dueAt;
  }

  /** Aborts when the caller leaves: its own signal aborted, or the deadline has passed. */
  get signal(): AbortSignal {
    this.#leaving ??= new AbortController();
    if (this.#gone !== undefined) this.#leaving.abort(this.#gone.reason);
    return this.#leaving.signal;
  }

  /** Runs a function in the AsyncLocalStorage context of the caller that brought the item. */
  inContext<R>(work: () => R): R {
    return this.#context.runInAsyncScope(work);
  }

  override giveUp(reason: unknown): void {
    super.giveUp(this.mayBeDone ? inDoubt(reason) : reason);
    this.#gone = { reason };
    this.#leaving?.abort(reason);
  }

  protected override answer(answer: Result | Promise<never>): void {
    this.ring?.remove(this);
    super.answer(answer);
  }
}

/** The items that one call may take. */
export interface BatchGroup<Item, Result> {
  /** Aborts when all callers, waiting or taken, have left; others may have come since. */
  readonly signal: AbortSignal;
  /** The item that `take` gives next, if any waits. */
  readonly next: Item | undefined;
  /** Takes the items that have waited longest, at most `max` of them. @default groupMax */
  take(max?: number): readonly BatchEntry<Item, Result>[];
}

export interface BatchOptions<Item, Result> {
  /**
   * Handles one group: prepares (a lock, a connection), takes items, works, and answers each that
   * it took. Items that come before `take` belong to the group. If it throws, all items that it
   * took are refused with that error; if it took none, all that wait.
   */
  readonly call: (group: BatchGroup<Item, Result>) => Promise<void>;
  /** The largest group. An integer from 1. @default 256 */
  readonly groupMax?: number | undefined;
  /** Items that may wait for a group. An integer from 0. @default 10_000 */
  readonly queueMax?: number | undefined;
  /** Milliseconds from `add` to the answer, from 0. @default 10_000 */
  readonly deadlineMs?: number | undefined;
  /** Makes the error for a caller that finds the queue full. */
  readonly full: (waiting: number) => Error;
  readonly clock?: Clock | undefined;
}

export interface BatchStats {
  readonly kind: 'batch';
  readonly waiting: number;
  /** Items of the group under way. */
  readonly running: number;
  /** Calls that have ended. */
  readonly groups: number;
}

/**
 * Group commit: one call at a time; all items that come meanwhile share the next one. An abort or
 * the deadline rejects at once. If the item was taken by then, it may have been written: a
 * `DEADLINE` says so and is not retryable, but any other reason of the signal, such as a
 * TimeoutError, is passed on unchanged. Calls run in no caller's AsyncLocalStorage context.
 */
export class Batch<Item, Result> {
  readonly #options: Filled<BatchOptions<Item, Result>>;
  readonly #waiting = new Ring<BatchEntry<Item, Result>>();
  readonly #taken = new Ring<BatchEntry<Item, Result>>();
  readonly #deadlines: Deadlines;
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #abandon = new AbortController();
  #working: Promise<void> | undefined = undefined;
  #groups = 0;

  constructor(options: BatchOptions<Item, Result>) {
    this.#options = settle('Batch', options, {
      call: callback,
      groupMax: or(integer(1), 256),
      queueMax: or(integer(0), 10_000),
      deadlineMs: or(number(0), 10_000),
      full: callback,
      clock: or(clockRule, systemClock),
    });
    this.#deadlines = new Deadlines(this.#options.clock, this.#expire);
  }

  get stats(): BatchStats {
    const waiting = this.#waiting.size;
    return { kind: 'batch', waiting, running: this.#taken.size, groups: this.#groups };
  }

  /** Resolves with what the call grants to this item. */
  add(item: Item, { signal }: RunOptions = {}): Promise<Result> {
    if (signal?.aborted) return rejectSoon(signal.reason);
    const { queueMax, deadlineMs, clock, full } = this.#options;
    // The first one starts a call at once, so it never waits in the queue.
    const isFull = this.#working !== undefined && this.#waiting.size >= queueMax;
    if (isFull) return rejectSoon(full(this.#waiting.size));
    const dueAt = clock.now() + deadlineMs;
    const entry = new BatchEntry<Item, Result>(item, dueAt, signal, this.#left);
    this.#waiting.push(entry);
    this.#deadlines.watch(dueAt);
    this.#working ??= this.#inOwnContext(() => this.#work());
    return entry.promise;
  }

  /** Resolves when nobody waits and no call is under way. */
  async idle(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
  }

  /** Refuses all that wait; a call under way goes on. */
  refuseAll(reason: unknown): void {
    for (const entry of this.#waiting) entry.refuse(reason);
  }

  async #work(): Promise<void> {
    // All items added in the same turn of the promise queue share the first group.
    await undefined;
    while (this.#waiting.size > 0) await this.#callOnce();
    this.#deadlines.clear();
    this.#working = undefined;
  }

  async #callOnce(): Promise<void> {
    this.#abandon = new AbortController();
    const { signal } = this.#abandon;
    const { call, groupMax } = this.#options;
    let hasTaken = false;
    const waiting = this.#waiting;
    const group: BatchGroup<Item, Result> = {
      signal,
      get next() {
        return waiting.first?.item;
      },
      take: (max = groupMax) => {
        hasTaken = true;
        const entries = waiting[Symbol.iterator]().take(max).toArray();
        for (const entry of entries) {
          waiting.remove(entry);
          this.#taken.push(entry);
          entry.mayBeDone = true;
        }
        return entries;
      },
    };
    let failure: { readonly reason: unknown } | undefined;
    try {
      await call(group);
    } catch (reason) {
      failure = { reason };
    }
    this.#groups += 1;
    // The failure of a call that ended since nobody waited is not that of items added later.
    const hasBegun = hasTaken || signal.aborted;
    for (const entry of hasBegun ? this.#taken : this.#waiting) {
      failure ??= { reason: misuse('Batch: call', 'a function that answers all it takes', call) };
      entry.refuse(failure.reason);
    }
  }

  readonly #left = (): void => {
    if (this.#waiting.size + this.#taken.size === 0) this.#abandon.abort();
  };

  readonly #expire = (now: number): number => {
    const { deadlineMs } = this.#options;
    let nextAt = Infinity;
    for (const entries of [this.#taken, this.#waiting]) {
      for (const entry of entries) {
        if (entry.dueAt > now) break;
        entry.giveUp(new SpillwayError('DEADLINE', `not done within ${deadlineMs} ms`));
      }
      nextAt = Math.min(nextAt, entries.first?.dueAt ?? Infinity);
    }
    return nextAt;
  };
}
