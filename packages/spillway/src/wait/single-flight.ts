import { untilAborted } from '../base/abort.ts';
import type { RunOptions } from '../base/task.ts';

/**
 * Shares one call among all callers of the same key while it is under way. An abort ends the wait
 * of its caller only; the call goes on, even with no caller left, so it needs its own deadline.
 */
export class SingleFlight<T> {
  readonly #calls = new Map<string, Promise<T>>();

  /** The number of calls under way. */
  get size(): number {
    return this.#calls.size;
  }

  has(key: string): boolean {
    return this.#calls.has(key);
  }

  /** Gives the outcome of the call under way for this key, or calls `work` if there is none. */
  run(key: string, work: () => Promise<T>, { signal }: RunOptions = {}): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return untilAborted(this.#calls.get(key) ?? this.#start(key, work), signal);
  }

  #start(key: string, work: () => Promise<T>): Promise<T> {
    // It starts a tick later, when the key is set: it may throw at once, or run its own key.
    const call = Promise.resolve().then(work);
    this.#calls.set(key, call);
    const forget = () => {
      this.#calls.delete(key);
    };
    // Listening here also keeps a failure that nobody waits for from ending the process.
    call.then(forget, forget);
    return call;
  }
}
