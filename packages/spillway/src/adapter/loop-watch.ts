import { performance } from 'node:perf_hooks';
import { systemClock } from '../base/clock.ts';

const { nodeTiming } = performance;

/** The time since a mark, without the time for which the event loop slept. */
export class LoopWatch {
  #markedAt = 0;
  #idleMs = 0;

  mark(): void {
    const now = systemClock.now();
    // On a busy loop marks are close together: it has not slept, and need not be asked.
    if (now - this.#markedAt > 1) this.#idleMs = nodeTiming.idleTime;
    this.#markedAt = now;
  }

  /** Milliseconds for which the loop has been busy since the last mark: a lower bound. */
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

/** The watch of this thread, marked at the beginning and the end of each piece of work. */
export const loopWatch: LoopWatch = new LoopWatch();

/** Milliseconds of work in one stretch from which others are kept waiting for the event loop. */
const longMs = 2;
/** Long stretches in a row from which the work counts as computing. */
const longMin = 4;

/**
 * Finds out whether the work of a lane computes on the event loop, by the time from the last mark
 * to the end of each piece. That may contain work of others, so only several long times in a row
 * count.
 */
export class LastStretch {
  #long = 0;

  /**
   * Notes the time before an end; gives the milliseconds for which the work itself computed, or 0.
   * Work that computed gives its permit back at the end of the turn: of several pieces that compute
   * in one turn, the first would otherwise report that it waited for nobody.
   */
  learn(ms: number): number {
    this.#long = ms >= longMs ? this.#long + 1 : 0;
    return this.#long >= longMin ? ms : 0;
  }
}
