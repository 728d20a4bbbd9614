import type { Clock } from '../base/clock.ts';

/** One timer for the deadlines of all tasks: it goes off when the oldest may be past its own. */
export class PoolWatch implements Disposable {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #expire: (now: number) => number;
  #timer: Disposable | undefined;

  /** `expire` ends what is late, and gives the arrival of the oldest that is not. */
  constructor(clock: Clock, deadlineMs: number, expire: (now: number) => number) {
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#expire = expire;
  }

  isLate(arrivedAt: number, now: number): boolean {
    return arrivedAt + this.#deadlineMs <= now;
  }

  /** Watches over one who came then, and all who come later. */
  start(arrivedAt: number): void {
    if (this.#timer !== undefined) return;
    const waitMs = Math.max(0, arrivedAt + this.#deadlineMs - this.#clock.now());
    this.#timer = this.#clock.after(waitMs, () => {
      this.#timer = undefined;
      const oldestAt = this.#expire(this.#clock.now());
      if (oldestAt < Infinity) this.start(oldestAt);
    });
  }

  /** Nobody is left to watch over. */
  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
