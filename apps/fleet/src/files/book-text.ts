import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { fleetError } from '../errors.ts';
import { type BookEntry, isBookName } from './book-entry.ts';

/** A book of openings with what the list says of it; of PGN, openings are counted as white's. */
export interface Book extends BookEntry {
  readonly name: string;
}

/** Reads a book in constant memory; throws `REQUEST_INVALID` for what is not one. */
export async function readBook(path: string): Promise<Book> {
  const name = basename(path);
  if (!isBookName(name)) {
    throw fleetError('REQUEST_INVALID', `${name}: a book is called *.epd or *.pgn`);
  }
  const hash = createHash('sha384');
  const counter = new OpeningCounter(name.endsWith('.pgn'));
  let isAfterReturn = false;
  for await (const chunk of createReadStream(path, { encoding: 'latin1' })) {
    // Workers hash the text with all its line ends as single line feeds.
    let text: string = isAfterReturn && chunk[0] === '\n' ? chunk.slice(1) : chunk;
    isAfterReturn = chunk.endsWith('\r');
    if (text.includes('\r')) text = text.replace(/\r\n?/g, '\n');
    hash.update(text, 'latin1');
    counter.take(text);
  }
  const counts = counter.end();
  if (counts.total === 0) throw fleetError('REQUEST_INVALID', `${name}: has no openings`);
  return { name, ...counts, min_depth: null, max_depth: null, sri: hash.digest('base64') };
}

const lineMax = 65_536;

class OpeningCounter {
  readonly #isPgn: boolean;
  #line = '';
  #white = 0;
  #black = 0;

  constructor(isPgn: boolean) {
    this.#isPgn = isPgn;
  }

  take(text: string): void {
    const lines = (this.#line + text).split('\n');
    this.#line = (lines.pop() as string).slice(0, lineMax);
    for (const line of lines) this.#count(line);
  }

  end(): Pick<BookEntry, 'total' | 'white' | 'black'> {
    this.#count(this.#line);
    this.#line = '';
    const [white, black] = [this.#white, this.#black];
    return { total: white + black, white, black };
  }

  #count(line: string): void {
    if (this.#isPgn) {
      if (line.startsWith('[Event ')) this.#white += 1;
      return;
    }
    const side = /^\S+ ([wb]) /.exec(line)?.[1];
    if (side === 'w') this.#white += 1;
    if (side === 'b') this.#black += 1;
  }
}
