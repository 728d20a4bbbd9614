import type { Clock } from 'spillway';

/** However much there is to do in the foreground, the background has one part in so many. */
const parts = 20;

/**
 * Work that nobody waits for, on a thread of its own, done in pieces. A low priority alone is not
 * enough: with it, requests beside a training took a third longer (p95, two cores, 2026-11).
 */
export class Background {
  readonly #inside: Int32Array;
  readonly #clock: Clock;
  #beganAt: number;

  /** `inside` is that of a `Foreground`. */
  constructor(inside: Int32Array, clock: Clock) {
    this.#inside = inside;
    this.#clock = clock;
    this.#beganAt = clock.now();
  }

  /**
   * To be called between two pieces: holds up the thread while anybody is in the foreground, at
   * most nineteen times as long as the last piece took.
   */
  makeWay(): void {
    const endedAt = this.#clock.now();
    const until = endedAt + (parts - 1) * (endedAt - this.#beganAt);
    for (let now = endedAt; now < until; now = this.#clock.now()) {
      const inside = Atomics.load(this.#inside, 0);
      if (inside === 0) break;
      // Only the last one to leave wakes it.
      Atomics.wait(this.#inside, 0, inside, until - now);
    }
    this.#beganAt = this.#clock.now();
  }
}
