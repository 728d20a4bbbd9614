/** The number of tasks that a worker can hold at once, begun or not. A power of two. */
export const slotCount = 1024;

const stampMax = 2 ** 28;
const stateCount = 4;

const offered = 0;
const claimed = 1;
const revoked = 2;
const aborted = 3;

/** The number of one task sent to one worker: the stamp tells apart the users of one slot. */
export function ticketOf(stamp: number, slot: number): number {
  return (stamp % stampMax) * slotCount + slot;
}

export function slotOf(ticket: number): number {
  return ticket % slotCount;
}

/** The word of a task in the state `offered`; the other states are added to it. */
function wordOf(ticket: number): number {
  return Math.floor(ticket / slotCount) * stateCount;
}

/**
 * The states of the tasks that were sent to one worker, in memory that the pool and the worker
 * share. Each task has a slot, and each slot one 32-bit word:
 *
 *     ticket   | stamp, 28 bits | slot, 10 bits |      travels with the task, both ways
 *     word     | stamp, 28 bits | state, 2 bits |      words[slot]
 *
 *     offered ---- worker claims it ----> claimed ---- pool aborts it ----> aborted
 *         \------- pool takes it back --> revoked
 *
 * Claiming and taking back are a compare-and-exchange of the whole word, so exactly one side wins:
 * a task that has not begun can move from a busy worker to an idle one, and leaves at once when its
 * caller aborts. The slot is used again at once: the message of the revoked task is still on its
 * way, but the stamp in its ticket no longer matches the word.
 */
export class TaskSlots {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  readonly #gauges: Float64Array;

  /** Made by the pool, and made again by the worker from the pool's buffer. */
  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(16 + slotCount * 4)) {
    this.buffer = buffer;
    this.#gauges = new Float64Array(buffer, 0, 2);
    this.#words = new Int32Array(buffer, 16, slotCount);
  }

  /** Pool: the task may be begun, or taken back until then. */
  offer(ticket: number): void {
    Atomics.store(this.#words, slotOf(ticket), wordOf(ticket) + offered);
  }

  /** Worker: true when the task is now its own to run. */
  claim(ticket: number): boolean {
    return this.#change(ticket, claimed);
  }

  /** Pool: true when the task has not begun, and now never will in this worker. */
  revoke(ticket: number): boolean {
    return this.#change(ticket, revoked);
  }

  #change(ticket: number, state: number): boolean {
    const word = wordOf(ticket) + offered;
    return Atomics.compareExchange(this.#words, slotOf(ticket), word, word + state) === word;
  }

  /** Pool: true when the worker has begun the task. */
  hasBegun(ticket: number): boolean {
    const state = Atomics.load(this.#words, slotOf(ticket)) - wordOf(ticket);
    return state === claimed || state === aborted;
  }

  /** Pool: tells a running task to stop, even one that never looks at its messages. */
  abort(ticket: number): void {
    Atomics.store(this.#words, slotOf(ticket), wordOf(ticket) + aborted);
  }

  isAborted(ticket: number): boolean {
    return Atomics.load(this.#words, slotOf(ticket)) === wordOf(ticket) + aborted;
  }

  /** Bytes in use by the worker's heap and buffers, as it last measured. */
  get heapBytes(): number {
    return this.#gauges[0] as number;
  }

  set heapBytes(bytes: number) {
    this.#gauges[0] = bytes;
  }

  /** The oldest snapshot version that a task of the worker still reads. */
  get version(): number {
    return this.#gauges[1] as number;
  }

  set version(version: number) {
    this.#gauges[1] = version;
  }
}
