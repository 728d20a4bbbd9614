import { untilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import { callback, clockRule, number, or, type Rules, storeRule, word } from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type {
  Store,
  StoreApplied,
  StoreChange,
  StoreCommit,
  StoreCommitOptions,
  StoreDecision,
  StoreReading,
  StoreWatch,
} from '../store/store.ts';
import { pause } from '../wait/wait-queue.ts';

export interface SharedOptions {
  /** The store, the same for all processes that share the part. */
  readonly store: Store;
  /** The name, the same for all processes that share the part; not empty. */
  readonly name: string;
  /** The longest time that a visit may take, with retries, in ms; from 10. @default 1_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** The rules of {@link SharedOptions}. */
export const sharedRules: Rules<SharedOptions> = {
  store: storeRule,
  name: word,
  deadlineMs: or(number(10, Number.MAX_SAFE_INTEGER), 1_000),
  clock: or(clockRule, systemClock),
  random: or(callback, systemRandom),
};

/** Local times between which the store worked on a call. */
interface CallTimes {
  readonly sentAt: number;
  readonly receivedAt: number;
}

export interface TimedReading extends StoreReading, CallTimes {}
interface TimedCommit extends StoreCommit, CallTimes {}
interface TimedAnswer extends StoreApplied, CallTimes {}

/** The changes that follow from a reading; without changes nothing is committed. */
export interface Decision<T> {
  readonly changes?: readonly StoreChange[] | undefined;
  readonly value: T;
}

interface UpdateResult<T> {
  readonly value: T;
  readonly seen: TimedReading;
  /** Undefined if nothing had to be committed. */
  readonly done: TimedCommit | undefined;
}

interface CommitOptions extends StoreCommitOptions {
  /** The longest time for this commit, in milliseconds. */
  readonly msMax?: number | undefined;
}

/** The share of a claim's life by which it is given up early: clocks and timers are not exact. */
export const margin = 0.1;
/** Waiters poll so many times less often while the store tells them of changes. */
export const watchedPolls = 20;

/** Failures that a retry does not mend: no room, or records of another version. */
const lastingCodes: ReadonlySet<unknown> = new Set([
  'DATABASE_FULL',
  'DATABASE_MIGRATION',
  'STORE_FULL',
]);

/** The error for a record that this version cannot read: nothing was decided. */
export function foreignForm(what: string): SpillwayError {
  const message = `${what} was written by another version of spillway`;
  return new SpillwayError('DATABASE_MIGRATION', `${message}; let all processes run the newer one`);
}

/**
 * The calls of one part to a store that may fail, be slow, or do what it was asked and never
 * answer.
 */
export class StoreLink {
  readonly #store: Store;
  readonly #name: string;
  readonly #random: Random;
  readonly clock: Clock;
  readonly deadlineMs: number;

  /** The owner has checked the options. */
  constructor(options: SharedOptions) {
    const { deadlineMs = 1_000, clock = systemClock, random = systemRandom } = options;
    this.#store = options.store;
    this.#name = options.name;
    this.deadlineMs = deadlineMs;
    this.clock = clock;
    this.#random = random;
  }

  /** A random time from half of `ms` to `ms`, so that processes do not act in step. */
  jitter(ms: number): number {
    return ms * (0.5 + this.#random() / 2);
  }

  /** A name that nobody else has. */
  newId(): string {
    const part = () => Math.floor(this.#random() * 2 ** 32);
    return `${part()}-${part()}-${part()}`;
  }

  /** Undefined if the store has no `watch`: then callers have to poll. */
  watch(names: readonly string[], changed: () => void): StoreWatch | undefined {
    return this.#store.watch?.(names, changed);
  }

  async read(names: readonly string[], signal?: AbortSignal): Promise<TimedReading> {
    const sentAt = this.clock.now();
    const reading = await this.#ask((limit) => this.#store.read(names, { signal: limit }), signal);
    return { ...reading, sentAt, receivedAt: this.clock.now() };
  }

  /** Undefined if a version was another one: then nothing was changed. */
  async commit(
    changes: readonly StoreChange[],
    { signal, msMax, durability }: CommitOptions = {},
  ): Promise<TimedCommit | undefined> {
    const sentAt = this.clock.now();
    const ask = (limit: AbortSignal) => this.#store.commit(changes, { signal: limit, durability });
    const done = await this.#ask(ask, signal, msMax);
    return done && { ...done, sentAt, receivedAt: this.clock.now() };
  }

  /**
   * Reads, decides and commits, and repeats all of it after a conflict or a failure, within
   * `deadlineMs`. A commit whose answer was lost may have been made: `decide` has to recognise it.
   */
  async update<T>(
    names: readonly string[],
    decide: (seen: TimedReading) => Decision<T>,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<UpdateResult<T>> {
    return await this.#persist(signal, async (limit, note) => {
      const seen = await this.read(names, limit).catch(note);
      if (seen === undefined) return undefined;
      const { changes, value } = decide(seen);
      if (changes === undefined) return { value, seen, done: undefined };
      const done = await this.commit(changes, { signal: limit }).catch(note);
      return done && { value, seen, done };
    });
  }

  /**
   * Makes the decision in the store if the store knows it, else between a read and a commit.
   * Repeats it after a failure, within `deadlineMs`: if an answer was lost, it may be made twice.
   */
  async apply(name: string, decision: StoreDecision, argument: Json): Promise<TimedAnswer> {
    return await this.#persist(undefined, async (limit, note) => {
      const sentAt = this.clock.now();
      const ask = (signal: AbortSignal) =>
        this.#store.apply?.(name, decision, argument, { signal }) ??
        this.#applyHere(name, decision, argument, signal);
      const done = await this.#ask(ask, limit).catch(note);
      return done && { ...done, sentAt, receivedAt: this.clock.now() };
    });
  }

  async #applyHere(
    name: string,
    decision: StoreDecision,
    argument: Json,
    signal: AbortSignal,
  ): Promise<StoreApplied | undefined> {
    const { now, records } = await this.#store.read([name], { signal });
    const [record] = records;
    const { answer, next } = decision.decide(record?.value, argument, now);
    if (next === undefined) return { now, answer };
    const change = { name, ifVersion: record?.version ?? 0, ...next };
    const done = await this.#store.commit([change], { signal });
    return done && { now, answer };
  }

  /** Repeats the attempt until it gives a result or `deadlineMs` is over. */
  async #persist<T>(
    signal: AbortSignal | undefined,
    attempt: (limit: AbortSignal, note: (error: unknown) => undefined) => Promise<T | undefined>,
  ): Promise<T> {
    // A timer, since the time that the clock shows may jump.
    using limit = deadline(this.clock, this.deadlineMs, signal);
    let fault: unknown;
    const note = (error: unknown): undefined => {
      signal?.throwIfAborted();
      if (lastingCodes.has(Object(error).code)) throw error;
      if (fault === undefined || !limit.signal.aborted) fault = error;
    };
    for (let pauseMs = 2; ; pauseMs = Math.min(64, 2 * pauseMs)) {
      const result = await attempt(limit.signal, note);
      if (result !== undefined) return result;
      await pause(this.clock, this.jitter(pauseMs), limit.signal).catch(note);
      if (limit.signal.aborted) throw this.#unreachable(fault);
    }
  }

  /** Calls the store with a third of the deadline, so that a lost answer leaves time to retry. */
  async #ask<T>(
    call: (limit: AbortSignal) => Promise<T>,
    signal: AbortSignal | undefined,
    msMax = Infinity,
  ): Promise<T> {
    using limit = deadline(this.clock, Math.min(msMax, this.deadlineMs / 3), signal);
    limit.signal.throwIfAborted();
    return await untilAborted(call(limit.signal), limit.signal);
  }

  #unreachable(cause: unknown): SpillwayError {
    const message = `${this.#name}: the store did not answer within ${this.deadlineMs} ms`;
    return new SpillwayError('STORE_UNREACHABLE', message, {
      retryAfterMs: this.deadlineMs,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}
