// The global of the same name is a getter that costs 14 ns more a call (2026-11).
import { performance } from 'node:perf_hooks';
// Not the globals: fake timers take their place, but leave the time above as it is.
import { clearTimeout, setTimeout } from 'node:timers';
import { checkNumber } from './check.ts';

/** The only source of time. Parts take one as an option, so that all can run on virtual time. */
export interface Clock {
  /** Milliseconds since some fixed moment, with fractions; never goes back. */
  now(): number;
  /** Calls back once, when `ms` have passed or later; not if it is disposed before. */
  after(ms: number, callback: () => void): Disposable;
}

/** The longest delay `setTimeout` takes; it fires at once for anything above. */
const timerMsMax = 2 ** 31 - 1;

const globalSetTimeout = globalThis.setTimeout;
/** Node's `queueMicrotask`, whatever fake timers put in its place later. */
export const microtask: typeof queueMicrotask = globalThis.queueMicrotask;
let isWarned = false;

/** Warns once if a test has replaced Node's timers (Vitest, Jest, sinon, node:test). */
function noticeFakeTimers(): void {
  const current = globalThis.setTimeout;
  // Fake timers from before this module was loaded show by sinon's property `clock`.
  if (isWarned || (current === globalSetTimeout && !Object.hasOwn(current, 'clock'))) return;
  isWarned = true;
  process.emitWarning(
    'fake timers do not move the time of spillway: systemClock goes on with real time. ' +
      "Pass `clock: new VirtualClock()` of 'spillway/testing' to the parts under test.",
    { code: 'SPILLWAY_FAKE_TIMERS' },
  );
}

class SystemTimer implements Disposable {
  readonly #dueAt: number;
  readonly #callback: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number, callback: () => void) {
    this.#dueAt = performance.now() + ms;
    this.#callback = callback;
    this.#arm(ms);
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(this.#fire, Math.min(Math.ceil(ms), timerMsMax));
  }

  readonly #fire = (): void => {
    // Node counts from the start of the loop's turn, so a timer may fire some ms too early.
    const restMs = this.#dueAt - performance.now();
    if (restMs > 0) {
      this.#arm(restMs);
    } else {
      this.#timer = undefined;
      this.#callback();
    }
  };

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** The timer of `after(Infinity)`: never calls back, and keeps no process alive. */
export const never: Disposable = { [Symbol.dispose]() {} };

/** Real time, monotonic. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    checkNumber('ms', ms, 0);
    noticeFakeTimers();
    return ms === Infinity ? never : new SystemTimer(ms, callback);
  },
};

/**
 * Milliseconds since 1970, for times that other processes or later runs read. It counts on from the
 * start of this process, so that a jump of the machine's clock makes nothing expire.
 */
export const wallClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after: systemClock.after,
};
