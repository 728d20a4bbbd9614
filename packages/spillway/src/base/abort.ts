import { parentSignal } from './deadline.ts';
import type { Task } from './task.ts';

/**
 * Settles as the work does, or rejects as soon as the signal aborts, with what `reasonOf` makes of
 * its reason. The work itself goes on, so a permit for it must be held until it ends.
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
  // `finally` would make three promises more, and every call of a store comes through here.
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
 * Runs the task unless the signal has aborted, and rejects as soon as it aborts. Permits around it
 * are held until the task has really ended, see {@link releaseAfter}.
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

/** Work that goes on after its caller has left, by the signals it was run under. */
const leftWork = new WeakMap<AbortSignal, Set<Promise<unknown>>>();
/** Number of such pieces of work: while it is 0, nothing has to be looked up. */
let leftCount = 0;

/** Does as {@link untilAborted} and notes work that goes on by the signal it was run under. */
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
 * Gives a permit back once no work goes on under the signal of its call: a retry may have given up
 * an attempt that still runs.
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
