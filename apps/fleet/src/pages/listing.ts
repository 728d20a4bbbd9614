import { type Html, type HtmlValue, html } from 'spillway-http';
import { button, type Column, card, decimal, empty, pager, table } from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';

/** A column that can be sorted by a value of its rows. */
export interface ListColumn<Row> extends Column<Row> {
  /** The value that the column is sorted by; needs `sort`. */
  readonly by?: ((row: Row) => number | string) | undefined;
}

export interface ListingOptions<Row> {
  readonly id: string;
  readonly title: string;
  readonly columns: readonly ListColumn<Row>[];
  readonly rows: readonly Row[];
  readonly key: (row: Row) => string | number;
  /** Path of the page, and the parameters of its address: `sort`, `order`, `page`. */
  readonly path: string;
  readonly query: QueryTexts;
  readonly pageSize: number;
  /** Column, by its `sort`, and direction while the address names none. */
  readonly order?: readonly [sort: string, descending: boolean] | undefined;
  /** A row that is marked, and whose page is shown. */
  readonly isMarked?: ((row: Row) => boolean) | undefined;
  readonly tools?: HtmlValue;
  /** Text for a list without rows. */
  readonly nothing: string;
}

/** A list in memory as a card: sorted by the heads of its columns, a page at a time. */
export function listing<Row>(options: ListingOptions<Row>): Html {
  const { columns, rows, query, path, order, isMarked } = options;
  const known = columns.find(({ sort }) => sort !== undefined && sort === query.sort);
  const sort = known?.sort ?? order?.[0];
  const isDescending = known === undefined ? order?.[1] === true : query.order !== 'asc';
  const by = columns.find((column) => column.sort === sort)?.by;
  const sorted = by === undefined ? [...rows] : sortedBy(rows, by, isDescending);
  const size = options.pageSize;
  const last = Math.max(1, Math.ceil(sorted.length / size));
  const place = isMarked === undefined ? -1 : sorted.findIndex(isMarked);
  const wanted = place >= 0 && query.page === undefined ? Math.floor(place / size) + 1 : undefined;
  const page = wanted ?? Math.min(last, pageIn(query));
  const first = (page - 1) * size;
  const part = sorted.slice(first, first + size);
  const href = (changes: QueryTexts) => hrefOf(path, { ...query, page: undefined, ...changes });
  const body = table({
    label: `Table of ${options.title.toLowerCase()}`,
    dense: true,
    columns,
    rows: part,
    key: options.key,
    ...(sort !== undefined && { sorted: { by: sort, descending: isDescending } }),
    sortHref: (name, down) => href({ sort: name, order: down ? 'desc' : 'asc' }),
    tone: (row) => (isMarked?.(row) === true ? 'here' : undefined),
  });
  const range = `${decimal(first + 1)} to ${decimal(first + part.length)}`;
  const pages = pager({
    label: `Pages of ${options.title.toLowerCase()}`,
    words: `${range} of ${decimal(sorted.length)}`,
    ...(page > 1 && { previous: href({ page: String(page - 1) }) }),
    ...(page < last && { next: href({ page: String(page + 1) }) }),
  });
  const isFiltered = Object.values(query).some((value) => value !== undefined && value !== '');
  const nothing = empty({
    title: 'Nothing here',
    text: options.nothing,
    actions: isFiltered && button({ label: 'Show all', href: path }),
  });
  return card({
    id: options.id,
    title: options.title,
    about: decimal(sorted.length),
    tools: options.tools,
    flush: true,
    body: part.length === 0 ? nothing : html`${body}<div class="foot">${pages}</div>`,
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

/** An address with the parameters that are set. */
export function hrefOf(path: string, query: QueryTexts): string {
  const set = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = String(new URLSearchParams(set));
  return text === '' ? path : `${path}?${text}`;
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
