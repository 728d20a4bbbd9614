import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  button,
  type Column,
  card,
  decimal,
  type EmptyOptions,
  empty,
  type PagerOptions,
  pager,
  type TableOptions,
  table,
} from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';

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

export interface PageCardOptions<Row> extends Omit<TableOptions<Row>, 'label'> {
  readonly id: string;
  readonly title: string;
  /** Plural of the rows, for people who cannot see the table. @default the title */
  readonly plural?: string | undefined;
  readonly about?: HtmlValue;
  readonly tools?: HtmlValue;
  /** Page that the rows are, from 1, of pages with so many rows. */
  readonly page: number;
  readonly pageSize: number;
  /** Rows on all pages. */
  readonly total: number;
  /** Words after the total. @default none */
  readonly remark?: string | undefined;
  /** Address of another page. */
  readonly pageHref: (page: number) => string;
  readonly names?: PagerOptions['names'];
  /** Address of a page with all rows. @default none */
  readonly allHref?: string | undefined;
  /** Shown if there are no rows. */
  readonly nothing: EmptyOptions;
}

/** One page of a table as a card, with the way to the other pages. */
export function pageCard<Row>(options: PageCardOptions<Row>): Html {
  const { id, title, about, tools, rows, page, pageSize, total, pageHref, names } = options;
  const plural = options.plural ?? title.toLowerCase();
  const first = (page - 1) * pageSize;
  const last = first + rows.length;
  const range = `${decimal(first + 1)} to ${decimal(last)} of ${decimal(total)}`;
  const pages = pager({
    label: `Pages of ${plural}`,
    words: `${range}${options.remark ?? ''}`,
    names,
    ...(page > 1 && { previous: pageHref(page - 1) }),
    ...(last < total && { next: pageHref(page + 1) }),
  });
  const body =
    rows.length === 0
      ? empty(options.nothing)
      : html`${table({ ...options, label: `Table of ${plural}` })}<div class="foot">${pages}${
          last - first < total &&
          options.allHref !== undefined &&
          button({ label: 'All', href: options.allHref, little: true })
        }</div>`;
  return card({ id, title, about, tools, flush: true, body });
}

export interface ListingOptions<Row>
  extends Pick<
    PageCardOptions<Row>,
    'id' | 'title' | 'about' | 'rows' | 'key' | 'pageSize' | 'tools' | 'remark'
  > {
  readonly columns: readonly ListColumn<Row>[];
  /** Path of the page, and the parameters of its address: `sort`, `order`, `page`. */
  readonly path: string;
  readonly query: QueryTexts;
  /** Column, by its `sort`, and direction while the address names none. */
  readonly order?: readonly [sort: string, descending: boolean] | undefined;
  /** A row that is marked, and whose page is shown. */
  readonly isMarked?: ((row: Row) => boolean) | undefined;
  /** A row that needs a look. @default none */
  readonly isOdd?: ((row: Row) => boolean) | undefined;
  /** True if all rows can be had on one page. @default false */
  readonly hasAll?: boolean | undefined;
  /** Title of a list without rows. @default 'Nothing here' */
  readonly none?: string | undefined;
  /** Text for a list without rows. */
  readonly nothing: string;
}

/** Most rows of a page that shows all. */
const allMax = 5_000;

/** A list in memory as a card: sorted by the heads of its columns, a page at a time. */
export function listing<Row>(options: ListingOptions<Row>): Html {
  const { columns, rows, query, path, order, isMarked, isOdd } = options;
  const pageSize = options.hasAll && query.view === 'all' ? allMax : options.pageSize;
  const known = columns.find(({ sort }) => sort !== undefined && sort === query.sort);
  const sort = known?.sort ?? order?.[0];
  const descending = known === undefined ? order?.[1] === true : query.order !== 'asc';
  const by = columns.find((column) => column.sort === sort)?.by;
  const sorted = by === undefined ? rows : sortedBy(rows, by, descending);
  const last = Math.max(1, Math.ceil(sorted.length / pageSize));
  const place = query.page === undefined && isMarked ? sorted.findIndex(isMarked) : -1;
  const page = place >= 0 ? Math.floor(place / pageSize) + 1 : Math.min(last, pageIn(query));
  const href = (changes: QueryTexts) => hrefOf(path, { ...query, page: undefined, ...changes });
  const set = Object.keys(query).filter((name) => query[name]);
  // Each choice is emptied, or a browser would be given the ones it keeps.
  const all = path.replace(/(?=#|$)/, `?${set.map((name) => `${name}=`).join('&')}`);
  return pageCard({
    ...options,
    about: options.about ?? decimal(sorted.length),
    dense: true,
    rows: sorted.slice((page - 1) * pageSize, page * pageSize),
    pageSize,
    allHref: options.hasAll ? href({ view: 'all' }) : undefined,
    sorted: sort === undefined ? undefined : { by: sort, descending },
    sortHref: (name, down) => href({ sort: name, order: down ? 'desc' : 'asc' }),
    tone: (row) => (isMarked?.(row) ? 'here' : isOdd?.(row) ? 'bad' : undefined),
    page,
    total: sorted.length,
    pageHref: (number) => href({ page: String(number) }),
    nothing: {
      title: options.none ?? 'Nothing here',
      text: options.nothing,
      actions: set.length > 0 && button({ label: 'Show all', href: all }),
    },
  });
}

function sortedBy<Row>(
  rows: readonly Row[],
  by: (row: Row) => number | string,
  isDescending: boolean,
): Row[] {
  const sign = isDescending ? -1 : 1;
  // Each value is read once: a list of 10,000 rows is compared 130,000 times.
  const keyed = rows.map((row) => ({ row, value: by(row) }));
  keyed.sort((a, b) => sign * (a.value < b.value ? -1 : Number(a.value > b.value)));
  return keyed.map(({ row }) => row);
}

/** The number of the page in an address, from 1. */
export function pageIn({ page = '1' }: QueryTexts): number {
  return /^[1-9]\d{0,6}$/.test(page) ? Number(page) : 1;
}

/** An address with the parameters that are set, before the fragment of the path if it has one. */
export function hrefOf(path: string, query: QueryTexts): string {
  const set = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = String(new URLSearchParams(set));
  return text === '' ? path : path.replace(/(?=#|$)/, `?${text}`);
}

/** A field that filters the list of its page; other choices of the address stay. */
export function searchForm(options: {
  readonly path: string;
  readonly query: QueryTexts;
  readonly name: string;
  readonly label: string;
  readonly more?: HtmlValue;
}): Html {
  const { path, query, name, label, more } = options;
  return html`<form class="row" action="${path}" role="search">
<input class="input search" type="search" name="${name}" value="${query[name] ?? ''}"
 aria-label="${label}" placeholder="${label}">${more}</form>`;
}
