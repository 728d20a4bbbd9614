import { parentSignal } from './deadline.ts';
import type { Task } from './task.ts';

/**
 * Gives what the work gives, or rejects as soon as the signal aborts, if there is one: with its
 * reason, or with what `reasonOf` makes of that. The work itself goes on: a permit for it is held
 * until it has really ended.
 */
export function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  reasonOf: (reason: unknown) => unknown = (reason) => reason,
): Promise<T> {
  if (signal === undefined) return work;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const leave = () => reject(reasonOf(signal.reason));
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  // Not by `finally`, which makes three promises more: every call of a store comes through here.
  work.then(
    (value) => {
      signal.removeEventListener('abort', leave);
      resolve(value);
    },
    (error: unknown) => {
      signal.removeEventListener('abort', leave);
      reject(error);
    },
  );
  return promise;
}

/**
 * Runs the task unless the signal has aborted; the caller is told at once when it aborts. Permits
 * around it are held until the task has really ended, see {@link releaseAfter}.
 */
export async function runUntilAborted<T>(
  task: Task<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return await task(new AbortController().signal);
  signal.throwIfAborted();
  // A task written in JavaScript may give a plain value.
  return await leaveOnAbort(Promise.resolve(task(signal)), signal, signal);
}

/** Tasks that go on though their callers have left, by the signals they were run under. */
const leftWork = new WeakMap<AbortSignal, Set<Promise<unknown>>>();
/** Number of such tasks: while it is 0, nothing has to be looked up. */
let leftCount = 0;

/** The same as {@link untilAborted}, and notes the work that is left under the other signal. */
export function leaveOnAbort<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  under: AbortSignal | undefined,
): Promise<T> {
  return untilAborted(work, signal, (reason) => {
    if (under !== undefined) noteLeft(work, under);
    return reason;
  });
}

function noteLeft(work: Promise<unknown>, signal: AbortSignal): void {
  const places: Set<Promise<unknown>>[] = [];
  for (let at: AbortSignal | undefined = signal; at !== undefined; at = parentSignal(at)) {
    const works = leftWork.get(at) ?? new Set();
    leftWork.set(at, works.add(work));
    places.push(works);
  }
  leftCount += 1;
  const ended = (): void => {
    leftCount -= 1;
    for (const works of places) works.delete(work);
  };
  work.then(ended, ended);
}

/**
 * Gives a permit back: at once, or when the work has ended that was left under the signal of its
 * call. A retry that gives an attempt up tells its caller, but the attempt may go on.
 */
export function releaseAfter(permit: Disposable, signal: AbortSignal): void {
  const works = leftCount === 0 ? undefined : leftWork.get(signal);
  if (works === undefined || works.size === 0) {
    permit[Symbol.dispose]();
    return;
  }
  void Promise.allSettled(works).then(() => releaseAfter(permit, signal));
}

/** Resolves when the signal aborts. */
export function onceAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
