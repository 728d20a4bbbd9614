import { type Entry, entryMatch } from './action-filter.ts';

/** Which of the entries a query matches; throws for what is no query. */
export function matching(input: {
  readonly query: unknown;
  readonly entries: readonly Entry[];
}): boolean[] {
  return input.entries.map(entryMatch(input.query));
}
