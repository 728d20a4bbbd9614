import { type Html, html, keyed } from 'spillway-http';
import type { ReaderArticle } from '../ranking/reader.ts';
import type { ReaderFeed } from '../storage/feeds.ts';
import type { Accuracy } from '../storage/ratings.ts';
import { wordsOf } from './duplicates.ts';
import { actionForm } from './frame.ts';
import type { Listing, Place, Sorting } from './order.ts';
import type { ShownList } from './reader-lists.ts';

/** A user's choice of list, order, feed and words. */
export interface ListQuery {
  readonly listing: Listing;
  readonly sorting: Sorting;
  /** The feed whose articles are shown; empty for all feeds. */
  readonly feed: string;
  /** In small letters; none for all articles. */
  readonly words: readonly string[];
  /** The number of places that are shown. */
  readonly count: number;
  /** Only articles older than this time, in milliseconds since 1970; 0 for all. */
  readonly before: number;
}

/** The number of places that a page begins with and each "more" adds. */
export const pageSize = 40;
const countMax = 2_000;
const wordsMax = 8;
const wordLengthMax = 40;
/** Characters that people read in a minute. */
const charactersPerMinute = 1_200;

const listings: Readonly<Record<Listing, string>> = {
  new: 'To read',
  starred: 'Starred',
  later: 'Later',
  rated: 'Rated',
  all: 'All',
};

/** Reads a query from the address; anything odd in it counts as left out. */
export function listQuery(address: Readonly<Record<string, unknown>>): ListQuery {
  const { list, q, show, feed, sort, before } = address;
  const text = typeof q === 'string' ? q : '';
  const words = wordsOf(text.slice(0, 400)).map((word) => word.slice(0, wordLengthMax));
  const wanted = Math.ceil(Number(show) / pageSize) * pageSize;
  const count = wanted >= pageSize ? Math.min(wanted, countMax) : pageSize;
  const isKnown = typeof list === 'string' && Object.hasOwn(listings, list);
  // An article that is searched for may well have been rated.
  const listing = isKnown ? (list as Listing) : words.length > 0 ? 'all' : 'new';
  return {
    listing,
    sorting: sort === 'newest' ? 'newest' : 'best',
    feed: typeof feed === 'string' && /^[\w-]{1,64}$/.test(feed) ? feed : '',
    words: words.slice(0, wordsMax),
    count,
    before: typeof before === 'string' && /^\d{1,15}$/.test(before) ? Number(before) : 0,
  };
}

/** The address of a list; equal queries have equal addresses. */
export function listAddress(query: Partial<ListQuery>, open = ''): string {
  const { listing, words, count, feed = '', sorting, before = 0 } = query;
  const fields = new URLSearchParams();
  if (listing !== undefined && listing !== 'new') fields.set('list', listing);
  if (words !== undefined && words.length > 0) fields.set('q', words.join(' '));
  if (feed !== '') fields.set('feed', feed);
  if (sorting === 'newest') fields.set('sort', 'newest');
  if (before > 0) fields.set('before', String(before));
  if (count !== undefined && count !== pageSize) fields.set('show', String(count));
  if (open !== '') fields.set('open', open);
  return fields.size === 0 ? '/reader' : `/reader?${fields}`;
}

/** The live part of the reader: feeds with what is unread, and the list. */
export function listView(list: ShownList, query: ListQuery): Html {
  const { places, isEmpty } = list;
  const shown = places.slice(0, query.count);
  const left = places.length - shown.length;
  const next = listAddress({ ...query, count: query.count + pageSize });
  const name = listName(list, query);
  return html`${sidebar(list, query)}
<section class="pane list" aria-label="${name}">
<div class="list-head"><div><h1>${name}</h1>
<span class="quiet small">${countText(list, query)}</span></div>
<a class="button little narrow-only" href="${listAddress(query)}#feeds">Feeds</a>
<div class="group" role="group" aria-label="Order">
${sortLink(query, 'best')}${sortLink(query, 'newest')}</div>
${
  query.listing === 'new' &&
  query.words.length === 0 &&
  places.length > 0 &&
  html`<button class="button little bare all-read" form="${actionForm}" name="feed"
 value="${query.feed}" formaction="/articles/read-all" title="Can be taken back">Mark all read
</button>`
}</div>
<ol class="items">${shown.map((place) => itemView(place, query, list))}</ol>
${shown.length === 0 && emptyView(query, isEmpty)}
${left > 0 && html`<p class="next"><a href="${next}">Show more (${left} left)</a></p>`}
${left === 0 && list.oldest !== undefined && olderLink(query, list.oldest)}
</section>`;
}

