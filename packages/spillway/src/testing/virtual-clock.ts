import { check, checkNumber } from '../base/check.ts';
import { type Clock, never } from '../base/clock.ts';
import { nextTurn, turnsPending } from '../wait/turn-budget.ts';

interface Timer {
  readonly dueAt: number;
  readonly order: number;
  callback: (() => void) | undefined;
}

/**
 * Time that stands still until a test moves it. Due timers run in order, and all promises settle
 * between one timer and the next, so a day of waiting is over in milliseconds.
 */
export class VirtualClock implements Clock {
  /** A binary heap: the next timer to run is at 0. Cancelled ones stay until their time comes. */
  readonly #heap: Timer[] = [];
  #now = 0;
  #order = 0;
  #pending = 0;

  now(): number {
    return this.#now;
  }

  /** Number of armed timers: 0 when nothing was left behind. */
  get pending(): number {
    return this.#pending;
  }

  after(ms: number, callback: () => void): Disposable {
    checkNumber('ms', ms, 0);
    if (ms === Infinity) return never;
    const timer: Timer = { dueAt: this.#now + ms, order: this.#order++, callback };
    this.#push(timer);
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
    this.#pop();
    this.#now = timer.dueAt;
    this.#pending -= 1;
    const { callback } = timer;
    timer.callback = undefined;
    callback?.();
    await settle();
  }

  #peek(): Timer | undefined {
    while (this.#heap[0] !== undefined && this.#heap[0].callback === undefined) this.#pop();
    return this.#heap[0];
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(timer);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Timer;
      if (!isBefore(timer, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = timer;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, heap[below] as Timer)) below += 1;
      const child = heap[below];
      if (child === undefined || !isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.order < b.order);
}

/** Resolves once every promise job that can run has run. */
async function settle(): Promise<void> {
  await undefined;
  // Asked for from inside a promise job, a tick runs only after all other jobs are done.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  while (turnsPending() > 0) {
    await new Promise<void>(nextTurn);
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
}
