import { runUntilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { isRefusal, SpillwayError } from '../base/errors.ts';
import { isAbort, isTimeout, statusOf } from '../base/failure.ts';
import {
  callback,
  clockRule,
  type Filled,
  having,
  integer,
  maybe,
  number,
  or,
  type Rules,
  settle,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { callHook, tellRefusal, told } from '../base/tell.ts';
import type { Quantiles } from '../meter/histogram.ts';
import { Meter } from '../meter/meter.ts';
import { rejectSoon } from '../wait/wait-queue.ts';
import { type BreakRule, consecutiveFailures } from './break-rule.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  type BreakerState,
  type BreakerStatus,
  closedBreaker,
  learnOutcome,
  type Pass,
} from './breaker-state.ts';

export interface BreakerOptions {
  /** Rule that says when to open. @default consecutiveFailures(5) */
  readonly rule?: BreakRule | undefined;
  /** The first cooldown in milliseconds, from 0. @default 10_000 */
  readonly cooldownMs?: number | undefined;
  /** Factor by which each cooldown is longer than the one before; from 1. @default 2 */
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
   * True for an error that counts as a failure of the called service; by default one without a
   * status, or with one from 500. It is asked about calls that ran into their deadline, but never
   * about aborted calls, nor about refusals of Spillway's own parts, where nothing was begun.
   */
  readonly isFailure?: ((error: unknown) => boolean) | undefined;
  /** Called with the failure that opened it. */
  readonly onOpen?: ((error: unknown) => void) | undefined;
  /** Called when calls pass again. */
  readonly onClose?: (() => void) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface BreakerStats<Kind extends string = 'breaker'> {
  readonly kind: Kind;
  readonly state: BreakerStatus;
  /** True while `hold` decides, and not the calls. */
  readonly held?: boolean | undefined;
  /** Time of the last change of state, by the breaker's clock. */
  readonly since: number;
  /** True while a probe is under way. */
  readonly probing: boolean;
  /** Calls that ended, aborted ones left out. */
  readonly calls: number;
  /** Calls that failed. */
  readonly failures: number;
  /** Times that it opened. */
  readonly opened: number;
  /** Calls that were refused. */
  readonly refused: number;
  /** Milliseconds that calls took, over the last 10 to 20 seconds. */
  readonly callMs: Quantiles;
  /** The last call that failed: its time, by the breaker's clock, and its message. */
  readonly lastFailure: { readonly at: number; readonly message: string } | undefined;
}

/**
 * Stops calling what keeps failing, lets exactly one caller probe, and resumes for all at once.
 * While it is open, callers are refused with `BREAKER_OPEN`, whose `retryAfterMs` says for how
 * long. To wait instead, stack a `Retry` around it.
 */
export class Breaker implements Runner {
  readonly #rule: BreakerRule;
  readonly #state: BreakerState;
  readonly #calls: BreakerCalls<Pass>;
  readonly #clock: Clock;
  readonly #random: Random;
  /** The state that `hold` keeps it in. */
  #held: 'open' | 'closed' | undefined;

  constructor(options: BreakerOptions = {}) {
    const settled = settle('Breaker', options, breakerRules(options));
    this.#rule = settled;
    this.#clock = settled.clock;
    this.#random = settled.random;
    this.#state = closedBreaker(this.#rule, this.#clock.now());
    this.#calls = new BreakerCalls(settled, (pass, outcome) => {
      const ended = { ...pass, outcome };
      learnOutcome(this.#rule, this.#state, ended, this.#clock.now(), this.#random);
      this.#calls.tell(this, this.#state);
    });
  }

  get stats(): BreakerStats {
    const stats = this.#calls.stats('breaker', this.#state);
    return this.#held === undefined ? stats : { ...stats, state: this.#held, held: true };
  }

  /**
   * Holds it open (all calls are refused) or closed (all pass, none is judged) until the returned
   * handle is disposed: for maintenance, or to switch it off.
   */
  hold(status: 'open' | 'closed'): Disposable {
    check(this.#held === undefined, 'Breaker.hold', 'called once at a time', this.#held);
    this.#held = status;
    let isMine = true;
    return {
      [Symbol.dispose]: () => {
        if (isMine) this.#held = undefined;
        isMine = false;
      },
    };
  }

  /** Calls if the breaker allows it; never waits. */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    if (this.#held === 'closed') return await runUntilAborted(task, signal);
    const now = this.#clock.now();
    const isOpen = this.#held === 'open';
    const pass = isOpen ? undefined : admit(this.#rule, this.#state, now, this.#random);
    if (pass === undefined) return rejectSoon(this.#calls.refusal(this, this.#state, now));
    return this.#calls.call(task, { pass, probeMsMax: this.#rule.probeMsMax, signal });
  }
}

type BreakerHooks = Pick<BreakerOptions, 'onOpen' | 'onClose'>;

/** Makes the calls of a breaker, shared or of one process: judges, counts and times them. */
export class BreakerCalls<P extends Pass> {
  readonly #clock: Clock;
  readonly #isFailure: (error: unknown) => boolean;
  readonly #ended: (pass: P, outcome: BreakerOutcome) => void;
  readonly #hooks: BreakerHooks;
  readonly #meter: Meter;
  #told: 'open' | 'closed' = 'closed';
  #lastError: unknown;
  #lastFailure: BreakerStats['lastFailure'];
  #refused = 0;

  constructor(
    options: Filled<Pick<BreakerOptions, 'clock' | 'isFailure'>> & BreakerHooks,
    ended: (pass: P, outcome: BreakerOutcome) => void,
  ) {
    this.#clock = options.clock;
    this.#isFailure = options.isFailure;
    this.#hooks = options;
    this.#ended = ended;
    this.#meter = new Meter(this.#clock.now());
  }

  stats<Kind extends string>(kind: Kind, state: BreakerState): BreakerStats<Kind> {
    const { finished, outcomes, serviceMs } = this.#meter.stats(this.#clock.now());
    return {
      kind,
      state: state.status,
      since: state.since,
      probing: state.probing,
      calls: finished,
      failures: outcomes.failed,
      opened: state.opened,
      refused: this.#refused,
      callMs: serviceMs,
      lastFailure: this.#lastFailure,
    };
  }

  refusal(part: object, state: BreakerState, now: number): SpillwayError {
    this.#refused += 1;
    const restMs = state.cooldownEndsAt - now;
    const isHeld = state.status === 'closed';
    const why = isHeld ? 'held open by hand' : `${state.status} after repeated failures`;
    const error = new SpillwayError('BREAKER_OPEN', why, {
      cause: this.#lastError,
      // The end of a probe is unknown, so a caller that meets one goes by its own backoff.
      retryAfterMs: restMs > 0 ? restMs : undefined,
    });
    return tellRefusal(part, error);
  }

  /** Tells that the breaker has opened or closed, if it has; a failed probe changes nothing. */
  tell(part: object, { status }: BreakerState): void {
    if (status === 'half-open' || status === this.#told) return;
    this.#told = status;
    const error = this.#lastError;
    const channel = status === 'open' ? told.opened : told.closed;
    if (channel.hasSubscribers) channel.publish({ part, error });
    if (status === 'open') callHook(this.#hooks.onOpen, error);
    else callHook(this.#hooks.onClose);
  }

  async call<T>(
    task: Task<T>,
    { pass, probeMsMax, signal: caller }: RunOptions & { pass: P; probeMsMax: number },
  ): Promise<T> {
    const startedAt = this.#clock.now();
    using limit = pass.probe ? deadline(this.#clock, probeMsMax, caller) : undefined;
    const signal = limit?.signal ?? caller;
    let outcome: BreakerOutcome = 'ignored';
    try {
      const value = await runUntilAborted(task, signal);
      outcome = 'success';
      return value;
    } catch (error) {
      outcome = this.#judge(error, signal);
      throw error;
    } finally {
      const now = this.#clock.now();
      const times = { waitMs: 0, serviceMs: now - startedAt };
      if (outcome === 'success') this.#meter.pass(now, 'ok', times);
      if (outcome === 'failure') this.#meter.pass(now, 'failed', times);
      this.#ended(pass, outcome);
    }
  }

  /** Decides whether an error counts as a failure of the called service. */
  #judge(error: unknown, signal: AbortSignal | undefined): BreakerOutcome {
    // Libraries throw various things when aborted; the cause is in the signal.
    const reason: unknown = signal?.aborted ? signal.reason : error;
    if (isRefusal(reason)) return 'ignored';
    if (signal?.aborted ? !isTimeout(reason) : isAbort(reason)) return 'ignored';
    if (!this.#isFailure(reason)) return 'success';
    this.#lastError = reason;
    const message = reason instanceof Error ? reason.message : String(reason);
    this.#lastFailure = { at: this.#clock.now(), message };
    return 'failure';
  }
}

/** The rules of the options that all breakers have. */
export function breakerRules(options: BreakerOptions): Rules<BreakerOptions> {
  const { cooldownMs = 10_000 }: BreakerOptions = Object(options);
  const msMax = Number.MAX_SAFE_INTEGER;
  return {
    rule: or(
      having('a rule, with start() and breaks()', 'start', 'breaks'),
      consecutiveFailures(5),
    ),
    cooldownMs: or(number(0, msMax), 10_000),
    cooldownGrowth: or(number(1, msMax), 2),
    cooldownMsMax: or(number(cooldownMs, msMax), Math.max(120_000, cooldownMs)),
    jitter: or(number(0, 1), 0.2),
    successesToClose: or(integer(1), 3),
    probeMsMax: or(number(1, msMax), 30_000),
    isFailure: or(callback, (error: unknown) => (statusOf(error) ?? 500) >= 500),
    onOpen: maybe(callback),
    onClose: maybe(callback),
    clock: or(clockRule, systemClock),
    random: or(callback, systemRandom),
  };
}
