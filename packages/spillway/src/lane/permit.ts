import type { Clock } from '../base/clock.ts';
import { type Deadline, deadline } from '../base/deadline.ts';
import type { Task } from '../base/task.ts';
import type { Outcome } from '../limit/limit.ts';
import type { Ordered } from '../wait/fair-queue.ts';
import { captureResolve, lastResolve } from '../wait/last-resolve.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import type { Ring, RingMember } from '../wait/ring.ts';
import type { Entry } from './queue.ts';

/** The right to be inside a lane. Disposing it passes the place on; doing so twice is harmless. */
export interface Permit extends Disposable {
  readonly weight: number;
  readonly arrivedAt: number;
  readonly startedAt: number;
  /** How the work ended, for a lane whose limit learns: set it before disposing. */
  outcome: Outcome;
  /**
   * Aborts at the lane's deadline, which began on arrival, or with the caller's own signal. It is
   * made when first asked for, since it costs more than all the rest of a passage.
   */
  readonly signal: AbortSignal;
}

/** What a permit must know of the lane that gives it. */
export interface PermitGiver {
  readonly clock: Clock;
  readonly deadlineMs: number;
  /** Takes the permit back. */
  leave(permit: LanePermit): void;
  /** Forgets one who waited and was aborted. */
  abandon(permit: LanePermit): void;
}

/**
 * One who came to a lane: it waits while it stands in the queue, and then is inside, or refused.
 * It is no {@link Waiter}: an object for the waiting and one for the permit, or a class above this
 * one, made a pass a tenth dearer (2026-11).
 */
export class LanePermit implements Permit, Ordered, RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly entry: Entry;
  /** Not asked for again: as many permits are given back as were taken, whatever the entry says. */
  readonly weight: number;
  readonly arrivedAt: number;
  startedAt: number;
  outcome: Outcome = 'ok';
  /** Why it does not get in. */
  refusal: unknown = undefined;
  #giver: PermitGiver | undefined;
  #deadline: Deadline | undefined = undefined;
  #resolve: ((value: Permit | Promise<never>) => void) | undefined = undefined;

  constructor(giver: PermitGiver, entry: Entry, arrivedAt: number) {
    this.#giver = giver;
    this.entry = entry;
    this.weight = entry.weight ?? 1;
    this.arrivedAt = arrivedAt;
    this.startedAt = arrivedAt;
  }

  get priority(): number {
    return this.entry.priority ?? 0;
  }

  get key(): string | undefined {
    return this.entry.key;
  }

  get signal(): AbortSignal {
    if (this.#deadline !== undefined) return this.#deadline.signal;
    const giver = this.#giver;
    const { signal } = this.entry;
    if (giver === undefined || (giver.deadlineMs === Infinity && signal !== undefined)) {
      return signal ?? AbortSignal.abort(new Error('the permit was given back'));
    }
    const restMs = Math.max(0, this.arrivedAt + giver.deadlineMs - giver.clock.now());
    this.#deadline = deadline(giver.clock, restMs, signal);
    return this.#deadline.signal;
  }

  /** What its caller waits for, from the turn in which it came, while it stands in the queue. */
  wait(): Promise<Permit> {
    this.entry.signal?.addEventListener('abort', this);
    const promise = new Promise<Permit>(captureResolve);
    this.#resolve = lastResolve;
    return promise;
  }

  /** To be told when it has been taken out of the queue. */
  grant(now: number): void {
    this.startedAt = now;
    if (this.#resolve === undefined) return;
    this.entry.signal?.removeEventListener('abort', this);
    this.#resolve(this);
  }

  /** To be told when it has been taken out of the queue. */
  refuse(reason: unknown): void {
    this.refusal = reason;
    if (this.#resolve === undefined) return;
    this.entry.signal?.removeEventListener('abort', this);
    this.#resolve(rejectSoon(reason));
  }

  /** The caller's signal has aborted. */
  handleEvent(): void {
    this.#giver?.abandon(this);
    this.refuse(this.entry.signal?.reason);
  }

  [Symbol.dispose](): void {
    const giver = this.#giver;
    if (giver === undefined) return;
    this.#giver = undefined;
    this.#deadline?.[Symbol.dispose]();
    giver.leave(this);
  }
}

/** Holds the permit until the task has ended, and says how it ended. */
export async function holdDuring<T>(
  permit: Permit,
  task: Task<T>,
  signal: AbortSignal,
): Promise<T> {
  using _permit = permit;
  try {
    const value = await task(signal);
    permit.outcome = outcomeOf(undefined, signal);
    return value;
  } catch (error) {
    permit.outcome = outcomeOf(error, signal);
    throw error;
  }
}

/** A missed deadline or an overloaded callee says "too much"; a caller that left says nothing. */
function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  const cause: { code?: unknown; status?: unknown } = Object(
    signal.aborted ? signal.reason : error,
  );
  const isTooMuch = cause.status === 503 || cause.status === 504 || cause.status === 429;
  if (cause.code === 'DEADLINE' || isTooMuch) return 'dropped';
  return signal.aborted ? 'ignored' : 'ok';
}
