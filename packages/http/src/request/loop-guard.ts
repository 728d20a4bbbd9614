import { systemClock } from 'spillway';
import { httpError } from '../base/errors.ts';
import { repeat } from '../base/repeat.ts';
import type { Guard } from './guard.ts';

/** Milliseconds between two checks of the event loop. */
const checkMs = 100;
/** The loop counts as starved after this many late checks in a row, not after one long pause. */
const lateMax = 3;

/**
 * Refuses requests while the event loop is starved: they have waited in the kernel, where no lane
 * sees them, and would be answered when their clients have given up.
 */
export class LoopGuard implements Disposable {
  readonly #delayMsMax: number;
  #timer: Disposable | undefined;
  #late = 0;

  constructor(delayMsMax: number) {
    this.#delayMsMax = delayMsMax;
  }

  /** True if the event loop was late for several checks in a row. */
  get isStarved(): boolean {
    return this.#late >= lateMax;
  }

  readonly guard: Guard = () => {
    if (this.#late < lateMax) return;
    const message = `the event loop is more than ${this.#delayMsMax} ms late`;
    return httpError('SERVER_BUSY', message, { retryAfterMs: 1_000 });
  };

  start(): void {
    let since = systemClock.now();
    this.#timer ??= repeat(systemClock, checkMs, () => {
      const now = systemClock.now();
      this.#late = now - since - checkMs > this.#delayMsMax ? this.#late + 1 : 0;
      since = now;
    });
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    this.#late = 0;
  }
}
