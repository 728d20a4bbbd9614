import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import type { Database } from 'spillway-sql';
import { demand } from '../errors.ts';
import { isRecord, patterns } from '../protocol/patterns.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';

/** A book of openings, as the list of books has it. */
export interface BookEntry {
  /** Openings in all. */
  readonly total: number;
  /** Positions with white to move. */
  readonly white: number;
  readonly black: number;
  readonly min_depth: number | null;
  readonly max_depth: number | null;
  /** Base64 of the SHA-384 of its text: what workers compare their copy with. */
  readonly sri: string;
}

const booksMax = 10_000;

/** Checks a list of books by name; throws `REQUEST_REFUSED`. */
export function readBookList(list: unknown): ReadonlyMap<string, BookEntry> {
  demand(isRecord(list), 'the list of books must be an object');
  const entries = Object.entries(list);
  demand(entries.length <= booksMax, `a list of books has at most ${booksMax}`);
  return new Map(entries.map(([name, entry]) => [name, readBookEntry(name, entry)]));
}

function readBookEntry(name: string, entry: unknown): BookEntry {
  const { total, white, black, min_depth = null, max_depth = null, sri } = Object(entry);
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  const isDepth = (value: unknown) => value === null || isCount(value);
  demand(isBookName(name), `${name}: a book is called *.epd or *.pgn`);
  demand([total, white, black].every(isCount), `${name}: must count total, white and black`);
  demand(total === white + black, `${name}: total must be white + black`);
  demand(isDepth(min_depth) && isDepth(max_depth), `${name}: depths must be integers or null`);
  demand(/^[A-Za-z0-9+/]{64}$/.test(String(sri)), `${name}: sri must be 64 characters of base64`);
  return { total, white, black, min_depth, max_depth, sri };
}

export function isBookName(name: string): boolean {
  return patterns.book.test(name) && /^[\w][\w.+-]{0,199}$/.test(name);
}

/** A book of openings and its name; all openings of a PGN file are counted as white's. */
export interface Book extends BookEntry {
  readonly name: string;
}

/** Reads a book in constant memory; throws `REQUEST_REFUSED` if the file is not one. */
export async function readBook(path: string): Promise<Book> {
  const name = basename(path);
  demand(isBookName(name), `${name}: a book is called *.epd or *.pgn`);
  const hash = createHash('sha384');
  const isPgn = name.endsWith('.pgn');
  const counts = { total: 0, white: 0, black: 0 };
  const count = (line: string) => {
    if (isPgn ? line.startsWith('[Event ') : /^\S+ w /.test(line)) counts.white += 1;
    else if (!isPgn && /^\S+ b /.test(line)) counts.black += 1;
  };
  let rest = '';
  let isAfterReturn = false;
  for await (const chunk of createReadStream(path, { encoding: 'latin1' })) {
    // Workers hash the text with all its line ends as single line feeds.
    let text: string = isAfterReturn && chunk[0] === '\n' ? chunk.slice(1) : chunk;
    isAfterReturn = chunk.endsWith('\r');
    if (text.includes('\r')) text = text.replace(/\r\n?/g, '\n');
    hash.update(text, 'latin1');
    const lines = (rest + text).split('\n');
    rest = (lines.pop() as string).slice(0, lineMax);
    for (const line of lines) count(line);
  }
  count(rest);
  counts.total = counts.white + counts.black;
  demand(counts.total > 0, `${name}: has no openings`);
  return { name, ...counts, min_depth: null, max_depth: null, sri: hash.digest('base64') };
}

/** The rest of a longer line is not looked at. */
const lineMax = 65_536;

/**
 * The books that runs may use, by name. They are in memory, because each new task needs one; call
 * `reload` first.
 */
export class Books {
  readonly #database: Database<FleetSchema>;
  #books: ReadonlyMap<string, BookEntry> = new Map();

  constructor(database: Database<FleetSchema>) {
    this.#database = database;
  }

  get books(): ReadonlyMap<string, BookEntry> {
    return this.#books;
  }

  /** Checksum that a worker compares its copy with; undefined for an unknown book. */
  sri(name: string): string | undefined {
    return this.#books.get(name)?.sri;
  }

  /** Adds or replaces the book in this file. */
  async add(path: string): Promise<Book> {
    const { name, ...entry } = await readBook(path);
    await this.store(new Map([[name, entry]]));
    return { name, ...entry };
  }

  /** Durable when this resolves. */
  async store(books: ReadonlyMap<string, BookEntry>): Promise<void> {
    const { kysely } = this.#database;
    const queries = [...books].map(([name, book]) => {
      const entry = JSON.stringify(book);
      return kysely
        .insertInto('books')
        .values({ name, entry })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ entry }))
        .compile();
    });
    if (queries.length > 0) await this.#database.batch(queries);
    await this.reload();
  }

  /** Reads all books again, also those that other processes stored. */
  async reload(): Promise<void> {
    const rows = await this.#database.kysely.selectFrom('books').selectAll().execute();
    this.#books = new Map(rows.map(({ name, entry }) => [name, JSON.parse(entry) as BookEntry]));
  }
}
