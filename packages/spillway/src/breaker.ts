import { type BreakRule, consecutiveFailures } from './break-rule.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  type BreakerStatus,
  closedBreaker,
  mayProbeAt,
  type Pass,
  settle,
} from './breaker-state.ts';
import { checkInteger, checkNumber } from './check.ts';
import { type Clock, systemClock } from './clock.ts';
import { deadline } from './deadline.ts';
import { SpillwayError } from './errors.ts';
import { isAbort, isTimeout, statusOf } from './failure.ts';
import { LinkedList } from './linked-list.ts';
import { type Random, systemRandom } from './random.ts';
import type { Task } from './task.ts';
import { Waiter } from './wait-queue.ts';

export interface BreakerOptions {
  /** When to open; default `consecutiveFailures(5)`. */
  readonly rule?: BreakRule | undefined;
  /** The first cooldown in milliseconds; from 0, default 10,000. */
  readonly cooldownMs?: number | undefined;
  /** How much longer each cooldown is than the one before; from 1, default 2. */
  readonly cooldownGrowth?: number | undefined;
  /** The longest cooldown in milliseconds; from `cooldownMs`, default 120,000 or `cooldownMs`. */
  readonly cooldownMsMax?: number | undefined;
  /** The share of a cooldown that chance may take off; from 0 to 1, default 0.2. */
  readonly jitter?: number | undefined;
  /** Successful probes in a row that close it; an integer from 1, default 3. */
  readonly successesToClose?: number | undefined;
  /** Milliseconds after which a probe is aborted and has failed; from 1, default 30,000. */
  readonly probeMsMax?: number | undefined;
  /** How many may wait until it closes; one more is refused. An integer from 0, the default. */
  readonly queueMax?: number | undefined;
  /**
   * Whether an error speaks against the one who was called; by default any with no status or one
   * from 500. Aborted calls are not asked about, those that ran into their deadline are.
   */
  readonly isFailure?: ((error: unknown) => boolean) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface BreakerStats {
  readonly state: BreakerStatus;
  /** When the state last changed, by the breaker's clock. */
  readonly since: number;
  /** Whether a probe is under way. */
  readonly probing: boolean;
  readonly waiting: number;
  /** Calls that failed, of all that were made. */
  readonly failures: number;
  /** How many times it opened. */
  readonly opened: number;
  /** Calls that were refused. */
  readonly refused: number;
}

/**
 * Stops calling what keeps failing, lets exactly one caller probe, and resumes for all at once.
 * Callers are refused while it is open, or wait if `queueMax` lets them.
 */
export class Breaker {
  readonly #rule: BreakerRule;
  readonly #state: BreakerState;
  readonly #queueMax: number;
  readonly #isFailure: (error: unknown) => boolean;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #waiters = new LinkedList<Waiter<Pass>>();
  #timer: Disposable | undefined;
  #lastFailure: unknown;
  #failures = 0;
  #refused = 0;

