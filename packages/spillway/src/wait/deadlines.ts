import type { Clock } from '../base/clock.ts';

/**
 * One timer for many deadlines. It is armed for the earliest one it was told of, and is not moved
 * when that one is met: it then fires for nothing, which costs less than moving it each time.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #expire: (now: number) => number;
  #timer: Disposable | undefined = undefined;
  #dueAt = Infinity;

  /**
   * `expire` ends all that is due (`dueAt <= now`) and gives the moment at which the next one is
   * due, or Infinity. It must compare the same sum that `watch` was given: a sum and a difference
   * of the same fractions can disagree, and then a virtual clock would stand still for ever.
   */
  constructor(clock: Clock, expire: (now: number) => number) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** Sees to it that `expire` is called at this moment, or earlier and then again. */
  watch(dueAt: number): void {
    if (dueAt >= this.#dueAt) return;
    this.clear();
    this.#dueAt = dueAt;
    this.#timer = this.#clock.after(Math.max(0, dueAt - this.#clock.now()), this.#fire);
  }

  /** Forgets the timer, for when there is nothing to watch over. */
  clear(): void {
    this.#timer?.[Symbol.dispose]();
    this.#dueAt = Infinity;
  }

  readonly #fire = (): void => {
    this.#dueAt = Infinity;
    this.watch(this.#expire(this.#clock.now()));
  };
}
