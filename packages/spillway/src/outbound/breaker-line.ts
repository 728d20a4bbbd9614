import { checkInteger } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { isAbort, isTimeout, statusOf } from '../base/failure.ts';
import type { Task } from '../base/task.ts';
import { Ring } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';
import type { BreakerOutcome, BreakerState, BreakerStatus, Pass } from './breaker-state.ts';

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

interface BreakerLineOptions {
  readonly queueMax?: number | undefined;
  readonly isFailure?: ((error: unknown) => boolean) | undefined;
}

/** How a breaker makes a call: the longest a probe may take, and whom to tell how it ended. */
interface Call<P> {
  readonly pass: P;
  readonly clock: Clock;
  readonly probeMsMax: number;
  readonly settle: (pass: P, outcome: BreakerOutcome) => void;
}

/** Those who call through a breaker and those who wait for it, be it shared or of one process. */
export class BreakerLine<P extends Pass> {
  readonly #queueMax: number;
  readonly #isFailure: (error: unknown) => boolean;
  readonly #waiters = new Ring<Waiter<P>>();
  #lastFailure: unknown;
  #failures = 0;
  #refused = 0;

  constructor({ queueMax = 0, isFailure = isServerFailure }: BreakerLineOptions) {
    checkInteger('queueMax', queueMax, 0);
    this.#queueMax = queueMax;
    this.#isFailure = isFailure;
  }

  stats({ status, since, probing, opened }: BreakerState): BreakerStats {
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

  get waiting(): number {
    return this.#waiters.size;
  }

  get isFull(): boolean {
    return this.#waiters.size >= this.#queueMax;
  }

  wait(signal: AbortSignal | undefined, left?: () => void): Promise<P> {
    const waiter = new Waiter<P>(signal, left);
    this.#waiters.push(waiter);
    return waiter.promise;
  }

  /** Gives the pass to the oldest; false when nobody waits. */
  grant(pass: P): boolean {
    const waiter = this.#waiters.shift();
    waiter?.grant(pass);
    return waiter !== undefined;
  }

  refuseAll(state: BreakerState, now: number): void {
    for (let waiter = this.#waiters.shift(); waiter; waiter = this.#waiters.shift()) {
      waiter.refuse(this.refusal(state, now));
    }
  }

  refusal(state: BreakerState, now: number): SpillwayError {
    this.#refused += 1;
    const restMs = state.cooldownEndsAt - now;
    return new SpillwayError('BREAKER_OPEN', `${state.status} after repeated failures`, {
      cause: this.#lastFailure,
      // How long a probe takes is unknown, so a caller that meets one goes by its own backoff.
      retryAfterMs: restMs > 0 ? restMs : undefined,
    });
  }

  async call<T>(call: Call<P>, task: Task<T>, caller: AbortSignal | undefined): Promise<T> {
    const { pass, clock, probeMsMax, settle } = call;
    if (caller?.aborted) {
      settle(pass, 'ignored');
      throw caller.reason;
    }
    using limit = pass.probe ? deadline(clock, probeMsMax, caller) : undefined;
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
      settle(pass, outcome);
    }
  }

  /** What an error says of the one who was called. */
  #judge(error: unknown, signal: AbortSignal): BreakerOutcome {
    // Libraries throw various things when aborted; why it happened is in the signal.
    const reason: unknown = signal.aborted ? signal.reason : error;
    if (signal.aborted ? !isTimeout(reason) : isAbort(reason)) return 'ignored';
    if (!this.#isFailure(reason)) return 'success';
    this.#failures += 1;
    this.#lastFailure = reason;
    return 'failure';
  }
}

/** An error with no status, or one from 500. */
function isServerFailure(error: unknown): boolean {
  return (statusOf(error) ?? 500) >= 500;
}