/** Leads to the articles that are older than all of a list. */
function olderLink(query: ListQuery, before: number): Html {
  const older = listAddress({ ...query, before, count: pageSize });
  return html`<p class="next"><a href="${older}">Older articles</a></p>`;
}

/** The text instead of a list that is no longer in memory. */
export function goneView(): Html {
  return html`<section class="pane list"><div class="empty"><p>This list has rested for a while.
<a href="/reader">Show it again</a></p></div></section>`;
}

function listName({ feeds }: ShownList, { feed, listing, words }: ListQuery): string {
  if (words.length > 0) return `“${words.join(' ')}”`;
  const found = feeds.find(({ id }) => id === feed);
  return found === undefined ? listings[listing] : found.title || found.url;
}

/** The orders of a list, by name. */
const sortings = {
  best: ['Best', 'By score, less with age, and varied: feeds and topics take turns'],
  newest: ['Newest', 'By time alone'],
} satisfies Record<Sorting, readonly [name: string, title: string]>;

function sortLink(query: ListQuery, sorting: Sorting): Html {
  const isPressed = query.sorting === sorting ? 'true' : undefined;
  const [name, title] = sortings[sorting];
  return html`<a class="button little" aria-current="${isPressed}" title="${title}"
 href="${listAddress({ ...query, sorting })}">${name}</a>`;
}

function sidebar({ feeds, counts, accuracy, muted }: ShownList, query: ListQuery): Html {
  const isPlain = query.feed === '' && query.words.length === 0;
  const entries = Object.entries(listings).map(([listing, name]) => {
    const isHere = isPlain && query.listing === listing;
    return html`<li><a href="${listAddress({ listing: listing as Listing })}"
 aria-current="${isHere ? 'page' : undefined}">${name}
<span class="count">${counts[listing as Listing]}</span></a></li>`;
  });
  const folders = [...Map.groupBy(feeds, ({ folder }) => folder)].sort(([one], [other]) =>
    one === '' ? 1 : other === '' ? -1 : one.localeCompare(other),
  );
  return html`<nav class="pane feeds" id="feeds" aria-label="Lists and feeds"><ul>${entries}</ul>
${folders.map(([folder, own]) => folderView(folder || 'Feeds', own, query.feed))}
<div class="feeds-end"><a class="button little" href="/reader/feeds">Add a feed</a>
<a class="button little bare" href="/reader/rules">Rules</a>
<p class="quiet tiny">${accuracyText(accuracy)}${muted > 0 && ` ${muted} kept away by your rules.`}
</p></div></nav>`;
}

function folderView(name: string, feeds: readonly ReaderFeed[], here: string): Html {
  const unread = feeds.reduce((sum, feed) => sum + feed.unread, 0);
  const links = feeds.map((feed) => {
    const isHere = feed.id === here ? 'page' : undefined;
    return html`<li><a href="${listAddress({ feed: feed.id })}" aria-current="${isHere}">
${feed.title || feed.url}${
  feed.failure !== undefined &&
  html` <span class="state" data-state="warn" title="${feed.failure}">
<span class="hidden">the last fetch failed: ${feed.failure}</span></span>`
}<span class="count">${feed.unread}</span></a></li>`;
  });
  return html`<details open><summary>${name}<span class="count">${unread}</span></summary>
<ul>${links}</ul></details>`;
}

