import { Readable } from 'node:stream';
import type { Clock } from 'spillway';
import { checkInteger, checkNumber } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

export interface StatsFeedOptions {
  /** Milliseconds from one state to the next, from 10 to 60,000. @default 1000 */
  readonly streamMs?: number | undefined;
  /** How many may listen at once; one more is refused. From 0 to 1,000. @default 16 */
  readonly streamsMax?: number | undefined;
}

/** A listener that has read nothing for so many states is cut off: its place may be wanted. */
const missedMax = 60;

/** One listener: it has a state pushed only when it has taken the one before. */
class Listener extends Readable {
  wants = false;
  missed = 0;

  constructor() {
    super({ highWaterMark: 1 });
  }

  override _read(): void {
    this.wants = true;
  }
}

/** Sends the state of the moment to all listeners, as server-sent events, once in a while. */
export class StatsFeed {
  readonly #state: () => unknown;
  readonly #clock: Clock;
  readonly #streamMs: number;
  readonly #streamsMax: number;
  readonly #listeners = new Set<Listener>();
  #timer: Disposable | undefined;

  constructor(state: () => unknown, clock: Clock, options: StatsFeedOptions) {
    const { streamMs = 1_000, streamsMax = 16 } = options;
    checkNumber('streamMs', streamMs, 10, 60_000);
    checkInteger('streamsMax', streamsMax, 0, 1_000);
    this.#state = state;
    this.#clock = clock;
    this.#streamMs = streamMs;
    this.#streamsMax = streamsMax;
  }

  get listenersMax(): number {
    return this.#streamsMax;
  }

  /** A stream that begins with the state of now; destroy it when nobody reads it any more. */
  listen(): Readable {
    if (this.#listeners.size >= this.#streamsMax) {
      const message = `${this.#streamsMax} listen already`;
      throw httpError('SOCKETS_FULL', message, { retryAfterMs: 10_000 });
    }
    const listener = new Listener();
    this.#listeners.add(listener);
    listener.once('close', () => this.#leave(listener));
    listener.push(this.#event());
    this.#timer ??= this.#clock.after(this.#streamMs, this.#tick);
    return listener;
  }

  /** Ends all streams, since a server waits for its last answer before it closes. */
  close(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    for (const listener of [...this.#listeners]) {
      if (listener.wants) listener.push(null);
      else listener.destroy();
    }
  }

  readonly #tick = (): void => {
    this.#timer = this.#clock.after(this.#streamMs, this.#tick);
    // Made once for all, and only when somebody is there to take it.
    let event: string | undefined;
    for (const listener of [...this.#listeners]) {
      if (listener.wants) {
        listener.wants = false;
        listener.missed = 0;
        event ??= this.#event();
        listener.push(event);
      } else {
        listener.missed += 1;
        if (listener.missed >= missedMax) listener.destroy();
      }
    }
  };

  #event(): string {
    return `data: ${JSON.stringify(this.#state())}\n\n`;
  }

  #leave(listener: Listener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
