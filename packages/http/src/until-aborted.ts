/** Gives what the work gives, or rejects with the signal's reason as soon as it aborts. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const leave = () => reject(signal.reason);
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  return promise;
}
