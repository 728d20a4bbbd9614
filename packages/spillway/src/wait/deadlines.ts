import type { Clock } from '../base/clock.ts';

/**
 * One timer for many deadlines, set for the earliest one. It is not moved when that one is met: to
 * fire once for nothing costs less than to move it each time.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #expire: (now: number) => number;
  #timer: Disposable | undefined = undefined;
  #dueAt = Infinity;

  /**
   * `expire` ends all that is due (`dueAt <= now`) and returns when the next one is due, or
   * Infinity. It must compare the very `dueAt` that `watch` was given: recomputed from other terms
   * it may be rounded to a later one, and then a virtual clock would never move on.
   */
  constructor(clock: Clock, expire: (now: number) => number) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** Makes sure that `expire` is called at this moment; it may be called before, too. */
  watch(dueAt: number): void {
    if (dueAt >= this.#dueAt) return;
    this.clear();
    this.#dueAt = dueAt;
    this.#timer = this.#clock.after(Math.max(0, dueAt - this.#clock.now()), this.#fire);
  }

  /** Stops the timer, when no deadline is left. */
  clear(): void {
    this.#timer?.[Symbol.dispose]();
    this.#dueAt = Infinity;
  }

  readonly #fire = (): void => {
    this.#dueAt = Infinity;
    this.watch(this.#expire(this.#clock.now()));
  };
}
