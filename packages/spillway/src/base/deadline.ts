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
  const at = clock.now() + Math.min(ms, msLeft(parent));
  note(signal, parent, at < Infinity ? { clock, at } : undefined);
  return { signal, abort: stop, [Symbol.dispose]: release };
}

/** The moment at which a signal aborts, and the clock that it is a time of. */
interface End {
  readonly clock: Clock;
  readonly at: number;
}

/** Kept as properties of the signal: a `WeakMap` costs 0.9 us for each signal (2026-11). */
const end = Symbol('end');
const parentOf = Symbol('parent');

interface Noted {
  [end]?: End | undefined;
  [parentOf]?: AbortSignal | undefined;
}

function note(signal: AbortSignal, parent: AbortSignal | undefined, at: End | undefined): void {
  const noted = signal as Noted;
  if (at !== undefined) noted[end] = at;
  if (parent !== undefined) noted[parentOf] = parent;
}

/** Makes a signal that aborts with the parent or with others, and has the parent's deadline. */
export function eitherSignal(parent: AbortSignal, ...others: AbortSignal[]): AbortSignal {
  const both = AbortSignal.any([parent, ...others]);
  note(both, parent, (parent as Noted)[end]);
  return both;
}

/**
 * Makes a signal for one call only, if it has but the caller's, which many calls may share: work
 * that one of them leaves behind must not hold the permits of the others.
 */
export function ownSignal(signal: AbortSignal, caller: AbortSignal | undefined): AbortSignal {
  return signal === caller ? eitherSignal(signal) : signal;
}

/** The signal from which this one was made. Work under this one is also work under that one. */
export function parentSignal(signal: AbortSignal): AbortSignal | undefined {
  return (signal as Noted)[parentOf];
}

/**
 * Milliseconds until the deadline of a signal; `Infinity` if none is known. Parts refuse callers at
 * once that would have to wait for longer.
 */
export function msLeft(signal: AbortSignal | undefined): number {
  const known = (signal as Noted | undefined)?.[end];
  return known === undefined ? Infinity : Math.max(0, known.at - known.clock.now());
}
