import { releaseAfter } from '../base/abort.ts';
import { check, checkInteger, checkSignal } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { type Deadline, deadline } from '../base/deadline.ts';
import { field, isTimeout, statusOf } from '../base/failure.ts';
import type { Task } from '../base/task.ts';
import { tracing } from '../base/trace.ts';
import type { Outcome } from '../limit/limit.ts';
import { type Ordered, priorityMax } from '../wait/fair-queue.ts';
import type { Ring, RingMember } from '../wait/ring.ts';
import { rejectSoon } from '../wait/wait-queue.ts';

/** Options of one caller of a lane. */
export interface Entry {
  /** Leaves the queue, or aborts the permit's signal, when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Makes the signal, in place of `signal`, when the caller has to wait or asks the permit for its
   * signal. Use it if the signal costs more than a pass through the lane.
   */
  makeSignal?(): AbortSignal;
  /**
   * Moment of the lane's clock after which nobody waits for the result: the caller's own deadline.
   * The earlier of this and the lane's deadline counts. @default the lane's deadline
   */
  readonly deadlineAt?: number | undefined;
  /** Number of permits it takes. An integer from 1 to the lane's limit. @default 1 */
  readonly weight?: number | undefined;
  /** From 0 to 7; higher ones are always served first. @default 0 */
  readonly priority?: number | undefined;
  /** Owner of the work (a tenant, a user); keys are served in turn. @default one for all */
  readonly key?: string | undefined;
}

/** Checks the options of a caller before anything is taken for it; gives its weight. */
export function checkEntry(entry: Entry, weightMax: number): number {
  const { weight = 1, priority = 0, deadlineAt = Infinity } = entry;
  checkInteger('weight', weight, 1, weightMax);
  checkInteger('priority', priority, 0, priorityMax);
  const isMoment = typeof deadlineAt === 'number' && !Number.isNaN(deadlineAt);
  check(isMoment, 'deadlineAt', 'a number that is not NaN', deadlineAt);
  // A signal that is made on demand may cost more than a pass, so it is not made here.
  const { makeSignal } = entry;
  if (makeSignal === undefined) checkSignal(entry.signal);
  else check(typeof makeSignal === 'function', 'makeSignal', 'a function', makeSignal);
  return weight;
}

/** The reason why nobody waits for the result any more, if that is so on arrival already. */
export function goneBy(entry: Entry, clock: Clock): 'aborted' | 'deadline' | undefined {
  const { makeSignal, deadlineAt } = entry;
  if (makeSignal === undefined && entry.signal?.aborted) return 'aborted';
  return deadlineAt !== undefined && deadlineAt <= clock.now() ? 'deadline' : undefined;
}

/** The right to be inside a lane. Disposing it passes it on; doing so twice is harmless. */
export interface Permit extends Disposable {
  readonly weight: number;
  readonly arrivedAt: number;
  readonly startedAt: number;
  /** Outcome of the work, for the lane's numbers and its limit. Set it before disposing. */
  outcome: Outcome;
  /**
   * False for work that stopped before its end, by a failure or because its signal aborted: its
   * time is then only a lower bound of its service time. Set it before disposing.
   */
  isWhole: boolean;
  /**
   * Milliseconds for which the work held the event loop in one stretch, if known. If that is long,
   * the lane begins one piece of work at a time and lets the event loop turn in between. Set it
   * before disposing. @default 0
   */
  loopMs: number;
  /**
   * Aborts at the deadline of the lane or of the caller, or with the caller's own signal. Made on
   * first use, since it costs more than the rest of a pass.
   */
  readonly signal: AbortSignal;
}

/** A permit, or the reason of a refusal in its place. */
export interface MaybePermit extends Permit {
  readonly refusal?: unknown;
}

/** The part of a lane that its permits call. */
export interface PermitGiver {
  readonly name: string;
  readonly clock: Clock;
  readonly deadlineMs: number;
  /** Takes the permit back. */
  leave(permit: LanePermit): void;
  /** Forgets a waiter whose signal aborted. */
  abandon(permit: LanePermit): void;
}

/**
 * One caller from its arrival to its end: it waits in the queue, then it is inside, or refused. One
 * flat object is both waiter and permit: two objects, or `Waiter` as its base class, made a pass a
 * tenth dearer (2026-11).
 */
