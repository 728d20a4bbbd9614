import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { isNetworkError, statusOf } from '../base/failure.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Task } from '../base/task.ts';
import { addToWindow, emptyWindow, type ShareWindow, windowTotals } from '../meter/share-window.ts';
import { rejectSoon } from '../wait/reject-soon.ts';

export interface ThrottleOptions {
  /** Requests allowed for each accepted one; a number from 1, default 2. */
  readonly ratio?: number | undefined;
  /** How far back requests count, in ms; more than the longest call. From 1, default 120,000. */
  readonly windowMs?: number | undefined;
  /**
   * Below this many requests in the window none is dropped; at least twice what is in flight at
   * once, because a request that is under way is not accepted yet. An integer from 0, default 100.
   */
  readonly requestsMin?: number | undefined;
  /** The largest share to drop: the rest finds out that things are well again. Default 0.9. */
  readonly dropMax?: number | undefined;
  /**
   * Whether a request that failed with this error was accepted; by default all but a status of
   * 429, 503 or 504 and what kept an answer from coming.
   */
  readonly isAccepted?: ((error: unknown) => boolean) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface ThrottleStats {
  /** Requests in the window, dropped ones included. */
  readonly requests: number;
  /** Requests in the window that were accepted. */
  readonly accepted: number;
  /** The chance that the next request is dropped. */
  readonly dropShare: number;
  /** Requests dropped since the start. */
  readonly dropped: number;
}

/**
 * The gentle alternative to a breaker: the more of its requests an overloaded dependency refuses,
 * the more of them are dropped here, before they cost it anything.
 */
export class Throttle {
  readonly #ratio: number;
  readonly #windowMs: number;
  readonly #requestsMin: number;
  readonly #dropMax: number;
  readonly #isAccepted: (error: unknown) => boolean;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #window: ShareWindow = emptyWindow();
  #dropped = 0;

  constructor(options: ThrottleOptions = {}) {
    const { ratio = 2, windowMs = 120_000, requestsMin = 100, dropMax = 0.9 } = options;
    check(ratio >= 1 && ratio < Infinity, 'ratio', 'a finite number from 1', ratio);
    checkNumber('windowMs', windowMs, 1, Number.MAX_SAFE_INTEGER);
    checkInteger('requestsMin', requestsMin, 0);
    checkNumber('dropMax', dropMax, 0, 1);
    this.#ratio = ratio;
    this.#windowMs = windowMs;
    this.#requestsMin = requestsMin;
    this.#dropMax = dropMax;
    this.#isAccepted = options.isAccepted ?? isAcceptedByDefault;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
  }

  get stats(): ThrottleStats {
    const now = this.#clock.now();
    const { calls, marked } = windowTotals(this.#window, this.#windowMs, now);
    return {
      requests: calls,
      accepted: marked,
      dropShare: this.#dropShare(now),
      dropped: this.#dropped,
    };
  }

  /** Calls, or throws `THROTTLED` at once. */
  async run<T>(task: Task<T>, signal: AbortSignal = new AbortController().signal): Promise<T> {
    signal.throwIfAborted();
    const drop = this.#random() < this.#dropShare(this.#clock.now());
    // Counted before it is sent: in an outage, those that hang must count as well.
    this.#add({ calls: 1, marked: 0 });
    if (drop) {
      this.#dropped += 1;
      return rejectSoon(new SpillwayError('THROTTLED', 'too few requests are being accepted'));
    }
    let accepted = true;
    try {
      return await task(signal);
    } catch (error) {
      accepted = this.#isAccepted(error);
      throw error;
    } finally {
      if (accepted) this.#add({ calls: 0, marked: 1 });
    }
  }

  #dropShare(now: number): number {
    const { calls, marked } = windowTotals(this.#window, this.#windowMs, now);
    if (calls < this.#requestsMin) return 0;
    const share = (calls - this.#ratio * marked) / (calls + 1);
    return Math.min(this.#dropMax, Math.max(0, share));
  }

  #add(added: { readonly calls: number; readonly marked: number }): void {
    addToWindow(this.#window, this.#windowMs, this.#clock.now(), added);
  }
}

function isAcceptedByDefault(error: unknown): boolean {
  const status = statusOf(error);
  return status === undefined ? !isNetworkError(error) : ![429, 503, 504].includes(status);
}
