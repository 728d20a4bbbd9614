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
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  return promise;
}

/** Runs the task unless the signal has aborted; the caller is told at once when it aborts. */
export async function runUntilAborted<T>(
  task: Task<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return await task(new AbortController().signal);
  signal.throwIfAborted();
  // A task written in JavaScript may give a plain value.
  return await untilAborted(Promise.resolve(task(signal)), signal);
}

/** Resolves when the signal aborts. */
export function onceAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
