import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';

/** A book of openings, as the list of books has it. */
export interface BookEntry {
  /** Openings in all. */
  readonly total: number;
  /** Those with white to move. */
  readonly white: number;
  readonly black: number;
  readonly min_depth: number | null;
  readonly max_depth: number | null;
  /** Base64 of the SHA-384 of its text: what workers compare their copy with. */
  readonly sri: string;
}

/** A list with more is not one of books. */
const booksMax = 10_000;

/** Checks a list of books by name; throws `REQUEST_INVALID`. */
export function readBookList(list: unknown): ReadonlyMap<string, BookEntry> {
  const isObject = typeof list === 'object' && list !== null && !Array.isArray(list);
  demand(isObject, 'the list of books must be an object');
  const entries = Object.entries(list as object);
  demand(entries.length <= booksMax, `a list of books has at most ${booksMax}`);
  return new Map(entries.map(([name, entry]) => [name, readBook(name, entry)]));
}

function readBook(name: string, entry: unknown): BookEntry {
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

function demand(holds: boolean, complaint: string): void {
  if (!holds) throw fleetError('REQUEST_INVALID', complaint);
}
