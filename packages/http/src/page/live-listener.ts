import { Readable } from 'node:stream';
import type { LiveView } from './live-view.ts';

/**
 * One browser that listens, as the stream of events that is sent to it. Nothing is made before the
 * connection can take it, so one that is slow skips to the newest version and takes no memory.
 */
export class LiveListener extends Readable {
  readonly #view: LiveView;
  #version: string;
  #isWanted = false;
  #isStuck = false;

  /** The version is what the browser says that it shows; any other text if it does not know. */
  constructor(view: LiveView, version: string) {
    // With a mark of 0 nothing is asked for while the connection is full.
    super({ highWaterMark: 0 });
    this.#view = view;
    this.#version = version;
    // So that the browser learns at once that it is connected.
    this.push(':\n\n');
  }

  /** Sends what the browser lacks, if the connection can take it. */
  offer(): void {
    const message = this.#isWanted ? this.#view.message(this.#version) : undefined;
    if (message === undefined) return;
    this.#version = this.#view.version;
    this.#send(message);
  }

  /** Sends a sign of life; a connection that took nothing since the last one is ended. */
  beat(): void {
    if (this.#isWanted) this.#send(':\n\n');
    else if (this.#isStuck) this.destroy();
    else this.#isStuck = true;
  }

  /** Ends the stream, so that the browser comes back to another instance. */
  end(): void {
    this.push(null);
  }

  override _read(): void {
    this.#isWanted = true;
    this.#isStuck = false;
    this.offer();
  }

  #send(text: string): void {
    this.#isWanted = false;
    this.push(text);
  }
}
