import { checkNumber } from '../base/check.ts';
import { type Clock, never } from '../base/clock.ts';

/**
 * A simulation of one process of many, for tests on a virtual clock: give it to the parts as their
 * clock. Time goes on while it is paused, but nothing calls back; after a crash nothing ever does.
 */
export class SimulatedProcess implements Clock {
  readonly #clock: Clock;
  readonly #timers = new Set<Disposable>();
  #due: (() => void)[] = [];
  #state: 'runs' | 'paused' | 'crashed' = 'runs';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  after(ms: number, callback: () => void): Disposable {
    checkNumber('ms', ms, 0);
    if (ms === Infinity || this.#state === 'crashed') return never;
    let isDue = true;
    const run = () => {
      if (isDue) callback();
    };
    const timer = this.#clock.after(ms, () => {
      this.#timers.delete(timer);
      if (this.#state === 'runs') run();
      else this.#due.push(run);
    });
    this.#timers.add(timer);
    return {
      [Symbol.dispose]: () => {
        isDue = false;
        this.#timers.delete(timer);
        timer[Symbol.dispose]();
      },
    };
  }

  /** Pauses the process, as SIGSTOP does. */
  pause(): void {
    if (this.#state === 'runs') this.#state = 'paused';
  }

  /** Resumes the process, as SIGCONT does: timers that fell due run now, in order, one by one. */
  resume(): void {
    if (this.#state !== 'paused') return;
    this.#state = 'runs';
    const due = this.#due;
    this.#due = [];
    for (const callback of due) this.after(0, callback);
  }

  /** Ends the process, as SIGKILL does. */
  crash(): void {
    this.#state = 'crashed';
    this.#due = [];
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#timers.clear();
  }
}
