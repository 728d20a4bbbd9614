import type { Clock } from '../base/clock.ts';
import { Ring, type RingMember } from './ring.ts';

/**
 * Rejects one tick later, when its caller has had time to listen. Node notes a promise that is
 * rejected earlier as unhandled for a while, and so keeps all it refers to past the next scavenge:
 * under overload a fifth of all garbage, and a scavenge took 12 ms instead of 0.5 (2026-11).
 */
export async function rejectSoon(reason: unknown): Promise<never> {
  await undefined;
  throw reason;
}

/** Enters; a thrown refusal becomes a promise that rejects once its caller can listen. */
export function entering<Entry, T>(
  way: { enter(entry?: Entry): T | Promise<T> },
  entry: Entry | undefined,
): T | Promise<T> {
  try {
    return way.enter(entry);
  } catch (reason) {
    return rejectSoon(reason);
  }
}

/**
 * One caller that waits for its turn, except in lanes (see `LanePermit`). Granting, refusing and
 * aborting are each a single step, and the first one wins: a turn given to a caller that has left
 * would be lost for good.
 */
export class Waiter<T> implements RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly promise: Promise<T>;
  readonly #signal: AbortSignal | undefined;
  readonly #left: (() => void) | undefined;
  /** Refusals go this way, too: with 10,000 waiting, a second function each cost 4 to 20 %. */
  #resolve: ((value: T | Promise<never>) => void) | undefined = undefined;

  /** `left` is called when the waiter has left its list because its signal aborted. */
  constructor(signal: AbortSignal | undefined, left?: () => void) {
    this.#signal = signal;
    this.#left = left;
    this.promise = new Promise<T>((resolve) => {
      this.#resolve = resolve;
    });
    signal?.addEventListener('abort', this);
  }

  grant(value: T): void {
    this.answer(value);
  }

  refuse(reason: unknown): void {
    // A rejected promise that nobody listens to would end the process.
    if (this.#resolve !== undefined) this.answer(rejectSoon(reason));
  }

  protected answer(answer: T | Promise<never>): void {
    this.ignoreSignal();
    this.#resolve?.(answer);
    this.#resolve = undefined;
  }

  ignoreSignal(): void {
    this.#signal?.removeEventListener('abort', this);
  }

  /** Leaves its list and is refused. */
  giveUp(reason: unknown): void {
    this.ring?.remove(this);
    this.#left?.();
    this.refuse(reason);
  }

  handleEvent(): void {
    this.giveUp(this.#signal?.reason);
  }
}

/** A fair, abortable queue: first come, first served, and a waiter can leave from the middle. */
export class WaitQueue<T = void> {
  readonly #waiters = new Ring<Waiter<T>>();

  get size(): number {
    return this.#waiters.size;
  }

  /** Resolves when {@link wake} reaches this caller; rejects if `signal` aborts first. */
  wait(signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return rejectSoon(signal.reason);
    const waiter = new Waiter<T>(signal);
    this.#waiters.push(waiter);
    return waiter.promise;
  }

  /** Gives the oldest waiter its turn; false when nobody waits. */
  wake(value: T): boolean {
    const oldest = this.#waiters.shift();
    oldest?.grant(value);
    return oldest !== undefined;
  }

  /** Refuses every waiter. */
  refuseAll(reason: unknown): void {
    for (const waiter of this.#waiters) waiter.giveUp(reason);
  }
}

/** Resolves after `ms`; rejects as soon as the signal aborts, and leaves no timer behind. */
export async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const waiter = new Waiter<void>(signal);
  using _timer = clock.after(ms, () => waiter.grant());
  await waiter.promise;
}
