import { runUntilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline, msLeft } from '../base/deadline.ts';
import { field, isAbort, isNetworkError, retryAfterMsOf, statusOf } from '../base/failure.ts';
import {
  callback,
  clockRule,
  having,
  integer,
  maybe,
  number,
  oneOf,
  or,
  settle,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { callHook, told } from '../base/tell.ts';
import { pause } from '../wait/wait-queue.ts';
import type { RetryBudget } from './retry-budget.ts';

export interface RetryOptions {
  /** Times that the task is begun at most; an integer from 1. @default 3 */
  readonly attemptsMax?: number | undefined;
  /**
   * Growth of the waits: `constant` is `backoffMs` each time, `linear` that times the attempts;
   * `exponential` is a random part of a limit that doubles; `decorrelated` is random, from
   * `backoffMs` to three times the wait before. @default 'exponential'
   */
  readonly backoff?: 'constant' | 'linear' | 'exponential' | 'decorrelated' | undefined;
  /** The first wait in ms, from 0; of exponential backoff its upper limit. @default 100 */
  readonly backoffMs?: number | undefined;
  /** The longest wait, in milliseconds; from `backoffMs`. @default 10_000, or `backoffMs` */
  readonly backoffMsMax?: number | undefined;
  /**
   * The longest wait, in milliseconds from 0, that an error may ask for, and that a call may spend
   * on an open breaker in all. Beyond it the error is passed on at once. @default 60_000
   */
  readonly retryAfterMsMax?: number | undefined;
  /** Milliseconds for one attempt, from 1; then it has failed. @default Infinity */
  readonly attemptMsMax?: number | undefined;
  /** Milliseconds for all attempts and waits together, from 0. @default Infinity */
  readonly deadlineMs?: number | undefined;
  /** Bounds the retries of all calls that share it, together. @default no limit */
  readonly budget?: RetryBudget | undefined;
  /**
   * True for errors that are worth another attempt. By default an error's own `retryable` decides.
   * Without one these are a status of 429, 502, 503 or 504, a refused or lost connection, and a
   * time-out. A status of 500 and any other error are not tried again.
   */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined;
  /** Called before each wait for another attempt. */
  readonly onRetry?: ((retried: Retried) => void) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** The shortest wait in milliseconds for a breaker that is being probed. */
const probeWaitMs = 10;

/** A failed attempt that is followed by another. */
export interface Retried {
  readonly error: unknown;
  /** The attempts that have failed, from 1. */
  readonly attempts: number;
  readonly waitMs: number;
}

export interface RetryStats {
  readonly kind: 'retry';
  /** Calls of `run`. */
  readonly calls: number;
  /** Attempts beyond the first of a call. */
  readonly retries: number;
  /** Calls that ended with an error. */
  readonly failures: number;
}

/**
 * Tries a task again, after the wait that the error asks for plus a backoff. It gives up with the
 * last error as soon as attempts or budget are used up, or the wait would not end before its own
 * deadline, or before the caller's, if the signal comes from a lane, a permit or `deadline`. Each
 * attempt runs the whole task, so a bucket inside it is passed each time. A refusal by an open
 * breaker inside it is waited out, and counts as no attempt: nothing was begun.
 *
 * An attempt that was given up and ignores its signal runs on beside the next one; a lane or gate
 * around the retry holds one permit for both. Put it inside where work ignores its signal and must
 * not exceed the limit: `stack(retry, gate)` takes a permit for each attempt.
 */
export class Retry implements Runner {
  readonly #settings: ReturnType<typeof settings>;
  #calls = 0;
  #retries = 0;
  #failures = 0;

  constructor(options: RetryOptions = {}) {
    this.#settings = settings(options);
  }

  get stats(): RetryStats {
    const calls = this.#calls;
    return { kind: 'retry', calls, retries: this.#retries, failures: this.#failures };
  }

  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    const { clock, deadlineMs, budget } = this.#settings;
    this.#calls += 1;
    budget?.request();
    using limit = deadlineMs < Infinity ? deadline(clock, deadlineMs, signal) : undefined;
    try {
      return await this.#attempts(task, limit?.signal ?? signal);
    } catch (error) {
      this.#failures += 1;
      throw error;
    }
  }

  async #attempts<T>(task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    const { attemptsMax, retryAfterMsMax, budget, isRetryable, clock } = this.#settings;
    let attempts = 0;
    let openMs = 0;
    let backoffMs = 0;
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#attempt(task, signal);
      } catch (error) {
        if (signal?.aborted || isAbort(error) || !isRetryable(error)) throw error;
        const askedMs = retryAfterMsOf(error) ?? 0;
        backoffMs = this.#backoff(tries, backoffMs);
        const isOpen = field(error, 'code') === 'BREAKER_OPEN';
        // The end of a probe is unknown: without a backoff, asking again would never pause.
        const leastMs = isOpen && askedMs === 0 ? probeWaitMs : 0;
        const waitMs = Math.max(askedMs + backoffMs, leastMs);
        if (isOpen) openMs += waitMs;
        else attempts += 1;
        if (Math.max(askedMs, openMs) > retryAfterMsMax) throw error;
        if (attempts >= attemptsMax || waitMs >= msLeft(signal)) throw error;
        if (!isOpen && budget?.tryRetry() === false) throw error;
        this.#tell({ error, attempts, waitMs });
        await pause(clock, waitMs, signal);
        if (!isOpen) this.#retries += 1;
      }
    }
  }

  async #attempt<T>(task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    const { attemptMsMax, clock } = this.#settings;
    if (attemptMsMax === Infinity) return await runUntilAborted(task, signal);
    using limit = deadline(clock, attemptMsMax, signal);
    return await runUntilAborted(task, limit.signal);
  }

  #tell(retried: Retried): void {
    if (told.retried.hasSubscribers) told.retried.publish({ part: this, ...retried });
    callHook(this.#settings.onRetry, retried);
  }

  /** The wait after so many attempts; `beforeMs` is the wait before it. */
  #backoff(tries: number, beforeMs: number): number {
    const { backoff, backoffMs, backoffMsMax, random } = this.#settings;
    const bounded = (ms: number) => Math.min(backoffMsMax, ms);
    if (backoff === 'constant') return backoffMs;
    if (backoff === 'linear') return bounded(backoffMs * tries);
    if (backoff === 'exponential') return random() * bounded(backoffMs * 2 ** (tries - 1));
    const rangeMs = Math.max(backoffMs, 3 * beforeMs) - backoffMs;
    return bounded(backoffMs + random() * rangeMs);
  }
}

function settings(options: RetryOptions) {
  const { backoffMs = 100 }: RetryOptions = Object(options);
  const msMax = Number.MAX_SAFE_INTEGER;
  return settle('Retry', options, {
    attemptsMax: or(integer(1), 3),
    backoff: or(oneOf('constant', 'linear', 'exponential', 'decorrelated'), 'exponential'),
    backoffMs: or(number(0, msMax), 100),
    backoffMsMax: or(number(backoffMs, msMax), Math.max(10_000, backoffMs)),
    retryAfterMsMax: or(number(0), 60_000),
    attemptMsMax: or(number(1), Infinity),
    deadlineMs: or(number(0), Infinity),
    budget: maybe(having('a RetryBudget', 'request', 'tryRetry')),
    isRetryable: or(callback, isRetryableByDefault),
    onRetry: maybe(callback),
    clock: or(clockRule, systemClock),
    random: or(callback, systemRandom),
  });
}

function isRetryableByDefault(error: unknown): boolean {
  const retryable = field(error, 'retryable');
  if (typeof retryable === 'boolean') return retryable;
  const status = statusOf(error);
  return status === undefined ? isNetworkError(error) : [429, 502, 503, 504].includes(status);
}
