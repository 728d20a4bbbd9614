import { onceAborted, untilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { callback, clockRule, flag, maybe, or, positive, settle, word } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Task } from '../base/task.ts';
import { callHook } from '../base/tell.ts';
import { pause } from './wait-queue.ts';

export interface EveryOptions {
  readonly name: string;
  /** The pause between the end of one run and the start of the next, in milliseconds, above 0. */
  readonly periodMs: number;
  /** The work of one run; its signal aborts when the time to close is over. */
  readonly run: Task<unknown>;
  /** Runs at the start, too. @default false */
  readonly atStart?: boolean | undefined;
  /** Called with the error of each run that failed; the next run comes all the same. */
  readonly onError?: ((error: unknown) => void) | undefined;
  readonly clock?: Clock | undefined;
}

export interface EveryStats {
  readonly kind: 'every';
  readonly runs: number;
  readonly failures: number;
  readonly isRunning: boolean;
}

/** Periodic work, one run at a time, from `start` until `close`. */
export interface Every extends Part, AsyncDisposable {
  readonly ready: boolean;
  readonly stats: EveryStats;
  start(): void;
  /** Starts no more runs and waits for the present one; aborts it when the time is over. */
  close(options?: CloseOptions): Promise<void>;
}

/** Makes a part that does periodic work: `every({ name, periodMs: 60_000, run: sweep })`. */
export function every(options: EveryOptions): Every {
  const { name, periodMs, run, atStart, onError, clock } = settle('every', options, {
    name: word,
    periodMs: positive(),
    run: callback,
    atStart: or(flag, false),
    onError: maybe(callback),
    clock: or(clockRule, systemClock),
  });
  const stats = { kind: 'every' as const, runs: 0, failures: 0, isRunning: false };
  const stop = new AbortController();
  const end = new AbortController();
  let loop: Promise<void> | undefined;
  const repeat = async () => {
    if (!atStart) await pause(clock, periodMs, stop.signal).catch(() => {});
    while (!stop.signal.aborted) {
      stats.isRunning = true;
      try {
        await run(end.signal);
        stats.runs += 1;
      } catch (error) {
        stats.failures += 1;
        callHook(onError, error);
      }
      stats.isRunning = false;
      await pause(clock, periodMs, stop.signal).catch(() => {});
    }
  };
  const closing = new Closing(clock, async (limit) => {
    stop.abort();
    void onceAborted(limit).then(() => end.abort(limit.reason));
    await untilAborted(Promise.resolve(loop), limit);
  });
  return {
    name,
    get ready() {
      return loop !== undefined && !stop.signal.aborted;
    },
    get stats() {
      return { ...stats };
    },
    start() {
      if (!stop.signal.aborted) loop ??= repeat();
    },
    close: (within) => closing.close(within),
    [Symbol.asyncDispose]: () => closing.close(),
  };
}
