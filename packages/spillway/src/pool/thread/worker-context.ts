/** The second argument of each handler of a worker module. */
export interface WorkerContext<Resource = unknown, State = unknown> {
  /** The value that this worker's `setup` gave: shared with no other worker. */
  readonly resource: Resource;
  /** The snapshot as it was when the task began; it stays the same until the task ends. */
  readonly snapshot: State;
  /** The number of that snapshot; 0 before the first was published. */
  readonly version: number;
  /** Aborts when the caller does or its deadline has passed; needs the worker's loop to turn. */
  readonly signal: AbortSignal;
  /** The same, but up to date also in the middle of synchronous work. */
  readonly aborted: boolean;
}

/** The argument of the `setup` of a worker module. */
export interface SetupContext<State = unknown, Data = unknown> {
  /** The newest snapshot when the worker starts. */
  readonly snapshot: State;
  /** The number of that snapshot; 0 before the first was published. */
  readonly version: number;
  /** The pool's option `workerData`. */
  readonly workerData: Data;
}

/** Marks a {@link Transfer}: the module of a worker may have a copy of this file in its bundle. */
const moved: unique symbol = Symbol.for('spillway.transfer');

/** A result whose buffers are moved to the caller instead of copied. */
export interface Transfer<T> {
  readonly [moved]: true;
  readonly value: T;
  readonly list: readonly ArrayBuffer[];
}

/** The value to send for a result, and the buffers inside it that are moved. */
export function unwrap(result: unknown): Pick<Transfer<unknown>, 'value' | 'list'> {
  const isMoved = typeof result === 'object' && result !== null && moved in result;
  return isMoved ? (result as Transfer<unknown>) : { value: result, list: [] };
}

/** Gives a handler's result with some of its buffers moved instead of copied. */
export function transfer<T>(value: T, list: readonly ArrayBuffer[]): Transfer<T> {
  return { [moved]: true, value, list };
}
