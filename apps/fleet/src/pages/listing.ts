import type { FastifyReply } from 'fastify';
import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  button,
  type Column,
  card,
  decimal,
  empty,
  type PagerOptions,
  pager,
  type TableOptions,
  table,
} from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';
import type { Shown, Visit } from './visit.ts';

/** A column that can be sorted by a value of its rows. */
export interface ListColumn<Row> extends Column<Row> {
  /** The value that the column is sorted by; needs `sort`. */
  readonly by?: ((row: Row) => number | string) | undefined;
}

/** A column that is sorted by its text. */
export function texts<Row>(
  name: string,
  sort: string,
  by: (row: Row) => string,
  more: Partial<ListColumn<Row>> = {},
): ListColumn<Row> {
  return { name, sort, by, cell: by, ...more };
}

/** A column that is sorted by its number. */
export function numbers<Row>(
  name: string,
  sort: string,
  by: (row: Row) => number,
  more: Partial<ListColumn<Row>> = {},
): ListColumn<Row> {
  return { name, sort, by, numeric: true, cell: (row) => decimal(by(row)), ...more };
}

export interface ListingOptions<Row> extends Pick<TableOptions<Row>, 'rows' | 'key' | 'dense'> {
  readonly id: string;
  readonly title: string;
  /** Plural of the rows, for people who cannot see the table. @default the title */
  readonly plural?: string | undefined;
  /** Words behind the title; null for none. @default the number of rows */
  readonly about?: HtmlValue;
  readonly tools?: HtmlValue;
  readonly columns: readonly ListColumn<Row>[];
  /** Path of the page, and the parameters of its address: `sort`, `order`, `page`, `view`. */
  readonly path: string;
  readonly query: QueryTexts;
  readonly pageSize: number;
  /** Rows on all pages, where `rows` are one page in the right order. @default all are here */
  readonly total?: number | undefined;
  /** Words after the number of rows. @default none */
  readonly remark?: string | undefined;
  /** Links to the pages before and after. */
  readonly names?: PagerOptions['names'];
  /** Address of the next page. @default this one with the next number */
  readonly nextHref?: string | undefined;
  /** Column, by its `sort`, and direction while the address names none. */
  readonly order?: readonly [sort: string, descending: boolean] | undefined;
  /** A row that is marked, and whose page is shown. */
  readonly isMarked?: ((row: Row) => boolean) | undefined;
  /** A row that needs a look. @default none */
  readonly isOdd?: ((row: Row) => boolean) | undefined;
  /** True if all rows can be had on one page. @default false */
  readonly hasAll?: boolean | undefined;
  /** Title and text for a list without rows. @default title 'Nothing here' */
  readonly none?: string | undefined;
  readonly nothing: string;
}

/** Most rows of a page that shows all. */
const allMax = 5_000;

/** A list as a card: sorted by the heads of its columns, a page at a time. */
export function listing<Row>(options: ListingOptions<Row>): Html {
  const { id, title, tools, columns, query, path, isMarked, isOdd, hasAll, names } = options;
  const { rows, total, pageSize, page, sort, descending } = pageOf(options);
  const plural = options.plural ?? title.toLowerCase();
  const href = (changes: QueryTexts) => hrefOf(path, { ...query, page: undefined, ...changes });
  const first = (page - 1) * pageSize;
  const last = first + rows.length;
  const range = `${decimal(first + 1)} to ${decimal(last)} of ${decimal(total)}`;
  const pages = pager({
    label: `Pages of ${plural}`,
    words: `${range}${options.remark ?? ''}`,
    names,
    ...(page > 1 && { previous: href({ page: String(page - 1) }) }),
    ...(last < total && { next: options.nextHref ?? href({ page: String(page + 1) }) }),
  });
  const isPart = rows.length < total;
  const all =
    hasAll && isPart && button({ label: 'All', href: href({ view: 'all' }), little: true });
  const shown = table({
    label: `Table of ${plural}`,
    columns,
    rows,
    key: options.key,
    dense: options.dense ?? true,
    sorted: sort === undefined ? undefined : { by: sort, descending },
    sortHref: (name, down) => href({ sort: name, order: down ? 'desc' : 'asc' }),
    tone: (row) => (isMarked?.(row) ? 'here' : isOdd?.(row) ? 'bad' : undefined),
  });
  const body =
    rows.length === 0 ? nothing(options) : html`${shown}<div class="foot">${pages}${all}</div>`;
  const { about = decimal(total) } = options;
  return card({ id, title, about: about ?? undefined, tools, flush: true, body });
}

