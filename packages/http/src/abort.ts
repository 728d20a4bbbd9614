import { untilAborted } from 'spillway';

/** Gives what the work gives, or rejects as soon as the signal aborts, if there is one. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return signal === undefined ? work : untilAborted(work, signal);
}
