/** Work that can be cancelled: a function that is given the signal to stop by. */
export type Task<T> = (signal: AbortSignal) => Promise<T>;

export interface RunOptions {
  /** Ends the waiting or the work; its reason is told to the caller at once. */
  readonly signal?: AbortSignal | undefined;
}

/** The contract of everything that runs work: gates, lanes, buckets, breakers, retries, leases. */
export interface Runner {
  run<T>(task: Task<T>, options?: RunOptions): Promise<T>;
}
