import { checkNumber } from './check.ts';
import type { Clock } from './clock.ts';
import { SpillwayError } from './errors.ts';

/** A signal with a time limit. Dispose it when the work is done, or its timer stays behind. */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
}

/** Aborts with code `DEADLINE` after `ms`, or with the parent's reason as soon as that aborts. */
export function deadline(clock: Clock, ms: number, parent?: AbortSignal): Deadline {
  checkNumber('ms', ms, 0);
  const controller = new AbortController();
  const { signal } = controller;
  const follow = () => stop(parent?.reason);
  const timer = clock.after(ms, () => {
    stop(new SpillwayError('DEADLINE', `not done within ${ms} ms`));
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
  return { signal, [Symbol.dispose]: release };
}
