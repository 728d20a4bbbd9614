import type { Clock } from './clock.ts';
import { type Deadline, deadline } from './deadline.ts';
import type { Entry } from './lane-queue.ts';
import type { Outcome } from './limit.ts';
import type { Task } from './task.ts';

/** What a permit must know of the lane that gave it. */
export interface PermitGiver {
  readonly clock: Clock;
  readonly deadlineMs: number;
  leave(permit: Permit): void;
}

/** The right to be inside a lane. Disposing it passes the place on; doing so twice is harmless. */
export class Permit implements Disposable {
  readonly weight: number;
  readonly arrivedAt: number;
  readonly startedAt: number;
  /** How the work ended, for a lane whose limit learns: set it before disposing. */
  outcome: Outcome = 'ok';
  readonly #entry: Entry;
  #giver: PermitGiver | undefined;
  #deadline: Deadline | undefined;

  constructor(giver: PermitGiver, entry: Entry, arrivedAt: number, startedAt: number) {
    this.#giver = giver;
    this.weight = entry.weight ?? 1;
    this.arrivedAt = arrivedAt;
    this.startedAt = startedAt;
    this.#entry = entry;
  }

  /**
   * Aborts at the lane's deadline, which began on arrival, or with the caller's own signal. It is
   * made when first asked for, since it costs more than all the rest of a passage.
   */
  get signal(): AbortSignal {
    if (this.#deadline !== undefined) return this.#deadline.signal;
    const giver = this.#giver;
    const { signal } = this.#entry;
    if (giver === undefined || (giver.deadlineMs === Infinity && signal !== undefined)) {
      return signal ?? AbortSignal.abort(new Error('the permit was given back'));
    }
    const restMs = Math.max(0, this.arrivedAt + giver.deadlineMs - giver.clock.now());
    this.#deadline = deadline(giver.clock, restMs, signal);
    return this.#deadline.signal;
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
