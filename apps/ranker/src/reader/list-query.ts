import type { Listing } from './order.ts';
import { wordsOf } from './titles.ts';

/** What a user wants to see. */
export interface ListQuery {
  readonly listing: Listing;
  /** In small letters; none for all articles. */
  readonly words: readonly string[];
  /** How many places are shown. */
  readonly count: number;
}

/** How many places a page begins with and each "more" adds. */
export const pageSize = 40;
const countMax = 400;
const wordsMax = 8;
const wordLengthMax = 40;

const listings: readonly string[] = ['new', 'rated', 'all'] satisfies Listing[];

/** What the address asks for; anything odd in it counts as left out. */
export function listQuery(address: Readonly<Record<string, unknown>>): ListQuery {
  const { list, q, show } = address;
  const text = typeof q === 'string' ? q : '';
  const words = wordsOf(text.slice(0, 400)).map((word) => word.slice(0, wordLengthMax));
  const wanted = Math.ceil(Number(show) / pageSize) * pageSize;
  const count = wanted >= pageSize ? Math.min(wanted, countMax) : pageSize;
  const known = typeof list === 'string' && listings.includes(list);
  // What is searched for may well have been rated.
  const listing = known ? (list as Listing) : words.length > 0 ? 'all' : 'new';
  return { listing, words: words.slice(0, wordsMax), count };
}

/** The address that asks for this, the same for the same. */
export function listAddress({ listing, words, count }: Partial<ListQuery>): string {
  const fields = new URLSearchParams();
  if (listing !== undefined && listing !== 'new') fields.set('list', listing);
  if (words !== undefined && words.length > 0) fields.set('q', words.join(' '));
  if (count !== undefined && count !== pageSize) fields.set('show', String(count));
  return fields.size === 0 ? '/reader' : `/reader?${fields}`;
}
