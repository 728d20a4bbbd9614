import { type Clock, systemClock } from '../base/clock.ts';
import {
  anything,
  callback,
  integer,
  maybe,
  number,
  or,
  type Rules,
  settle,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { rejectSoon } from '../wait/wait-queue.ts';
import { type BreakRule, consecutiveFailures } from './break-rule.ts';
import { BreakerCalls, type BreakerStats } from './breaker-calls.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  closedBreaker,
  learnOutcome,
  type Pass,
} from './breaker-state.ts';

export interface BreakerOptions {
  /** When to open. @default consecutiveFailures(5) */
  readonly rule?: BreakRule | undefined;
  /** The first cooldown in milliseconds, from 0. @default 10_000 */
  readonly cooldownMs?: number | undefined;
  /** How much longer each cooldown is than the one before; from 1. @default 2 */
  readonly cooldownGrowth?: number | undefined;
  /** The longest cooldown in ms; from `cooldownMs`. @default 120_000, or `cooldownMs` */
  readonly cooldownMsMax?: number | undefined;
  /** The share of a cooldown that chance may take off; from 0 to 1. @default 0.2 */
  readonly jitter?: number | undefined;
  /** Successful probes in a row that close it; an integer from 1. @default 3 */
  readonly successesToClose?: number | undefined;
  /** Milliseconds after which a probe is aborted and has failed; from 1. @default 30_000 */
  readonly probeMsMax?: number | undefined;
  /**
   * Tells whether an error speaks against the one who was called; by default any with no status or
   * one from 500 does. It is asked about calls that ran into their deadline, but never about
   * aborted ones or about refusals of our own parts, with which nothing was begun.
   */
  readonly isFailure?: ((error: unknown) => boolean) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/**
 * Stops calling what keeps failing, lets exactly one caller probe, and resumes for all at once.
 * While it is open, callers are refused with `BREAKER_OPEN`, which says for how long. Callers that
 * would rather wait stack a `Retry` around it.
 */
export class Breaker implements Runner {
  readonly #rule: BreakerRule;
  readonly #state: BreakerState;
  readonly #calls: BreakerCalls<Pass>;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(options: BreakerOptions = {}) {
    const settled = settle('Breaker', options, breakerRules(options));
    this.#rule = settled;
    this.#clock = settled.clock;
    this.#random = settled.random;
    this.#calls = new BreakerCalls(this.#clock, options.isFailure);
    this.#state = closedBreaker(this.#rule, this.#clock.now());
  }

  get stats(): BreakerStats {
    return this.#calls.stats('breaker', this.#state);
  }

  /** Calls if the breaker allows it; never waits. */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    const now = this.#clock.now();
    const pass = admit(this.#rule, this.#state, now, this.#random);
    if (pass === undefined) return rejectSoon(this.#calls.refusal(this.#state, now));
    const { probeMsMax } = this.#rule;
    return this.#calls.call({ pass, probeMsMax, settle: this.#settle }, task, signal);
  }

  readonly #settle = (pass: Pass, outcome: BreakerOutcome): void => {
    learnOutcome(this.#rule, this.#state, { ...pass, outcome }, this.#clock.now(), this.#random);
  };
}

/** The rules of the options that all breakers have. */
export function breakerRules({ cooldownMs = 10_000 }: BreakerOptions): Rules<BreakerOptions> {
  const msMax = Number.MAX_SAFE_INTEGER;
  return {
    rule: or(anything, consecutiveFailures(5)),
    cooldownMs: or(number(0, msMax), 10_000),
    cooldownGrowth: or(number(1, msMax), 2),
    cooldownMsMax: or(number(cooldownMs, msMax), Math.max(120_000, cooldownMs)),
    jitter: or(number(0, 1), 0.2),
    successesToClose: or(integer(1), 3),
    probeMsMax: or(number(1, msMax), 30_000),
    isFailure: maybe(callback),
    clock: or(anything, systemClock),
    random: or(anything, systemRandom),
  };
}
