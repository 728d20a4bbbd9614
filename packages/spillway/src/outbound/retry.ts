import { runUntilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline, msLeft } from '../base/deadline.ts';
import { field, isAbort, isNetworkError, retryAfterMsOf, statusOf } from '../base/failure.ts';
import { anything, callback, integer, maybe, number, or, settle } from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { pause } from '../wait/wait-queue.ts';
import type { RetryBudget } from './retry-budget.ts';

export interface RetryOptions {
  /** How many times the task is begun in all; an integer from 1. @default 3 */
  readonly attemptsMax?: number | undefined;
  /** The longest wait after the first attempt, in ms, from 0; it doubles. @default 100 */
  readonly backoffMs?: number | undefined;
  /** Where doubling ends, in milliseconds; from `backoffMs`. @default 10_000, or `backoffMs` */
  readonly backoffMsMax?: number | undefined;
  /**
   * An error that asks for a longer wait is passed on at once; so is an open breaker, once it has
   * been waited for that long in all. In milliseconds, from 0. @default 60_000
   */
  readonly retryAfterMsMax?: number | undefined;
  /** Milliseconds for one attempt, from 1; then it has failed. @default Infinity */
  readonly attemptMsMax?: number | undefined;
  /** Milliseconds for all attempts and waits together, from 0. @default Infinity */
  readonly deadlineMs?: number | undefined;
  /** Limits what all who share it spend on retries together. @default no limit */
  readonly budget?: RetryBudget | undefined;
  /**
   * Tells which errors are worth another attempt. By default these are errors that say so by
   * `retryable`, and of those that say nothing a status of 429, 502, 503 or 504, a refused or lost
   * connection, and a time-out. A status of 500 and any other error are not tried again.
   */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
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
 * Tries again, with full jitter on top of what the error asks for. It gives up with the last error
 * as soon as no attempt is left, no budget, or no time: before its own deadline, and before that of
 * the caller, if its signal comes from a lane, a permit or `deadline`. Each attempt runs the whole
 * task, so a bucket inside it is passed each time. An open breaker inside it is waited for, and
 * that is no attempt: nothing was begun.
 */
export class Retry implements Runner {
  readonly #attemptsMax: number;
  readonly #backoffMs: number;
  readonly #backoffMsMax: number;
  readonly #retryAfterMsMax: number;
  readonly #attemptMsMax: number;
  readonly #deadlineMs: number;
  readonly #budget: RetryBudget | undefined;
  readonly #isRetryable: (error: unknown) => boolean;
  readonly #clock: Clock;
  readonly #random: Random;
  #calls = 0;
  #retries = 0;
  #failures = 0;

  constructor(options: RetryOptions = {}) {
    const { backoffMs = 100 } = options;
    const msMax = Number.MAX_SAFE_INTEGER;
    const settled = settle('Retry', options, {
      attemptsMax: or(integer(1), 3),
      backoffMs: or(number(0, msMax), 100),
      backoffMsMax: or(number(backoffMs, msMax), Math.max(10_000, backoffMs)),
      retryAfterMsMax: or(number(0), 60_000),
      attemptMsMax: or(number(1), Infinity),
      deadlineMs: or(number(0), Infinity),
      budget: maybe(anything),
      isRetryable: or(callback, isRetryableByDefault),
      clock: or(anything, systemClock),
      random: or(anything, systemRandom),
    });
    this.#attemptsMax = settled.attemptsMax;
    this.#backoffMs = settled.backoffMs;
    this.#backoffMsMax = settled.backoffMsMax;
    this.#retryAfterMsMax = settled.retryAfterMsMax;
    this.#attemptMsMax = settled.attemptMsMax;
    this.#deadlineMs = settled.deadlineMs;
    this.#budget = settled.budget;
    this.#isRetryable = settled.isRetryable;
    this.#clock = settled.clock;
    this.#random = settled.random;
  }

  get stats(): RetryStats {
    return {
      kind: 'retry',
      calls: this.#calls,
      retries: this.#retries,
      failures: this.#failures,
    };
  }

  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    this.#calls += 1;
    this.#budget?.request();
    const isTimed = this.#deadlineMs < Infinity;
    using limit = isTimed ? deadline(this.#clock, this.#deadlineMs, signal) : undefined;
    try {
      return await this.#attempts(task, limit?.signal ?? signal);
    } catch (error) {
      this.#failures += 1;
      throw error;
    }
  }

  async #attempts<T>(task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    let attempts = 0;
    let openMs = 0;
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#attempt(task, signal);
      } catch (error) {
        if (signal?.aborted || isAbort(error) || !this.#isRetryable(error)) throw error;
        const askedMs = retryAfterMsOf(error) ?? 0;
        const waitMs = askedMs + this.#backoff(tries);
        const isOpen = field(error, 'code') === 'BREAKER_OPEN';
        if (isOpen) openMs += waitMs;
        else attempts += 1;
        if (Math.max(askedMs, openMs) > this.#retryAfterMsMax) throw error;
        if (attempts >= this.#attemptsMax || waitMs >= msLeft(signal)) throw error;
        if (!isOpen && this.#budget?.tryRetry() === false) throw error;
        await pause(this.#clock, waitMs, signal);
        if (!isOpen) this.#retries += 1;
      }
    }
  }

  async #attempt<T>(task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#attemptMsMax === Infinity) return await runUntilAborted(task, signal);
    using limit = deadline(this.#clock, this.#attemptMsMax, signal);
    return await runUntilAborted(task, limit.signal);
  }

  #backoff(tries: number): number {
    return this.#random() * Math.min(this.#backoffMsMax, this.#backoffMs * 2 ** (tries - 1));
  }
}

function isRetryableByDefault(error: unknown): boolean {
  const retryable = field(error, 'retryable');
  if (typeof retryable === 'boolean') return retryable;
  const status = statusOf(error);
  return status === undefined ? isNetworkError(error) : [429, 502, 503, 504].includes(status);
}
