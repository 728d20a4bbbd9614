import { type Html, html } from 'spillway-http';
import { actionForm, articleView } from './article-view.ts';
import type { ShownList } from './desk.ts';
import { wordsOf } from './duplicates.ts';
import type { Listing } from './order.ts';
import type { ReaderAccuracy } from './reader-store.ts';

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

const keys = [
  ['j', 'next'],
  ['k', 'previous'],
  ['1', 'to'],
  ['9', 'rate,'],
  ['0', 'is 10,'],
  ['+', 'is 9,'],
  ['-', 'is 2'],
  ['o', 'open'],
  ['w', 'why'],
  ['x', 'done'],
  ['u', 'take the last rating back'],
  ['/', 'search'],
] as const;

/** The live part of the reader: the list, and how good its scores have been. */
export function listView(list: ShownList, query: ListQuery): Html {
  const { places, madeAt, muted, isEmpty } = list;
  const shown = places.slice(0, query.count);
  const left = places.length - shown.length;
  const next = listAddress({ ...query, count: query.count + pageSize });
  return html`<h1 class="count">${countText(list, query)}</h1>
<ol class="articles">${shown.map((place) => articleView(place, madeAt))}</ol>
${shown.length === 0 && emptyView(query, isEmpty)}
${left > 0 && html`<p class="next"><a href="${next}">Show more (${left} left)</a></p>`}
<footer class="footer"><p>${accuracyText(list.accuracy)}</p>
<p>${muted > 0 ? `${muted} kept away by your rules · ` : ''}taste version ${list.tasteVersion}</p>
<p class="keys">Keys: ${keys.map(([key, what]) => html`<kbd>${key}</kbd> ${what} `)}</p>
</footer>`;
}

/** What stands where a list was that is not in memory any more. */
export function goneView(): Html {
  return html`<p class="empty">This list has rested for a while.
<a href="/reader">Show it again</a></p>`;
}

function countText({ places }: ShownList, { listing, words }: ListQuery): string {
  const count = places.length === 1 ? '1 story' : `${places.length} stories`;
  if (words.length > 0) return `${count} with “${words.join(' ')}”`;
  return { new: `${count} to read`, rated: `${count} rated`, all: `${count} in all` }[listing];
}

function emptyView({ listing, words }: ListQuery, isEmpty: boolean): Html {
  if (words.length > 0) {
    return html`<p class="empty">Nothing found. <a href="/reader">Back to the list</a></p>`;
  }
  if (isEmpty) {
    return html`<div class="empty"><p>Nothing here yet.
<a href="/reader/feeds">Add a feed</a>, or begin with sample articles to see how it learns.</p>
<p><button class="main" form="${actionForm}" formaction="/reader/samples">Add sample articles
</button></p></div>`;
  }
  if (listing === 'rated') {
    return html`<p class="empty">You have rated nothing yet. <a href="/reader">Begin</a></p>`;
  }
  return html`<p class="empty">All read. <a href="/reader/feeds">Add a feed</a>, or look
at <a href="/reader?list=all">everything</a>.</p>`;
}

/** Only first ratings count: a score of what was rated before has seen the answer. */
export function accuracyText(accuracy: ReaderAccuracy): string {
  const { count, bias, meanAbsoluteError, auc } = accuracy;
  if (count === 0 || bias === undefined || meanAbsoluteError === undefined) {
    return 'Accuracy: not known before your first ratings';
  }
  const first = count === 1 ? '1 first rating' : `${count} first ratings`;
  const error = `${meanAbsoluteError.toFixed(1)} points off on average`;
  const side = `${Math.abs(bias).toFixed(1)} too ${bias > 0 ? 'low' : 'high'}`;
  const isEven = Math.abs(bias) < 0.05;
  const parts = [`Accuracy over ${first}: ${error}`, isEven ? 'no bias' : side];
  if (auc !== undefined) parts.push(`AUC ${auc.toFixed(2)}`);
  return parts.join(', ');
}
