/** Work that can be cancelled: the one contract that lanes, breakers and retries share. */
export type Task<T> = (signal: AbortSignal) => Promise<T>;
