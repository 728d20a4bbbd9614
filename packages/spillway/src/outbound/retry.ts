import { checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { field, isAbort, isNetworkError, retryAfterMsOf, statusOf } from '../base/failure.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Task } from '../base/task.ts';
import { pause } from '../wait/pause.ts';
import type { RetryBudget } from './retry-budget.ts';

export interface RetryOptions {
  /** How many times to try in all; an integer from 1, default 3. */
  readonly attemptsMax?: number | undefined;
  /** The longest wait after the first attempt, in ms; doubles each time. From 0, default 100. */
  readonly backoffMs?: number | undefined;
  /** Where doubling ends, in milliseconds; from `backoffMs`, default 10,000 or `backoffMs`. */
  readonly backoffMsMax?: number | undefined;
  /** An error that asks for a longer wait is passed on at once; in ms, from 0, default 60,000. */
  readonly retryAfterMsMax?: number | undefined;
  /** Milliseconds for all attempts and waits together; from 0, by default no limit. */
  readonly deadlineMs?: number | undefined;
  /** What all who call the same dependency may spend on retries together. */
  readonly budget?: RetryBudget | undefined;
  /**
   * Which errors are worth another attempt: by default, those that say so by `retryable`; of those
   * that say nothing, a status of 429, 502, 503 or 504 and whatever kept an answer from coming.
   */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/**
 * Tries again, with full jitter on top of what the error asks for. Gives up with the last error
 * as soon as no attempt is left, no budget, or no time before the deadline. Each attempt runs the
 * whole task, so a bucket inside it is passed each time.
 */
export async function retry<T>(task: Task<T>, options: RetryOptions = {}): Promise<T> {
  const { attemptsMax = 3, backoffMs = 100, retryAfterMsMax = 60_000 } = options;
  const { backoffMsMax = Math.max(10_000, backoffMs), deadlineMs = Infinity } = options;
  const { isRetryable = isRetryableByDefault, budget } = options;
  const { clock = systemClock, random = systemRandom } = options;
  checkInteger('attemptsMax', attemptsMax, 1);
  checkNumber('backoffMs', backoffMs, 0, Number.MAX_SAFE_INTEGER);
  checkNumber('backoffMsMax', backoffMsMax, backoffMs, Number.MAX_SAFE_INTEGER);
  checkNumber('retryAfterMsMax', retryAfterMsMax, 0);
  checkNumber('deadlineMs', deadlineMs, 0);
  using limit = deadline(clock, deadlineMs, options.signal);
  const { signal } = limit;
  const endsAt = clock.now() + deadlineMs;
  signal.throwIfAborted();
  budget?.request();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await task(signal);
    } catch (error) {
      if (signal.aborted || isAbort(error)) throw error;
      if (attempt >= attemptsMax || !isRetryable(error)) throw error;
      const askedMs = retryAfterMsOf(error) ?? 0;
      const waitMs = askedMs + random() * Math.min(backoffMsMax, backoffMs * 2 ** (attempt - 1));
      if (askedMs > retryAfterMsMax || clock.now() + waitMs >= endsAt) throw error;
      if (budget?.tryRetry() === false) throw error;
      await pause(clock, waitMs, signal);
    }
  }
}

function isRetryableByDefault(error: unknown): boolean {
  const retryable = field(error, 'retryable');
  if (typeof retryable === 'boolean') return retryable;
  const status = statusOf(error);
  return status === undefined ? isNetworkError(error) : [429, 502, 503, 504].includes(status);
}
