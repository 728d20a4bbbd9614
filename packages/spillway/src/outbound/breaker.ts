import { checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { SpillwayError } from '../base/errors.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Task } from '../base/task.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import { type BreakRule, consecutiveFailures } from './break-rule.ts';
import { BreakerLine, type BreakerStats } from './breaker-line.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  closedBreaker,
  mayProbeAt,
  type Pass,
  settle,
} from './breaker-state.ts';

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

/**
 * Stops calling what keeps failing, lets exactly one caller probe, and resumes for all at once.
 * Callers are refused while it is open, or wait if `queueMax` lets them.
 */
export class Breaker {
  readonly #rule: BreakerRule;
  readonly #state: BreakerState;
  readonly #line: BreakerLine<Pass>;
  readonly #clock: Clock;
  readonly #random: Random;
  #timer: Disposable | undefined;

  constructor(options: BreakerOptions = {}) {
    this.#rule = checkedRule(options);
    this.#line = new BreakerLine(options);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
    this.#state = closedBreaker(this.#rule, this.#clock.now());
  }

  get stats(): BreakerStats {
    return this.#line.stats(this.#state);
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
    if (pass === undefined) return rejectSoon(this.#refusal());
    return this.#call(pass, task, signal);
  }

  #enter(): Pass | undefined {
    this.#letPass();
    if (this.#line.waiting > 0) return undefined;
    return admit(this.#rule, this.#state, this.#clock.now(), this.#random);
  }

  #wait(signal: AbortSignal | undefined): Promise<Pass> {
    if (this.#line.isFull) return rejectSoon(this.#refusal());
    const turn = this.#line.wait(signal, this.#letPass);
    this.#letPass();
    return turn;
  }

  #refusal(): SpillwayError {
    return this.#line.refusal(this.#state, this.#clock.now());
  }

  #call<T>(pass: Pass, task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    const { probeMsMax } = this.#rule;
    const call = { pass, clock: this.#clock, probeMsMax, settle: this.#settle };
    return this.#line.call(call, task, signal);
  }

  readonly #settle = (pass: Pass, outcome: BreakerOutcome): void => {
    settle(this.#rule, this.#state, { ...pass, outcome }, this.#clock.now(), this.#random);
    this.#letPass();
  };

  /** Gives passes to the oldest waiters: one that may probe, or all once it is closed. */
  readonly #letPass = (): void => {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    while (this.#line.waiting > 0) {
      const now = this.#clock.now();
      const pass = admit(this.#rule, this.#state, now, this.#random);
      if (pass === undefined) {
        this.#timer = this.#clock.after(mayProbeAt(this.#state) - now, this.#letPass);
        return;
      }
      this.#line.grant(pass);
    }
  };
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
