import { performance } from 'node:perf_hooks';
import { systemClock } from '../base/clock.ts';

const { nodeTiming } = performance;

/** The time since a mark, without the time for which the event loop slept. */
export class LoopWatch {
  #markedAt = 0;
  #idleMs = 0;

  mark(): void {
    const now = systemClock.now();
    // On a busy loop marks are close together and it does not sleep, so that need not be asked.
    if (now - this.#markedAt > 1) this.#idleMs = nodeTiming.idleTime;
    this.#markedAt = now;
  }

  /** Milliseconds for which the loop has been busy since the last mark; at least, not at most. */
  stretch(): number {
    const now = systemClock.now();
    const ms = now - this.#markedAt;
    this.#markedAt = now;
    if (ms <= 1) return ms;
    const idleMs = nodeTiming.idleTime;
    const sleptMs = idleMs - this.#idleMs;
    this.#idleMs = idleMs;
    return Math.max(0, ms - sleptMs);
  }
}

/** The watch of this thread. Whoever begins or ends a piece of work marks it. */
export const loopWatch: LoopWatch = new LoopWatch();

/** Milliseconds of work in one stretch from which on others have waited for the event loop. */
const longMs = 2;
/** Long last stretches in a row that make work computing. */
const longMin = 4;

/**
 * The stretch of a lane's work before it ends, which contains what others did since the last mark.
 * So one long stretch says nothing, but several ends in a row do.
 */
export class LastStretch {
  #long = 0;

  /**
   * Learns from an end; gives the milliseconds for which the work itself computed, or 0. Its permit
   * is to come back at the end of the turn: pieces that compute in one turn have waited for each
   * other, but by itself the first of them would say that it waited for nobody.
   */
  learn(ms: number): number {
    this.#long = ms >= longMs ? this.#long + 1 : 0;
    return this.#long >= longMin ? ms : 0;
  }
}
