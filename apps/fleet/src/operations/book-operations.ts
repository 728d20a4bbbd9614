import { type BookEntry, readBookList } from '../files/books.ts';
import type { Operation } from './desk.ts';

/** A book as operators see one. */
export interface ShownBook extends BookEntry {
  readonly name: string;
}

/** What can be done to the list of books. */
export const bookOperations: Readonly<Record<string, Operation>> = {
  'book-add': async ({ books }, input) => {
    input.only(['books']);
    const added = readBookList(input.value('books'));
    await books.store(added);
    return shown(added);
  },

  'book-list': async ({ books }) => shown(books.books),
};

function shown(books: ReadonlyMap<string, BookEntry>): ShownBook[] {
  return [...books].map(([name, entry]) => ({ name, ...entry }));
}
