import type { Clock } from '../base/clock.ts';

const pollMsMin = 1;
const pollMsMax = 16;

/**
 * Looks for results of workers that were sent several tasks at once: one that goes from short tasks
 * to a long one may not have told of the last results, though they are in shared memory already.
 */
export class PoolPoll implements Disposable {
  readonly #clock: Clock;
  readonly #look: () => boolean;
  #isOn = false;
  #waitMs = pollMsMin;
  #timer: Disposable | undefined;

  /** `look` takes what is there, and says whether there was anything. */
  constructor(clock: Clock, look: () => boolean) {
    this.#clock = clock;
    this.#look = look;
  }

  /** Tasks were sent: looks soon, and again, less and less often while nothing comes. */
  start(): void {
    this.#waitMs = pollMsMin;
    if (this.#isOn) return;
    this.#isOn = true;
    this.#arm();
  }

  #arm(): void {
    this.#timer = this.#clock.after(this.#waitMs, () => {
      this.#waitMs = this.#look() ? pollMsMin : Math.min(2 * this.#waitMs, pollMsMax);
      if (this.#isOn) this.#arm();
    });
  }

  /** There is no task left. */
  [Symbol.dispose](): void {
    this.#isOn = false;
    this.#timer?.[Symbol.dispose]();
  }
}
