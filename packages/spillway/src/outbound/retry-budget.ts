import { type Clock, systemClock } from '../base/clock.ts';
import { clockRule, type Filled, integer, number, or, settle } from '../base/options.ts';

export interface RetryBudgetOptions {
  /** Retries that each request pays for; from 0 to 1. @default 0.1 */
  readonly share?: number | undefined;
  /** Free retries per second, so that a quiet caller may retry too; from 0. @default 1 */
  readonly freePerSecond?: number | undefined;
  /** Retries that may be saved up; an integer from 1. @default 10 */
  readonly burst?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface RetryBudgetStats {
  readonly kind: 'retry-budget';
  /** Retries that may be made now. */
  readonly tokens: number;
  readonly requests: number;
  readonly retries: number;
  /** Retries that were not made because the budget was used up. */
  readonly refused: number;
}

/**
 * Keeps retries from multiplying the load on a broken dependency. All callers that share it retry,
 * in any period, at most `share` of their requests, plus what is free, plus `burst`.
 */
export class RetryBudget {
  readonly #settings: Filled<RetryBudgetOptions>;
  #tokens: number;
  #at: number;
  #requests = 0;
  #retries = 0;
  #refused = 0;

  constructor(options: RetryBudgetOptions = {}) {
    this.#settings = settle('RetryBudget', options, {
      share: or(number(0, 1), 0.1),
      freePerSecond: or(number(0, Number.MAX_SAFE_INTEGER), 1),
      burst: or(integer(1), 10),
      clock: or(clockRule, systemClock),
    });
    this.#tokens = this.#settings.burst;
    this.#at = this.#settings.clock.now();
  }

  get stats(): RetryBudgetStats {
    this.#gain(0);
    return {
      kind: 'retry-budget',
      tokens: Math.max(0, this.#tokens),
      requests: this.#requests,
      retries: this.#retries,
      refused: this.#refused,
    };
  }

  /** Counts a request. Call it once, before the first attempt. */
  request(): void {
    this.#requests += 1;
    this.#gain(this.#settings.share);
  }

  /** Takes one retry from the budget; false when it is used up. */
  tryRetry(): boolean {
    this.#gain(0);
    // Ten times a tenth is a little less than one.
    if (this.#tokens < 1 - 1e-9) {
      this.#refused += 1;
      return false;
    }
    this.#tokens -= 1;
    this.#retries += 1;
    return true;
  }

  #gain(paid: number): void {
    const { freePerSecond, burst, clock } = this.#settings;
    const now = clock.now();
    const free = (freePerSecond * (now - this.#at)) / 1000;
    this.#tokens = Math.min(burst, this.#tokens + free + paid);
    this.#at = now;
  }
}
