import { Readable } from 'node:stream';

/** A comment line: it shows a client of server-sent events that the connection is alive. */
const signOfLife = ':\n\n';

/**
 * A stream of server-sent events whose reader skips to the newest state. Nothing is made before
 * the connection can take it, so that a slow reader misses states and costs no memory.
 */
export class NewestStream extends Readable {
  readonly #next: () => string | undefined;
  readonly #missedMax: number;
  #isWanted = false;
  #missed = 0;

  /**
   * `next` gives the newest event that this reader has not seen, or undefined when there is none. A
   * reader that takes nothing for `missedMax` beats in a row is cut off.
   */
  constructor(next: () => string | undefined, missedMax: number) {
    // With a mark of 0 nothing is asked for while the connection is full.
    super({ highWaterMark: 0 });
    this.#next = next;
    this.#missedMax = missedMax;
    // The client learns at once that it is connected.
    this.push(signOfLife);
  }

  /** Sends the newest event if the reader can take it now. */
  offer(): void {
    const event = this.#isWanted ? this.#next() : undefined;
    if (event !== undefined) this.#send(event);
  }

  /** Sends the newest event, or a sign of life; cuts off a reader that is stuck. */
  beat(): void {
    if (this.#isWanted) {
      this.#send(this.#next() ?? signOfLife);
      return;
    }
    this.#missed += 1;
    if (this.#missed >= this.#missedMax) this.destroy();
  }

  /** Ends the stream, so that its reader can connect to another instance. */
  end(): void {
    this.push(null);
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
