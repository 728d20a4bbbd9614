import { runUntilAborted } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { isRefusal, SpillwayError } from '../base/errors.ts';
import { isAbort, isTimeout, statusOf } from '../base/failure.ts';
import type { Task } from '../base/task.ts';
import { Histogram, type Quantiles } from '../meter/histogram.ts';
import type { BreakerOutcome, BreakerState, BreakerStatus, Pass } from './breaker-state.ts';

export interface BreakerStats<Kind extends string = 'breaker'> {
  readonly kind: Kind;
  readonly state: BreakerStatus;
  /** When the state last changed, by the breaker's clock. */
  readonly since: number;
  /** Whether a probe is under way. */
  readonly probing: boolean;
  /** Calls that ended, aborted ones left out. */
  readonly calls: number;
  /** Calls that failed. */
  readonly failures: number;
  /** How many times it opened. */
  readonly opened: number;
  /** Calls that were refused. */
  readonly refused: number;
  /** Milliseconds that calls took, over the last 10 to 20 seconds. */
  readonly callMs: Quantiles;
  /** The last call that failed: when, by the breaker's clock, and with what message. */
  readonly lastFailure: { readonly at: number; readonly message: string } | undefined;
}

/** One call through a breaker: how long a probe may take, and whom to tell how it ended. */
interface Call<P> {
  readonly pass: P;
  readonly probeMsMax: number;
  readonly settle: (pass: P, outcome: BreakerOutcome) => void;
}

const windowMs = 10_000;

/** Makes the calls of a breaker, shared or of one process: judges, counts and times them. */
export class BreakerCalls<P extends Pass> {
  readonly #clock: Clock;
  readonly #isFailure: (error: unknown) => boolean;
  #lastError: unknown;
  #lastFailure: BreakerStats['lastFailure'];
  #calls = 0;
  #failures = 0;
  #refused = 0;
  /** Two windows take turns, so that what is read covers one to two of them. */
  #times = new Histogram();
  #timesBefore = new Histogram();
  #windowEndsAt: number;

  constructor(clock: Clock, isFailure: ((error: unknown) => boolean) | undefined) {
    this.#clock = clock;
    this.#isFailure = isFailure ?? isServerFailure;
    this.#windowEndsAt = clock.now() + windowMs;
  }

  stats<Kind extends string>(kind: Kind, state: BreakerState): BreakerStats<Kind> {
    this.#rotate();
    return {
      kind,
      state: state.status,
      since: state.since,
      probing: state.probing,
      calls: this.#calls,
      failures: this.#failures,
      opened: state.opened,
      refused: this.#refused,
      callMs: Histogram.quantiles([this.#times, this.#timesBefore]),
      lastFailure: this.#lastFailure,
    };
  }

  refusal(state: BreakerState, now: number): SpillwayError {
    this.#refused += 1;
    const restMs = state.cooldownEndsAt - now;
    return new SpillwayError('BREAKER_OPEN', `${state.status} after repeated failures`, {
      cause: this.#lastError,
      // How long a probe takes is unknown, so a caller that meets one goes by its own backoff.
      retryAfterMs: restMs > 0 ? restMs : undefined,
    });
  }

  async call<T>(call: Call<P>, task: Task<T>, caller: AbortSignal | undefined): Promise<T> {
    const { pass, probeMsMax, settle } = call;
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
      if (outcome !== 'ignored') this.#count(this.#clock.now() - startedAt);
      settle(pass, outcome);
    }
  }

  /** Decides what an error says of the one who was called. */
  #judge(error: unknown, signal: AbortSignal | undefined): BreakerOutcome {
    // Libraries throw various things when aborted; why it happened is in the signal.
    const reason: unknown = signal?.aborted ? signal.reason : error;
    if (isRefusal(reason)) return 'ignored';
    if (signal?.aborted ? !isTimeout(reason) : isAbort(reason)) return 'ignored';
    if (!this.#isFailure(reason)) return 'success';
    this.#failures += 1;
    this.#lastError = reason;
    const message = reason instanceof Error ? reason.message : String(reason);
    this.#lastFailure = { at: this.#clock.now(), message };
    return 'failure';
  }

  #count(ms: number): void {
    this.#rotate();
    this.#calls += 1;
    this.#times.record(ms);
  }

  #rotate(): void {
    const now = this.#clock.now();
    if (now < this.#windowEndsAt) return;
    // After a long silence, what was before it says nothing about now.
    if (now >= this.#windowEndsAt + windowMs) this.#times.clear();
    const oldest = this.#timesBefore;
    this.#timesBefore = this.#times;
    this.#times = oldest;
    oldest.clear();
    this.#windowEndsAt = now + windowMs;
  }
}

/** An error with no status, or one from 500. */
function isServerFailure(error: unknown): boolean {
  return (statusOf(error) ?? 500) >= 500;
}
