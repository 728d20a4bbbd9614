/** Work that can be cancelled: a function that stops when the signal aborts. */
export type Task<T> = (signal: AbortSignal) => Promise<T>;

export interface RunOptions {
  /** Ends the wait or the work when it aborts; the call rejects at once with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The contract of everything that runs work: gates, lanes, buckets, breakers, retries, leases. */
export interface Runner {
  run<T>(task: Task<T>, options?: RunOptions): Promise<T>;
}