  constructor(options: BreakerOptions = {}) {
    this.#rule = checkedRule(options);
    this.#queueMax = options.queueMax ?? 0;
    checkInteger('queueMax', this.#queueMax, 0);
    this.#isFailure = options.isFailure ?? isServerFailure;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
    this.#state = closedBreaker(this.#rule, this.#clock.now());
  }

  get stats(): BreakerStats {
    const { status, since, probing, opened } = this.#state;
    return {
      state: status,
      since,
      probing,
      waiting: this.#waiters.size,
      failures: this.#failures,
      opened,
      refused: this.#refused,
    };
  }

  /** Calls if the breaker allows it; else waits for that in order of arrival, if there is room. */
  async run<T>(task: Task<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const pass = this.#enter() ?? (await this.#wait(signal));
    return this.#call(pass, task, signal);
  }

  /** Calls if the breaker allows it now; never waits, and never goes ahead of those who do. */
  async tryRun<T>(task: Task<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const pass = this.#enter();
    if (pass === undefined) throw this.#refusal();
    return this.#call(pass, task, signal);
  }

  #enter(): Pass | undefined {
    this.#letPass();
    if (this.#waiters.size > 0) return undefined;
    return admit(this.#rule, this.#state, this.#clock.now(), this.#random);
  }

  #wait(signal: AbortSignal | undefined): Promise<Pass> {
    if (this.#waiters.size >= this.#queueMax) throw this.#refusal();
    const waiter = new Waiter<Pass>(signal, () => this.#letPass());
    this.#waiters.push(waiter);
    this.#letPass();
    return waiter.promise;
  }

  #refusal(): SpillwayError {
    this.#refused += 1;
    const restMs = this.#state.cooldownEndsAt - this.#clock.now();
    return new SpillwayError('BREAKER_OPEN', `${this.#state.status} after repeated failures`, {
      cause: this.#lastFailure,
      // How long a probe takes is unknown, so a caller that meets one goes by its own backoff.
      retryAfterMs: restMs > 0 ? restMs : undefined,
    });
  }

  async #call<T>(pass: Pass, task: Task<T>, caller: AbortSignal | undefined): Promise<T> {
    if (caller?.aborted) {
      this.#settle(pass, 'ignored');
      throw caller.reason;
    }
    using limit = pass.probe ? deadline(this.#clock, this.#rule.probeMsMax, caller) : undefined;
    const signal = limit?.signal ?? caller ?? new AbortController().signal;
    let outcome: BreakerOutcome = 'ignored';
    try {
      const value = await task(signal);
      outcome = 'success';
      return value;
    } catch (error) {
      outcome = this.#judge(error, signal);
      throw error;
    } finally {
      this.#settle(pass, outcome);
    }
  }

  #judge(error: unknown, signal: AbortSignal): BreakerOutcome {
    const { outcome, reason } = judged(error, signal, this.#isFailure);
    if (outcome === 'failure') {
      this.#failures += 1;
      this.#lastFailure = reason;
    }
    return outcome;
  }

  #settle(pass: Pass, outcome: BreakerOutcome): void {
    settle(this.#rule, this.#state, { ...pass, outcome }, this.#clock.now(), this.#random);
    this.#letPass();
  }

  /** Gives passes to the oldest waiters: one that may probe, or all once it is closed. */
  readonly #letPass = (): void => {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    while (this.#waiters.size > 0) {
      const now = this.#clock.now();
      const pass = admit(this.#rule, this.#state, now, this.#random);
      if (pass === undefined) {
        this.#timer = this.#clock.after(mayProbeAt(this.#state) - now, this.#letPass);
        return;
      }
      this.#waiters.shift()?.grant(pass);
    }
  };
}

/** What an error says of the one who was called, and the error that says it. */
export function judged(
  error: unknown,
  signal: AbortSignal,
  isFailure: (error: unknown) => boolean,
): { readonly outcome: BreakerOutcome; readonly reason: unknown } {
  // Libraries throw various things when aborted; why it happened is in the signal.
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (signal.aborted ? !isTimeout(reason) : isAbort(reason)) return { outcome: 'ignored', reason };
  return { outcome: isFailure(reason) ? 'failure' : 'success', reason };
}

/** An error with no status, or one from 500. */
export function isServerFailure(error: unknown): boolean {
  return (statusOf(error) ?? 500) >= 500;
}

export function checkedRule(options: BreakerOptions): BreakerRule {
  const { cooldownMs = 10_000, cooldownGrowth = 2, jitter = 0.2 } = options;
  const { successesToClose = 3, probeMsMax = 30_000 } = options;
  checkNumber('cooldownMs', cooldownMs, 0, Number.MAX_SAFE_INTEGER);
  const cooldownMsMax = options.cooldownMsMax ?? Math.max(120_000, cooldownMs);
  checkNumber('cooldownMsMax', cooldownMsMax, cooldownMs, Number.MAX_SAFE_INTEGER);
  checkNumber('cooldownGrowth', cooldownGrowth, 1, Number.MAX_SAFE_INTEGER);
  checkNumber('jitter', jitter, 0, 1);
  checkInteger('successesToClose', successesToClose, 1);
  checkNumber('probeMsMax', probeMsMax, 1, Number.MAX_SAFE_INTEGER);
  const rule = options.rule ?? consecutiveFailures(5);
  return {
    rule,
    cooldownMs,
    cooldownGrowth,
    cooldownMsMax,
    jitter,
    successesToClose,
    probeMsMax,
  };
}
