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
  StoredRecord,
  StoreWatch,
} from '../store/store.ts';
import { pause } from '../wait/wait-queue.ts';

export interface SharedOptions {
  /** The store that all who share it use. */
  readonly store: Store;
  /** The same for all who share it; not empty. */
  readonly name: string;
  /** Time for which the store may fail or be silent, in ms; from 10. @default 1_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** The rules of the options that all have who share something by a store. */
export const sharedRules: Rules<SharedOptions> = {
  store: storeRule,
  name: word,
  deadlineMs: or(number(10, Number.MAX_SAFE_INTEGER), 1_000),
  clock: or(clockRule, systemClock),
  random: or(callback, systemRandom),
};

/** The store's answer, with the local times between which it was true. */
export interface Sighting {
  readonly now: number;
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly records: readonly (StoredRecord | undefined)[];
}

/** A commit that was made, with the local time before which it cannot have been. */
export interface Committed extends StoreCommit {
  readonly sentAt: number;
  readonly receivedAt: number;
}

/** The changes to make in view of an answer; without changes nothing is committed. */
export interface Decision<T> {
  readonly changes?: readonly StoreChange[] | undefined;
  readonly value: T;
}

/** A decision that was made, with the local times between which it was made. */
export interface Applied extends StoreApplied {
  readonly sentAt: number;
  readonly receivedAt: number;
}

export interface Updated<T> {
  readonly value: T;
  readonly seen: Sighting;
  readonly done: Committed | undefined;
}

interface CommitOptions extends StoreCommitOptions {
  /** The longest time for this commit, in milliseconds. */
  readonly msMax?: number | undefined;
}

/** Failures that are the same a moment later: no room, or records of another version. */
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

/** One party's way to a store that may fail, be slow, or do what was asked and not say so. */
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

  /** A time by chance between half of it and all of it, so that parties do not act in step. */
  jitter(ms: number): number {
    return ms * (0.5 + this.#random() / 2);
  }

  /** A name that nobody else has. */
  newId(): string {
    const part = () => Math.floor(this.#random() * 2 ** 32);
    return `${part()}-${part()}-${part()}`;
  }

  /** Undefined if the store cannot tell of changes: then they are found by reading. */
  watch(names: readonly string[], changed: () => void): StoreWatch | undefined {
    return this.#store.watch?.(names, changed);
  }

  async read(names: readonly string[], signal?: AbortSignal): Promise<Sighting> {
    const sentAt = this.clock.now();
    const reading = await this.#ask((limit) => this.#store.read(names, { signal: limit }), signal);
    return { ...reading, sentAt, receivedAt: this.clock.now() };
  }

  /** Undefined when a version was not as it should be: then nothing was changed. */
  async commit(
    changes: readonly StoreChange[],
    { signal, msMax, durability }: CommitOptions = {},
  ): Promise<Committed | undefined> {
    const sentAt = this.clock.now();
    const ask = (limit: AbortSignal) => this.#store.commit(changes, { signal: limit, durability });
    const done = await this.#ask(ask, signal, msMax);
    return done && { ...done, sentAt, receivedAt: this.clock.now() };
  }

  /**
   * Reads, decides and commits; after a conflict or a failure all of it again, within `deadlineMs`.
   * What a lost answer was about may have been done: the decision has to recognise its own work.
   */
  async update<T>(
    names: readonly string[],
    decide: (seen: Sighting) => Decision<T>,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<Updated<T>> {
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
   * Makes the decision in the store if it can, else between a read and a commit; after a failure
   * again, within `deadlineMs`. What a lost answer was about may have been decided twice.
   */
  async apply(name: string, decision: StoreDecision, argument: Json): Promise<Applied> {
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

  /** Tries again while there is no result, until `deadlineMs` is over; the store may fail. */
  async #persist<T>(
    signal: AbortSignal | undefined,
    attempt: (limit: AbortSignal, note: (error: unknown) => undefined) => Promise<T | undefined>,
  ): Promise<T> {
    // By a timer: what the clock shows may jump.
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

  /** One silent call must not use up all the time there is for trying again. */
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
    const message = `${this.#name}: no success with the store within ${this.deadlineMs} ms`;
    return new SpillwayError('STORE_UNREACHABLE', message, {
      retryAfterMs: this.deadlineMs,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}
