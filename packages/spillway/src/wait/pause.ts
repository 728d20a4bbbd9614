import type { Clock } from '../base/clock.ts';
import { Waiter } from './wait-queue.ts';

/** Resolves after `ms`; rejects as soon as the signal aborts, and leaves no timer behind. */
export async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const waiter = new Waiter<void>(signal);
  using _timer = clock.after(ms, () => waiter.grant());
  await waiter.promise;
}
