// Imported, since fake timers replace the global.
import { nextTick } from 'node:process';
import { check, checkNumber } from '../base/check.ts';
import { type Clock, never } from '../base/clock.ts';
import { nextTurn, turnsPending } from '../wait/turn-budget.ts';

interface Timer {
  readonly dueAt: number;
  callback: (() => void) | undefined;
}

/**
 * Time that stands still until a test moves it. Due timers run in order, and all promises settle
 * between one timer and the next, so a day of waiting is over in milliseconds.
 */
export class VirtualClock implements Clock {
  /** Sorted: the last timer runs next. Cancelled ones stay until their time comes. */
  readonly #timers: Timer[] = [];
  #now = 0;
  #pending = 0;

  now(): number {
    return this.#now;
  }

  /** Number of armed timers: 0 if no timer was left behind. */
  get pending(): number {
    return this.#pending;
  }

  after(ms: number, callback: () => void): Disposable {
    checkNumber('ms', ms, 0);
    if (ms === Infinity) return never;
    const timer: Timer = { dueAt: this.#now + ms, callback };
    this.#timers.splice(this.#placeOf(timer.dueAt), 0, timer);
    this.#pending += 1;
    return {
      [Symbol.dispose]: () => {
        if (timer.callback === undefined) return;
        timer.callback = undefined;
        this.#pending -= 1;
      },
    };
  }

  /** Moves time forward, running each timer that falls due on the way. */
  async advance(ms: number): Promise<void> {
    check(ms >= 0 && ms < Infinity, 'ms', 'a finite number from 0', ms);
    const end = this.#now + ms;
    await settle();
    for (let next = this.#peek(); next !== undefined && next.dueAt <= end; next = this.#peek()) {
      await this.#step(next);
    }
    this.#now = end;
  }

  /** Moves time from timer to timer until the promise settles, and gives its result. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let done = false;
    const finish = () => {
      done = true;
    };
    promise.then(finish, finish);
    await settle();
    while (!done) {
      const next = this.#peek();
      check(next !== undefined, 'promise', 'one that some timer of this clock settles', promise);
      await this.#step(next);
    }
    return promise;
  }

  async #step(timer: Timer): Promise<void> {
    this.#timers.pop();
    this.#now = timer.dueAt;
    this.#pending -= 1;
    const { callback } = timer;
    timer.callback = undefined;
    callback?.();
    await settle();
  }

  #peek(): Timer | undefined {
    while (this.#timers.at(-1)?.callback === undefined && this.#timers.length > 0) {
      this.#timers.pop();
    }
    return this.#timers.at(-1);
  }

  /** The index behind all timers that are due later, and before those of the same time. */
  #placeOf(dueAt: number): number {
    let low = 0;
    for (let high = this.#timers.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#timers[middle] as Timer).dueAt > dueAt) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Resolves once every promise job that can run has run. */
async function settle(): Promise<void> {
  await undefined;
  // A tick that is requested inside a promise job runs only after all other jobs are done.
  await new Promise<void>((resolve) => nextTick(resolve));
  while (turnsPending() > 0) {
    await new Promise<void>(nextTurn);
    await new Promise<void>((resolve) => nextTick(resolve));
  }
}
