import { inspect } from 'node:util';

/**
 * What the pool and a worker share. Tasks go over in one message per turn; their state, and results
 * that are plain numbers and the like, are in shared memory: so a task that has not begun can be
 * taken back from a busy worker, and a result is seen though the worker is busy with the next task.
 */

/** How many tasks a worker may have at once, begun or not. A power of two. */
export const slotCount = 1024;

/** The states of a task; the rest of the number is its stamp, so that a slot can be used again. */
export const offered = 0;
export const claimed = 1;
export const revoked = 2;
export const aborted = 3;

const stampMax = 2 ** 28;

/** A task's number: unique for as long as anybody may remember it, and it names its slot. */
export function ticketOf(stamp: number, slot: number): number {
  return (stamp % stampMax) * slotCount + slot;
}

export function slotOf(ticket: number): number {
  return ticket % slotCount;
}

/** The word that stands in a task's slot while it is in the given state. */
export function wordOf(ticket: number, state: number): number {
  return Math.floor(ticket / slotCount) * 4 + state;
}

/** Results that need no message. Their order is that of the tags. */
const plainResults: readonly unknown[] = [undefined, null, false, true];
const numberTag = plainResults.length;

const tail = 0;
const asleep = 1;

/** The memory that one worker shares with its pool. */
export class SharedSlots {
  readonly buffer: SharedArrayBuffer;
  readonly #header: Int32Array;
  readonly #states: Int32Array;
  readonly #tags: Int32Array;
  readonly #values: Float64Array;
  readonly #durations: Float64Array;
  /** The slots of tasks that have ended, in order; a ring that cannot overflow. */
  readonly #ended: Int32Array;
  readonly #gauges: Float64Array;
  #head = 0;
  #tail = 0;

  /** Made by the pool, and made again by the worker from the pool's buffer. */
  constructor(given?: SharedArrayBuffer) {
    const buffer = given ?? new SharedArrayBuffer(64 + slotCount * 28);
    this.buffer = buffer;
    this.#header = new Int32Array(buffer, 0, 2);
    this.#gauges = new Float64Array(buffer, 8, 1);
    this.#values = new Float64Array(buffer, 64, slotCount);
    this.#durations = new Float64Array(buffer, 64 + slotCount * 8, slotCount);
    this.#states = new Int32Array(buffer, 64 + slotCount * 16, slotCount);
    this.#tags = new Int32Array(buffer, 64 + slotCount * 20, slotCount);
    this.#ended = new Int32Array(buffer, 64 + slotCount * 24, slotCount);
    if (given === undefined) this.#header[asleep] = 1;
  }

