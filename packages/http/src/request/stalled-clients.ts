import type { Socket } from 'node:net';
import type { Clock } from 'spillway';
import { nextTurn } from 'spillway/internal';

// The kernel takes more of an answer only when a third of its buffer is free: that may be seconds.
/** Milliseconds between two checks for clients that have stalled, while others wait. */
const checkMs = 2_000;
/** A client that sends and takes fewer bytes from one check to the next has stalled. */
const bytesMin = 1_024;
/** Stalled requests of one address before any is cut. */
const stalledMin = 4;

/** A request, as far as its client keeps it from its end. */
export interface Exchange {
  /** Fairness key of its client. */
  readonly key: string;
  readonly isHeld: boolean;
  /** Bytes sent and taken by the client; undefined unless the request waits for nothing else. */
  readonly clientBytes: number | undefined;
  /** Ends the connection. */
  cut(): void;
}

/**
 * Cuts clients that send nothing of a body, or take nothing of a long answer. Each holds a permit
 * until its deadline, so one address could keep a route from all others. They are cut only while
 * others wait, and only at an address that holds half of the permits in this way.
 */
export class StalledClients implements Disposable {
  readonly #clock: Clock;
  readonly #requests: () => Iterable<Exchange>;
  #waiting = 0;
  #timer: Disposable | undefined;
  /** The `clientBytes` of the last check. */
  #bytes = new Map<Exchange, number>();

  constructor(clock: Clock, requests: () => Iterable<Exchange>) {
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
    const before = this.#bytes;
    this.#bytes = new Map();
    if (this.#waiting <= 0) return;
    const stalled: Exchange[] = [];
    let held = 0;
    for (const request of this.#requests()) {
      if (!request.isHeld) continue;
      held += 1;
      const { clientBytes } = request;
      if (clientBytes === undefined) continue;
      this.#bytes.set(request, clientBytes);
      if (clientBytes - (before.get(request) ?? -Infinity) < bytesMin) stalled.push(request);
    }
    for (const requests of Map.groupBy(stalled, ({ key }) => key).values()) {
      if (requests.length < Math.max(stalledMin, held / 2)) continue;
      for (const request of requests) request.cut();
    }
    // A turn later: what came while the event loop was held up has to be read first.
    this.#timer = this.#clock.after(checkMs, () => nextTurn(this.#check));
  };
}

/** Gives the bytes that the kernel has taken; the rest of a text may be in the queue of libuv. */
export function takenBytes(socket: Socket): number {
  const { _handle } = socket as { readonly _handle?: { readonly writeQueueSize?: number } | null };
  return socket.bytesWritten - socket.writableLength - (_handle?.writeQueueSize ?? 0);
}
