import { Readable } from 'node:stream';
import type { ByteRange } from '../file/byte-range.ts';

/** Bytes that make one body, or a part of one: a file, a record, an archive of yesterday. */
export interface Piece {
  /** Its length in bytes. */
  readonly size: number;
  /** Its bytes from `start` up to, not including, `end`; called when their turn comes. */
  open(start: number, end: number): PieceSource | Promise<PieceSource>;
}

/** A stream is destroyed as soon as nobody wants it; of an iterator, `return` is called. */
export type PieceSource = Readable | AsyncIterable<Uint8Array | string>;

interface Part {
  readonly piece: Piece;
  readonly start: number;
  readonly end: number;
}

/** One range of many pieces as one stream: one of them is open at a time, none before its turn. */
export class PieceStream extends Readable {
  readonly #parts: readonly Part[];
  #next = 0;
  #current: Readable | undefined;
  #isOpening = false;
  /** Bytes that the current piece still owes. */
  #owed = 0;

  constructor(pieces: readonly Piece[], range: ByteRange) {
    super({ highWaterMark: 262_144 });
    this.#parts = partsOf(pieces, range);
  }

  override _read(): void {
    if (this.#current !== undefined) this.#current.resume();
    else if (!this.#isOpening) void this.#openNext();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#current?.destroy();
    callback(error);
  }

  async #openNext(): Promise<void> {
    const part = this.#parts[this.#next];
    if (part === undefined) {
      this.push(null);
      return;
    }
    this.#next += 1;
    this.#isOpening = true;
    try {
      this.#follow(readable(await part.piece.open(part.start, part.end)), part);
    } catch (error) {
      this.destroy(error as Error);
    }
    this.#isOpening = false;
  }

  #follow(source: Readable, part: Part): void {
    source.on('error', (error) => this.destroy(error));
    if (this.destroyed) {
      source.destroy();
      return;
    }
    this.#current = source;
    this.#owed = part.end - part.start;
    source.on('data', (chunk: Buffer) => {
      this.#owed -= chunk.length;
      if (this.#owed < 0) this.destroy(new Error('a piece is longer than it said'));
      else if (!this.push(chunk)) source.pause();
    });
    source.on('close', () => {
      this.#current = undefined;
      // The length was promised in a header: a client would wait for the rest for ever.
      if (this.#owed > 0) this.destroy(new Error(`a piece is ${this.#owed} bytes short`));
      else if (!this.destroyed) void this.#openNext();
    });
  }
}

/** Whatever yields bytes, as a stream of bytes. */
export function readable(source: PieceSource): Readable {
  return source instanceof Readable ? source : Readable.from(source, { objectMode: false });
}

function partsOf(pieces: readonly Piece[], range: ByteRange): Part[] {
  const parts: Part[] = [];
  let offset = 0;
  for (const piece of pieces) {
    const start = Math.max(0, range.start - offset);
    const end = Math.min(piece.size, range.end - offset);
    if (start < end) parts.push({ piece, start, end });
    offset += piece.size;
  }
  return parts;
}
