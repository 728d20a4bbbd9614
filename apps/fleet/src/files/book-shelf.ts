import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from 'spillway-sql';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { type BookEntry, isBookName, readBookList } from './book-entry.ts';
import { type Book, readBook } from './book-text.ts';

/**
 * The books that runs may use, by name: in memory, because each new task asks for one. It knows
 * none before it is reloaded.
 */
export class BookShelf {
  readonly #database: Database<FleetSchema>;
  #books: ReadonlyMap<string, BookEntry> = new Map();

  constructor(database: Database<FleetSchema>) {
    this.#database = database;
  }

  get books(): ReadonlyMap<string, BookEntry> {
    return this.#books;
  }

  /** What a worker compares its copy with; undefined for a book that nobody knows. */
  sri(name: string): string | undefined {
    return this.#books.get(name)?.sri;
  }

  /** Adds or replaces the book in this file. */
  async add(path: string): Promise<Book> {
    const { name, ...entry } = await readBook(path);
    await this.store(new Map([[name, entry]]));
    return { name, ...entry };
  }

  /** Adds or replaces all books of a JSON list, as in `books.json`; tells how many. */
  async addList(path: string): Promise<number> {
    const books = readBookList(JSON.parse(await readFile(path, 'utf8')));
    await this.store(books);
    return books.size;
  }

  /** Adds or replaces all books that lie in a folder; tells how many. */
  async addFolder(folder: string): Promise<number> {
    const names = (await readdir(folder)).filter(isBookName);
    for (const name of names) await this.add(join(folder, name));
    return names.length;
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

  /** Takes up what others have stored. */
  async reload(): Promise<void> {
    const rows = await this.#database.kysely.selectFrom('books').selectAll().execute();
    this.#books = new Map(rows.map(({ name, entry }) => [name, JSON.parse(entry) as BookEntry]));
  }
}