export class LanePermit implements Permit, Ordered, RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly entry: Entry;
  /** Copied, so that as many permits come back as were taken, even if the entry changes. */
  readonly weight: number;
  readonly priority: number;
  readonly arrivedAt: number;
  /** Moment at which nobody waits for the result any more. */
  readonly dueAt: number;
  startedAt: number;
  outcome: Outcome = 'ok';
  isWhole = true;
  loopMs = 0;
  /** The reason of its refusal. */
  refusal: unknown = undefined;
  #giver: PermitGiver | undefined;
  /** The caller's signal, once `makeSignal` has made it. */
  #caller: AbortSignal | undefined = undefined;
  #deadline: Deadline | undefined = undefined;
  #resolve: ((value: Permit | Promise<never>) => void) | undefined = undefined;

  constructor(giver: PermitGiver, entry: Entry, arrivedAt: number) {
    this.#giver = giver;
    this.entry = entry;
    this.weight = entry.weight ?? 1;
    this.priority = entry.priority ?? 0;
    this.arrivedAt = arrivedAt;
    const dueAt = arrivedAt + giver.deadlineMs;
    this.dueAt = entry.deadlineAt === undefined ? dueAt : Math.min(dueAt, entry.deadlineAt);
    this.startedAt = arrivedAt;
  }

  get key(): string | undefined {
    return this.entry.key;
  }

  /** The caller's own signal, made now if it has to be. */
  get callerSignal(): AbortSignal | undefined {
    if (this.entry.makeSignal === undefined) return this.entry.signal;
    if (this.#caller === undefined) {
      const made = this.entry.makeSignal();
      checkSignal(made);
      this.#caller = made;
    }
    return this.#caller;
  }

  get signal(): AbortSignal {
    if (this.#deadline !== undefined) return this.#deadline.signal;
    const giver = this.#giver;
    const caller = this.callerSignal;
    if (giver === undefined || (this.dueAt === Infinity && caller !== undefined)) {
      return caller ?? AbortSignal.abort(new Error('the permit was given back'));
    }
    const restMs = Math.max(0, this.dueAt - giver.clock.now());
    this.#deadline = deadline(giver.clock, restMs, caller);
    return this.#deadline.signal;
  }

  /** Follows the caller's signal; leaves the queue and throws if that aborted or cannot be made. */
  listen(): void {
    try {
      const caller = this.callerSignal;
      // Code of the caller that made the signal may have had this waiter let in or refused.
      if (this.ring === undefined) return;
      caller?.throwIfAborted();
      caller?.addEventListener('abort', this);
    } catch (reason) {
      if (this.ring !== undefined) this.#giver?.abandon(this);
      else if (this.refusal === undefined) this[Symbol.dispose]();
      throw reason;
    }
  }

  /** Promises the turn of a caller in the queue. Called in the turn in which it arrived. */
  wait(): Promise<Permit> {
    const turn = new Promise<Permit>((resolve) => {
      this.#resolve = resolve;
    });
    if (tracing.tracer === undefined) return turn;
    const attributes = { 'spillway.lane.name': this.#giver?.name ?? '' };
    return tracing.tracer.span({ name: 'lane.wait', attributes }, () => turn);
  }

  /** Lets the caller in, which has left the queue before. */
  grant(now: number): void {
    this.startedAt = now;
    if (this.#resolve === undefined) return;
    this.callerSignal?.removeEventListener('abort', this);
    this.#resolve(this);
  }

  /** Refuses the caller, which has left the queue before. */
  refuse(reason: unknown): void {
    this.refusal = reason;
    if (this.#resolve === undefined) return;
    this.callerSignal?.removeEventListener('abort', this);
    this.#resolve(rejectSoon(reason));
  }

  /** Called when the caller's signal aborts, perhaps by a hook that was told of its refusal. */
  handleEvent(): void {
    if (this.ring === undefined) return;
    this.#giver?.abandon(this);
    this.refuse(this.callerSignal?.reason);
  }

  [Symbol.dispose](): void {
    const giver = this.#giver;
    if (giver === undefined) return;
    this.#giver = undefined;
    this.#deadline?.[Symbol.dispose]();
    giver.leave(this);
  }
}

/** Gives the permit's signal; a permit whose signal cannot be made is given back. */
export function signalFor(permit: Permit): AbortSignal {
  try {
    return permit.signal;
  } catch (error) {
    permit[Symbol.dispose]();
    throw error;
  }
}

/** Runs the task, and holds the permit until it and all that it left running have ended. */
export async function holdDuring<T>(
  permit: Permit,
  task: Task<T>,
  signal: AbortSignal,
): Promise<T> {
  try {
    const value = await task(signal);
    if (signal.aborted) permit.outcome = outcomeOfAbort(signal);
    return value;
  } catch (error) {
    permit.outcome = signal.aborted ? outcomeOfAbort(signal) : outcomeOf(error);
    permit.isWhole = permit.outcome === 'ok';
    throw error;
  } finally {
    releaseAfter(permit, signal);
  }
}

/** The outcome of aborted work. A caller's own deadline counts like the lane's. */
function outcomeOfAbort({ reason }: AbortSignal): Outcome {
  return isTimeout(reason) ? 'late' : 'aborted';
}

/** The outcome of work that threw, unless aborted. A client error is an answer like any other. */
export function outcomeOf(error: unknown): Outcome {
  if (isTimeout(error)) return 'late';
  // An open breaker makes no call, so its refusals say nothing about load.
  if (field(error, 'code') === 'BREAKER_OPEN') return 'failed';
  const status = statusOf(error) ?? 500;
  if (status === 503 || status === 504 || status === 429) return 'overloaded';
  return status < 500 ? 'ok' : 'failed';
}
