import type { Socket } from 'node:net';
import type { Clock } from 'spillway';

// The kernel takes more of an answer only when a third of its buffer is free: that may be seconds.
/** Milliseconds between two checks for clients that read nothing, while others wait. */
const checkMs = 2_000;
/** Clients of one address that hold permits in this way before any is cut. */
const stalledMin = 4;

/** A request that holds a permit, as far as its client's reading is concerned. */
export interface Reading {
  /** Fairness key of its client. */
  readonly key: string;
  readonly isHeld: boolean;
  /** Bytes of the answer that have left; undefined unless only its client keeps it from its end. */
  readonly sentBytes: number | undefined;
  /** Ends the connection. */
  cut(): void;
}

/**
 * Cuts clients that ask for long answers and read nothing. Each holds a permit until its deadline,
 * so one address could keep a route from all others. They are cut only while others wait, and only
 * at an address that holds half of the permits in this way. A slow client that reads is left alone.
 */
export class StalledReaders implements Disposable {
  readonly #clock: Clock;
  readonly #requests: () => Iterable<Reading>;
  #waiting = 0;
  #timer: Disposable | undefined;
  /** Bytes that had left at the last check. */
  #sent = new Map<Reading, number>();

  constructor(clock: Clock, requests: () => Iterable<Reading>) {
    this.#clock = clock;
    this.#requests = requests;
  }

  /** Notes that one request more, or one less, waits for a permit. */
  wait(change: 1 | -1): void {
    this.#waiting += change;
    if (this.#waiting > 0 && this.#timer === undefined) this.#check();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    this.#waiting = -Infinity;
  }

  readonly #check = (): void => {
    this.#timer = undefined;
    const before = this.#sent;
    this.#sent = new Map();
    if (this.#waiting <= 0) return;
    const stalled = new Map<string, Reading[]>();
    let held = 0;
    for (const request of this.#requests()) {
      if (!request.isHeld) continue;
      held += 1;
      const { key, sentBytes } = request;
      if (sentBytes === undefined) continue;
      this.#sent.set(request, sentBytes);
      if (before.get(request) !== sentBytes) continue;
      const others = stalled.get(key);
      if (others === undefined) stalled.set(key, [request]);
      else others.push(request);
    }
    for (const requests of stalled.values()) {
      if (requests.length < Math.max(stalledMin, held / 2)) continue;
      for (const request of requests) request.cut();
    }
    this.#timer = this.#clock.after(checkMs, this.#check);
  };
}

/**
 * Gives the bytes that the kernel has taken. A text stays in `writableLength` to its end; what is
 * left of it is in the queue of libuv, by which Node tells a slow socket from a silent one.
 */
export function takenBytes(socket: Socket): number {
  const { _handle } = socket as { readonly _handle?: { readonly writeQueueSize?: number } | null };
  return socket.bytesWritten - socket.writableLength - (_handle?.writeQueueSize ?? 0);
}