  /** Pool: the task may be begun, or taken back until then. */
  offer(ticket: number): void {
    Atomics.store(this.#states, slotOf(ticket), wordOf(ticket, offered));
  }

  /** Worker: true when the task is now its own to run. */
  claim(ticket: number): boolean {
    return this.#change(ticket, claimed);
  }

  /** Pool: true when the task has not begun, and now never will there. */
  revoke(ticket: number): boolean {
    return this.#change(ticket, revoked);
  }

  #change(ticket: number, state: number): boolean {
    const word = wordOf(ticket, offered);
    return Atomics.compareExchange(this.#states, slotOf(ticket), word, word + state) === word;
  }

  /** Pool: whether the task has begun. */
  hasBegun(ticket: number): boolean {
    const state = Atomics.load(this.#states, slotOf(ticket)) - wordOf(ticket, offered);
    return state === claimed || state === aborted;
  }

  /** Pool: tells a running task to stop, even one that never looks at its messages. */
  abort(ticket: number): void {
    Atomics.store(this.#states, slotOf(ticket), wordOf(ticket, aborted));
  }

  isAborted(ticket: number): boolean {
    return Atomics.load(this.#states, slotOf(ticket)) === wordOf(ticket, aborted);
  }

  /** Worker: leaves the result here, if it is one that fits. */
  end(ticket: number, result: unknown, durationMs: number): boolean {
    const slot = slotOf(ticket);
    const tag = typeof result === 'number' ? numberTag : plainResults.indexOf(result);
    if (tag < 0) return false;
    this.#tags[slot] = tag;
    if (tag === numberTag) this.#values[slot] = result as number;
    this.#durations[slot] = durationMs;
    this.#ended[this.#tail & (slotCount - 1)] = slot;
    this.#tail = (this.#tail + 1) | 0;
    Atomics.store(this.#header, tail, this.#tail);
    return true;
  }

  /** Worker: true when the pool must be woken to see what has ended. */
  mustWake(): boolean {
    return Atomics.compareExchange(this.#header, asleep, 1, 0) === 1;
  }

  /** Pool: gives every result that has come, then sleeps until it is woken. */
  drain(ended: (slot: number, result: unknown, durationMs: number) => void): void {
    do {
      Atomics.store(this.#header, asleep, 0);
      while (this.#head !== Atomics.load(this.#header, tail)) {
        const slot = this.#ended[this.#head & (slotCount - 1)] as number;
        this.#head = (this.#head + 1) | 0;
        const tag = this.#tags[slot] as number;
        const result = tag === numberTag ? this.#values[slot] : plainResults[tag];
        ended(slot, result, this.#durations[slot] as number);
      }
      Atomics.store(this.#header, asleep, 1);
      // A result that came between the last look and falling asleep rang no bell.
    } while (this.#head !== Atomics.load(this.#header, tail));
  }

  /** Bytes in use by the worker, as it last measured. */
  get heapBytes(): number {
    return this.#gauges[0] as number;
  }

  set heapBytes(bytes: number) {
    this.#gauges[0] = bytes;
  }
}

/** What a thread is started with. */
export interface ThreadStart {
  readonly module: string;
  readonly concurrency: number;
  readonly buffer: SharedArrayBuffer;
}

/**
 * From the pool to a worker. A plain array is a batch of tasks, three items each: ticket, handler,
 * input. A handler is its number, or minus one minus its number when it is to stream.
 */
export type ToWorker =
  | readonly unknown[]
  | { readonly type: 'start' | 'snapshot'; readonly version: number; readonly value: unknown }
  | { readonly type: 'abort'; readonly ticket: number; readonly reason: WireError }
  | { readonly type: 'credit'; readonly ticket: number; readonly chunks: number }
  | { readonly type: 'close' };

/** From a worker to the pool; `undefined` is the bell that says there are results to read. */
export type FromWorker =
  | undefined
  | { readonly type: 'ready'; readonly handlers: readonly string[] }
  | { readonly type: 'failed'; readonly error: WireError }
  | { readonly type: 'released'; readonly version: number }
  | { readonly type: 'chunk'; readonly ticket: number; readonly value: unknown }
  | {
      readonly type: 'result';
      readonly ticket: number;
      readonly value: unknown;
      readonly durationMs: number;
    }
  | {
      readonly type: 'error';
      readonly ticket: number;
      readonly error: WireError;
      readonly durationMs: number;
    };

/** An error in a form that survives the way: cloning keeps neither its name nor its fields. */
export interface WireError {
  readonly thrown: unknown;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Packs whatever was thrown; with `isBare` only what can always be copied. */
export function packError(thrown: unknown, isBare = false): WireError {
  if (!(thrown instanceof Error)) {
    const bare = new Error(`what was thrown cannot be copied: ${inspect(thrown, { depth: 0 })}`);
    return { thrown: isBare ? bare : thrown, fields: {} };
  }
  const fields: Record<string, unknown> = { name: thrown.name };
  for (const [key, value] of Object.entries(thrown)) {
    const isFlat = value === null || typeof value !== 'object';
    const isData = typeof value !== 'function' && typeof value !== 'symbol';
    if (isData && (isFlat || !isBare)) fields[key] = value;
  }
  if (!isBare) return { thrown, fields };
  const { message, stack } = thrown;
  return { thrown: Object.assign(new Error(message), { stack }), fields };
}

export function unpackError({ thrown, fields }: WireError): unknown {
  if (!(thrown instanceof Error)) return thrown;
  for (const [key, value] of Object.entries(fields)) {
    const enumerable = key !== 'name';
    Object.defineProperty(thrown, key, { value, enumerable, configurable: true, writable: true });
  }
  return thrown;
}

/** Posts a message with an error in it, whole if that can be copied. */
export function postError(thrown: unknown, post: (error: WireError) => void): void {
  try {
    post(packError(thrown));
  } catch {
    post(packError(thrown, true));
  }
}
