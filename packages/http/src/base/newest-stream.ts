import { Readable } from 'node:stream';
import type { Clock } from 'spillway';
import { repeat } from './repeat.ts';
import { Sweep } from './sweep.ts';

/** A comment of server-sent events, which shows the client that the connection is alive. */
const heartbeat = ':\n\n';

/** Gives the newest event that a reader has not seen, or undefined when there is none. */
type Next = () => string | undefined;

/**
 * A stream of server-sent events whose reader skips to the newest state. An event is made only
 * when the connection can take it: a slow reader skips states and costs no memory.
 */
export class NewestStream extends Readable {
  readonly #next: Next;
  readonly #missedMax: number;
  #isWanted = false;
  #missed = 0;

  constructor(next: Next, missedMax: number) {
    // With a high-water mark of 0 nothing is read while the buffer of the connection is full.
    super({ highWaterMark: 0 });
    this.#next = next;
    this.#missedMax = missedMax;
    // The client learns at once that it is connected.
    this.push(heartbeat);
  }

  /** Sends the newest event if the reader can take it now. */
  offer(): void {
    const event = this.#isWanted ? this.#next() : undefined;
    if (event !== undefined) this.#send(event);
  }

  /** Sends the newest event, or a heartbeat; cuts off a reader that is stuck. */
  beat(): void {
    if (this.#isWanted) {
      this.#send(this.#next() ?? heartbeat);
      return;
    }
    this.#missed += 1;
    if (this.#missed >= this.#missedMax) this.destroy();
  }

  override _read(): void {
    this.#isWanted = true;
    this.#missed = 0;
    this.offer();
  }

  #send(event: string): void {
    this.#isWanted = false;
    this.push(event);
  }
}

interface NewestStreamsOptions {
  readonly clock: Clock;
  readonly beatMs: number;
  /** A reader that takes nothing for this many beats in a row is cut off. */
  readonly missedMax: number;
  /** Called before each beat. */
  readonly onBeat?: () => void;
}

/** The open streams of one source; one timer serves all, and stops with the last of them. */
export class NewestStreams {
  readonly #options: NewestStreamsOptions;
  readonly #open = new Set<NewestStream>();
  readonly #beats: Sweep<NewestStream> = new Sweep(
    () => this.#open,
    (stream) => stream.beat(),
  );
  #timer: Disposable | undefined;

  constructor(options: NewestStreamsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  open(next: Next): NewestStream {
    const stream = new NewestStream(next, this.#options.missedMax);
    this.#open.add(stream);
    stream.once('close', () => {
      this.#open.delete(stream);
      if (this.#open.size === 0) this.#stop();
    });
    this.#timer ??= repeat(this.#options.clock, this.#options.beatMs, () => {
      this.#options.onBeat?.();
      this.#beats.start();
    });
    return stream;
  }

  /** Ends all streams, so that their readers can connect to another instance. */
  close(): void {
    this.#stop();
    for (const stream of [...this.#open]) stream.push(null);
  }

  #stop(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
