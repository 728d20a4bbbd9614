import { type Clock, systemClock } from 'spillway';
import { nextTurn } from 'spillway/internal';

/** Work that can be interrupted at each `yield` and resumed later. */
export type Slices<T> = Generator<void, T>;

/** The longest stretch for which the event loop is held, in milliseconds. */
const sliceMsMax = 1;

/** Does the work on the event loop without holding it, until the signal aborts. */
export async function inSlices<T>(
  work: Slices<T>,
  signal?: AbortSignal,
  clock: Clock = systemClock,
): Promise<T> {
  let begun = clock.now();
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    if (clock.now() - begun < sliceMsMax) continue;
    await new Promise<void>(nextTurn);
    signal?.throwIfAborted();
    begun = clock.now();
  }
}
