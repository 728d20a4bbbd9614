import type { Clock } from '../base/clock.ts';
import { slotCount } from './slots.ts';

/*
 * Results that are numbers, booleans, null or undefined travel through shared memory, all others by
 * a message each. Two workers then do 254,000 no-op tasks a second instead of 164,000; for objects,
 * and for tasks of 100 us, it makes no difference (2026-11).
 *
 *     worker                              pool
 *     tags, values, durations by slot ->  read by slot
 *     ended: ring of slots, in order  ->  read from its own head up to the tail
 *     header: | tail | asleep | head |    asleep: 1 when the pool must be woken by a message
 *                                         head: how far the pool has read
 *
 * Reason for the timer below: a message for each result would cost what the shared memory saves, so
 * a worker with more to do lets its results wait for a while. A worker that goes from short tasks
 * to a long one cannot know that it will be long, and leaves its last results unannounced. So while
 * a worker has more than one task, the pool also reads the results of all workers on a timer.
 */

/** A worker with more to do lets a result wait at least this long before it wakes the pool. */
const wakeMsMin = 0.25;
const wakeMsMax = 2.5;
const timerMsMin = 2;
const timerMsMax = 16;

/** Results without a number. Their order is that of the tags. */
const plainResults: readonly unknown[] = [undefined, null, false, true];
const numberTag = plainResults.length;

const tail = 0;
const asleep = 1;
const head = 2;

function viewsOf(buffer: SharedArrayBuffer) {
  return {
    header: new Int32Array(buffer, 0, 3),
    values: new Float64Array(buffer, 64, slotCount),
    durations: new Float64Array(buffer, 64 + slotCount * 8, slotCount),
    tags: new Int32Array(buffer, 64 + slotCount * 16, slotCount),
    // A ring that cannot overflow, since a slot is free again only when its result was read.
    ended: new Int32Array(buffer, 64 + slotCount * 20, slotCount),
  };
}

/** The worker's side. */
export class ResultWriter {
  readonly #memory: ReturnType<typeof viewsOf>;
  readonly #wake: () => void;
  #tail = 0;
  /** The place up to which the pool had read when this side last looked. */
  #head = 0;
  #lookedAt = -Infinity;
  /** The pool has read nothing since then. */
  #readAt = -Infinity;

  /** `wake` sends the pool a message that makes it read. */
  constructor(buffer: SharedArrayBuffer, wake: () => void) {
    this.#memory = viewsOf(buffer);
    this.#wake = wake;
  }

  /** Leaves the result for the pool; false when it needs a message. */
  write(slot: number, result: unknown, durationMs: number): boolean {
    const { tags, values, durations, ended, header } = this.#memory;
    const tag = typeof result === 'number' ? numberTag : plainResults.indexOf(result);
    if (tag < 0) return false;
    tags[slot] = tag;
    if (tag === numberTag) values[slot] = result as number;
    durations[slot] = durationMs;
    ended[this.#tail & (slotCount - 1)] = slot;
    this.#tail = (this.#tail + 1) | 0;
    Atomics.store(header, tail, this.#tail);
    return true;
  }

  /**
   * Wakes the pool if it has not read all results: at once if no task is left. Otherwise it waits,
   * from the pool's last look, for half of the time that the remaining tasks will take, so that new
   * tasks arrive before the worker has none.
   */
  tell(now: number, leftMs: number): void {
    const { header } = this.#memory;
    const read = Atomics.load(header, head);
    if (read === this.#tail) return;
    if (read !== this.#head) {
      this.#head = read;
      this.#readAt = this.#lookedAt;
    }
    this.#lookedAt = now;
    const waitMs = leftMs === 0 ? 0 : Math.min(Math.max(leftMs / 2, wakeMsMin), wakeMsMax);
    if (now - this.#readAt < waitMs) return;
    if (Atomics.compareExchange(header, asleep, 1, 0) === 1) this.#wake();
  }
}

/** The pool's side. */
export class ResultReader {
  readonly buffer: SharedArrayBuffer = new SharedArrayBuffer(64 + slotCount * 24);
  readonly #memory = viewsOf(this.buffer);
  #head = 0;

  constructor() {
    this.#memory.header[asleep] = 1;
  }

  /** True when there are results that no message announced. */
  get hasUnannounced(): boolean {
    const { header } = this.#memory;
    return Atomics.load(header, asleep) === 1 && this.#head !== Atomics.load(header, tail);
  }

  /** Gives every result that has come, then sleeps until it is woken. */
  read(ended: (slot: number, result: unknown, durationMs: number) => void): void {
    const memory = this.#memory;
    const { header } = memory;
    do {
      Atomics.store(header, asleep, 0);
      while (this.#head !== Atomics.load(header, tail)) {
        const slot = memory.ended[this.#head & (slotCount - 1)] as number;
        this.#head = (this.#head + 1) | 0;
        const tag = memory.tags[slot] as number;
        const result = tag === numberTag ? memory.values[slot] : plainResults[tag];
        ended(slot, result, memory.durations[slot] as number);
      }
      Atomics.store(header, head, this.#head);
      Atomics.store(header, asleep, 1);
      // The worker sent no message for a result that came between the last look and this line.
    } while (this.#head !== Atomics.load(header, tail));
  }
}

/** Reads the results of all workers now and then, while some may be unannounced. */
export class ResultTimer implements Disposable {
  readonly #clock: Clock;
  readonly #read: () => boolean;
  #waitMs = timerMsMin;
  #timer: Disposable | undefined;

  /** `read` takes the results that are there, and says whether there were any. */
  constructor(clock: Clock, read: () => boolean) {
    this.#clock = clock;
    this.#read = read;
  }

  /** A worker has more than one task: reads soon, then less often while nothing comes. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#waitMs = timerMsMin;
    this.#timer = this.#clock.after(timerMsMin, this.#fire);
  }

  readonly #fire = (): void => {
    this.#waitMs = this.#read() ? timerMsMin : Math.min(2 * this.#waitMs, timerMsMax);
    // Reading the last result has ended this timer.
    if (this.#timer !== undefined) this.#timer = this.#clock.after(this.#waitMs, this.#fire);
  };

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