/** The rows of the page that an address asks for, and how they are sorted. */
function pageOf<Row>({ columns, rows, query, order, isMarked, ...options }: ListingOptions<Row>) {
  const pageSize = options.hasAll && query.view === 'all' ? allMax : options.pageSize;
  const known = columns.find(({ sort }) => sort !== undefined && sort === query.sort);
  const sort = known?.sort ?? order?.[0];
  const descending = known === undefined ? order?.[1] === true : query.order !== 'asc';
  const common = { pageSize, sort, descending };
  if (options.total !== undefined) {
    return { ...common, rows, total: options.total, page: pageIn(query) };
  }
  const by = columns.find((column) => column.sort === sort)?.by;
  const sorted = by === undefined ? rows : sortedBy(rows, by, descending);
  const last = Math.max(1, Math.ceil(sorted.length / pageSize));
  const place = query.page === undefined && isMarked ? sorted.findIndex(isMarked) : -1;
  const page = place >= 0 ? Math.floor(place / pageSize) + 1 : Math.min(last, pageIn(query));
  const shown = sorted.slice((page - 1) * pageSize, page * pageSize);
  return { ...common, rows: shown, total: sorted.length, page };
}

function nothing<Row>({ none = 'Nothing here', nothing: text, query, path }: ListingOptions<Row>) {
  const set = Object.keys(query).filter((name) => query[name]);
  // Each choice is set to empty, or the values in cookies would apply.
  const href = path.replace(/(?=#|$)/, `?${set.map((name) => `${name}=`).join('&')}`);
  const actions = set.length > 0 && button({ label: 'Show all', href });
  return empty({ title: none, text, actions });
}

function sortedBy<Row>(
  rows: readonly Row[],
  by: (row: Row) => number | string,
  isDescending: boolean,
): Row[] {
  const sign = isDescending ? -1 : 1;
  // Each value is computed once: to sort 10,000 rows takes 130,000 comparisons.
  const keyed = rows.map((row) => ({ row, value: by(row) }));
  keyed.sort((a, b) => sign * (a.value < b.value ? -1 : Number(a.value > b.value)));
  return keyed.map(({ row }) => row);
}

/** Text of any length; a long one scrolls, also by keys. */
export function prose(text: string): Html {
  return text.length > 200
    ? html`<span class="prose" tabindex="0">${text}</span>`
    : html`<span class="prose">${text}</span>`;
}

/** The number of the page in an address, from 1. */
export function pageIn({ page = '1' }: QueryTexts): number {
  return /^[1-9]\d{0,6}$/.test(page) ? Number(page) : 1;
}

/** Redirects to the last page if the address asks for a later one. */
export function toLastPage(
  visit: Visit,
  path: string,
  total: number,
  pageSize: number,
): FastifyReply | undefined {
  const last = Math.max(1, Math.ceil(total / pageSize));
  if (pageIn(visit.query) <= last) return undefined;
  return visit.goTo(hrefOf(path, { ...visit.query, page: String(last) }));
}

/** An address with the parameters that are set, before the fragment of the path if it has one. */
export function hrefOf(path: string, query: QueryTexts): string {
  const set = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = String(new URLSearchParams(set));
  return text === '' ? path : path.replace(/(?=#|$)/, `?${text}`);
}

/** A field that narrows the list of its page; other choices of the address stay. */
export interface Search {
  /** Parameter of the address. */
  readonly name: string;
  readonly label: string;
  /** Inputs beside it. @default none */
  readonly more?: HtmlValue;
}

export function searchForm(path: string, query: QueryTexts, { name, label, more }: Search): Html {
  return html`<form class="row" action="${path}" role="search">
<input class="input search" type="search" name="${name}" value="${query[name] ?? ''}"
 aria-label="${label}" placeholder="${label}">${more}</form>`;
}

export interface ListPageOptions<Row>
  extends Omit<ListingOptions<Row>, 'query' | 'tools'>,
    Pick<Shown, 'head'> {
  readonly visit: Visit;
  /** Title of the page. @default that of the list */
  readonly pageTitle?: string | undefined;
  /** @default that of the visit */
  readonly query?: QueryTexts | undefined;
  readonly search: Search;
  /** Text of a row in which the words are looked for. @default all rows are shown */
  readonly text?: ((row: Row) => string) | undefined;
  /** Buttons beside the field. @default none */
  readonly beside?: HtmlValue;
  /** Content above the list. @default none */
  readonly above?: Html | undefined;
}

/** A page with one list, which a field above it narrows. */
export function listPage<Row>(options: ListPageOptions<Row>): Shown {
  const { visit, title, pageTitle = title, path, head, search, text, beside, above } = options;
  const { query = visit.query } = options;
  const words = (query[search.name] ?? '').trim().toLowerCase();
  const isFound = (row: Row) => text?.(row).toLowerCase().includes(words);
  const rows = text && words !== '' ? options.rows.filter(isFound) : options.rows;
  const tools = html`${searchForm(path, query, search)}${beside}`;
  const list = listing({ ...options, query, rows, tools });
  const main = above === undefined ? list : html`<div class="stack">${above}${list}</div>`;
  return { title: pageTitle, place: path, head, main };
}