/** One place of the list. */
function itemView(place: Place, query: ListQuery, { madeAt, feeds }: ShownList): Html {
  const { article, others } = place;
  const { id, source, publishedAt, length, isRead, vote } = article;
  const minutes = Math.max(1, Math.round(length / charactersPerMinute));
  const feed = feeds.find((one) => one.id === article.feedId);
  const from = feed?.title || source || 'a text of yours';
  const facts = [from, ageText(madeAt - publishedAt), `${minutes} min`];
  const [way, why] = reasonOf(place);
  return keyed(
    id,
    html`<li id="a-${id}" data-article="${id}"><a
 class="item${(isRead || vote !== undefined) && ' read'}"
 href="${listAddress(query, id)}#article">
${scoreView(article)}
<span class="story"><strong>${article.title}</strong>
<span class="from">${facts.join(' · ')}${vote !== undefined && ` · you gave ${vote}`}</span>
<span class="why" data-way="${way}">${why}${others.length > 0 && `; ${moreText(others.length)}`}
</span></span></a></li>`,
  );
}

function moreText(count: number): string {
  return count === 1 ? '1 similar article' : `${count} similar articles`;
}

function reasonOf({ article, isExploration, boost }: Place): readonly [way: string, why: string] {
  if (isExploration) return ['ask', 'unsure: your rating would teach most'];
  if (boost !== 0)
    return [boost > 0 ? 'up' : 'down', `your rules: ${boost > 0 ? '+' : ''}${boost}`];
  const { unavailable, score } = article;
  if (unavailable !== undefined) return ['flat', `no text: ${unavailable}`];
  if (score === undefined) return ['flat', 'not scored yet'];
  if (score >= 6.5) return ['up', 'like what you rate high'];
  return score <= 4.5 ? ['down', 'like what you rate low'] : ['flat', 'nothing stands out'];
}

/** The score in its box, from pale to full. */
export function scoreView({
  score,
  uncertainty,
}: Pick<ReaderArticle, 'score' | 'uncertainty'>): Html {
  if (score === undefined) {
    return html`<span class="score" title="Not scored yet">
<span class="hidden">Not scored yet</span><span aria-hidden="true">–</span></span>`;
  }
  const band = Math.min(5, Math.max(1, Math.ceil((score - 2) / 1.5)));
  return html`<span class="score" data-band="${band}" data-score="${Math.round(score)}">
<span class="hidden">Expected score </span>${score.toFixed(1)}${
    uncertainty !== undefined && html`<small>± ${uncertainty.toFixed(1)}</small>`
  }</span>`;
}

function countText({ places }: ShownList, { words, sorting }: ListQuery): string {
  const { length } = places;
  if (words.length === 0) return `${length}, ${sorting} first`;
  return length === 1 ? '1 story found' : `${length} stories found`;
}

function emptyView({ listing, words }: ListQuery, isEmpty: boolean): Html {
  if (words.length > 0) {
    return emptyText(html`Nothing found. <a href="/reader">Back to the list</a>`);
  }
  if (isEmpty) {
    return html`<div class="empty"><p>Nothing here yet.
<a href="/reader/feeds">Add a feed</a>, or begin with sample articles to see how it learns.</p>
<p><button class="button main" form="${actionForm}"
 formaction="/articles/samples">Add sample articles
</button></p></div>`;
  }
  if (listing === 'rated') {
    return emptyText(html`You have rated nothing yet. <a href="/reader">Begin</a>`);
  }
  return emptyText(html`All read. <a href="/reader/feeds">Add a feed</a>, or look
at <a href="/reader?list=all">everything</a>.`);
}

function emptyText(text: Html): Html {
  return html`<div class="empty"><p>${text}</p></div>`;
}

/** Only first ratings count: the score of a rated article was made from its rating. */
export function accuracyText({ count, meanAbsoluteDelta }: Accuracy): string {
  if (count === 0 || meanAbsoluteDelta === undefined) {
    return 'Knows nothing of your taste yet: rate three articles.';
  }
  const first = count === 1 ? '1 rating' : `${count} ratings`;
  return `Knows your taste from ${first}. On average ${meanAbsoluteDelta.toFixed(1)} points off.`;
}

const minuteMs = 60_000;

/** A duration in words, such as `5 min ago`. */
export function ageText(ms: number): string {
  const minutes = Math.floor(ms / minuteMs);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  const days = Math.floor(hours / 24);
  return days === 1 ? 'yesterday' : `${days} days ago`;
}
