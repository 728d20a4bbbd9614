import { checkNumber } from './check.ts';
import type { Clock } from './clock.ts';
import { SpillwayError } from './errors.ts';

/** A signal with a time limit. Dispose it when the work is done, or its timer stays behind. */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** Aborts the signal now. */
  readonly abort: (reason: unknown) => void;
}

/** Aborts with code `DEADLINE` after `ms`, or with the parent's reason as soon as that aborts. */
export function deadline(clock: Clock, ms: number, parent?: AbortSignal): Deadline {
  checkNumber('ms', ms, 0);
  const controller = new AbortController();
  const { signal } = controller;
  const follow = () => stop(parent?.reason);
  const timer = clock.after(ms, () => {
    stop(new SpillwayError('DEADLINE', `not done within ${Math.ceil(ms)} ms`));
  });
  const release = () => {
    timer[Symbol.dispose]();
    parent?.removeEventListener('abort', follow);
  };
  const stop = (reason: unknown) => {
    release();
    controller.abort(reason);
  };
  if (parent?.aborted) follow();
  else parent?.addEventListener('abort', follow, { once: true });
  noteEnd(signal, clock, clock.now() + Math.min(ms, msLeft(parent)));
  return { signal, abort: stop, [Symbol.dispose]: release };
}

/** The end of a signal's time, on the clock that will abort it. */
interface End {
  readonly clock: Clock;
  readonly at: number;
}

/** A property costs nothing that can be measured, a `WeakMap` 0.9 us for each signal (2026-11). */
const end = Symbol('end');

/** Records when the signal will abort at the latest, for {@link msLeft}. */
export function noteEnd(signal: AbortSignal, clock: Clock, at: number): void {
  if (at < Infinity) (signal as { [end]?: End })[end] = { clock, at };
}

/**
 * Milliseconds until the time of a signal is over; `Infinity` if it is not known to have an end.
 * A part whose callers would have to wait for longer refuses them at once.
 */
export function msLeft(signal: AbortSignal | undefined): number {
  const known = (signal as { readonly [end]?: End } | undefined)?.[end];
  return known === undefined ? Infinity : Math.max(0, known.at - known.clock.now());
}
