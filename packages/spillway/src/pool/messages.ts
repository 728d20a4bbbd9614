import type { WireError } from './wire-error.ts';

/** The data that a thread is started with. */
export interface ThreadStart {
  readonly module: string;
  readonly concurrency: number;
  /** The memory of {@link TaskSlots}. */
  readonly slots: SharedArrayBuffer;
  /** The memory of {@link ResultWriter}. */
  readonly results: SharedArrayBuffer;
  /** The option `workerData` of the pool. */
  readonly workerData: unknown;
  /** The newest snapshot, and its version: 0 if there is none. */
  readonly value: unknown;
  readonly version: number;
}

/**
 * From the pool to a worker. An array is a batch of tasks, four items each: ticket, number of the
 * handler, true if it streams, input. Sent flat, since an object for each costs more to copy.
 */
export type ToWorker =
  | readonly unknown[]
  | { readonly type: 'snapshot'; readonly version: number; readonly value: unknown }
  | { readonly type: 'abort'; readonly ticket: number; readonly reason: WireError }
  | { readonly type: 'credit'; readonly ticket: number; readonly chunks: number }
  | { readonly type: 'close' };

/** The number of items that a task takes in a batch. */
export const batchStep = 4;

/**
 * From a worker to the pool about its tasks. `undefined` says: read the results in memory. An array
 * is one result, flat as the tasks are: ticket, milliseconds it took, value.
 */
export type TaskMessage =
  | undefined
  | readonly [ticket: number, durationMs: number, value: unknown]
  | { readonly type: 'chunk'; readonly ticket: number; readonly value: unknown }
  | {
      readonly type: 'thrown';
      readonly ticket: number;
      readonly durationMs: number;
      readonly error: WireError;
    };

/** From a worker to the pool. */
export type FromWorker =
  | TaskMessage
  | { readonly type: 'ready'; readonly handlers: readonly string[] }
  | { readonly type: 'failed'; readonly error: WireError };
