import type { Clock } from 'spillway';

/** Something that must be over at some time. */
export interface Due {
  readonly dueAt: number;
  expire(): void;
}

/**
 * Those who have the same time limit, in the order they came, which is the order they are due in:
 * one timer does for all of them.
 */
export class DeadlineLine implements Disposable {
  readonly #clock: Clock;
  readonly #waiting = new Set<Due>();
  #timer: Disposable | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(due: Due): void {
    this.#waiting.add(due);
    // Once armed it stays so until it goes off: to move it for each that leaves would cost more.
    if (this.#timer === undefined) this.#arm(due.dueAt);
  }

  delete(due: Due): void {
    this.#waiting.delete(due);
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #arm(dueAt: number): void {
    this.#timer = this.#clock.after(Math.max(0, dueAt - this.#clock.now()), this.#look);
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const now = this.#clock.now();
    for (const due of this.#waiting) {
      if (due.dueAt > now) {
        this.#arm(due.dueAt);
        return;
      }
      this.#waiting.delete(due);
      due.expire();
    }
  };
}
