import { Readable } from 'node:stream';

/** Bytes from `start` up to, not including, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Bytes of known length that are a body or a part of one, such as a file or a record. */
export interface Piece {
  readonly size: number;
  /** Opens the bytes from `start` up to, not including, `end`; called when they are needed. */
  open(start: number, end: number): PieceSource | Promise<PieceSource>;
}

/** Source of bytes: a stream is destroyed once it is not needed, an iterator is returned. */
export type PieceSource = Readable | AsyncIterable<Uint8Array | string>;

interface Slice {
  readonly piece: Piece;
  readonly start: number;
  readonly end: number;
}

/** One range of many pieces as one stream; one piece is open at a time. */
export class PieceStream extends Readable {
  readonly #slices: readonly Slice[];
  #next = 0;
  #current: Readable | undefined;
  #isOpening = false;
  #left = 0;

  constructor(pieces: readonly Piece[], range: ByteRange) {
    super({ highWaterMark: 262_144 });
    this.#slices = slicesOf(pieces, range);
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
    const slice = this.#slices[this.#next];
    if (slice === undefined) {
      this.push(null);
      return;
    }
    this.#next += 1;
    this.#isOpening = true;
    try {
      this.#follow(readable(await slice.piece.open(slice.start, slice.end)), slice);
    } catch (error) {
      this.destroy(error as Error);
    }
    this.#isOpening = false;
  }

  #follow(source: Readable, slice: Slice): void {
    source.on('error', (error) => this.destroy(error));
    if (this.destroyed) {
      source.destroy();
      return;
    }
    this.#current = source;
    this.#left = slice.end - slice.start;
    source.on('data', (chunk: Buffer) => {
      this.#left -= chunk.length;
      if (this.#left < 0) this.destroy(new Error('a piece is longer than it said'));
      else if (!this.push(chunk)) source.pause();
    });
    source.on('close', () => {
      this.#current = undefined;
      // The length was promised in a header: the client would wait for the rest.
      if (this.#left > 0) this.destroy(new Error(`a piece is ${this.#left} bytes short`));
      else if (!this.destroyed) void this.#openNext();
    });
  }
}

export function readable(source: PieceSource): Readable {
  return source instanceof Readable ? source : Readable.from(source, { objectMode: false });
}

function slicesOf(pieces: readonly Piece[], range: ByteRange): Slice[] {
  const slices: Slice[] = [];
  let offset = 0;
  for (const piece of pieces) {
    const start = Math.max(0, range.start - offset);
    const end = Math.min(piece.size, range.end - offset);
    if (start < end) slices.push({ piece, start, end });
    offset += piece.size;
  }
  return slices;
}
