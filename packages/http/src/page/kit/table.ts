import { type Html, type HtmlValue, html, keyed } from '../html.ts';
import { classes } from './parts.ts';

/** One column of a table of `Row`s. */
export interface Column<Row> {
  /** Heading of the column, with the unit. */
  readonly name: string;
  /** Content of a cell. */
  readonly cell: (row: Row) => HtmlValue;
  /** True for numbers, aligned to the right in figures of equal width. @default false */
  readonly numeric?: boolean | undefined;
  /** Name of the sort order in the address. @default the table cannot be sorted by it */
  readonly sort?: string | undefined;
  /** True if the cell is the heading of its row. @default true for the first column */
  readonly heads?: boolean | undefined;
  /**
   * Place on a phone, where a row is a block: in half a line with its name, in a whole line without
   * or with its name, at the right end of the first line, or left out. @default 'half'
   */
  readonly fold?: 'half' | 'whole' | 'named' | 'corner' | 'away' | undefined;
}

export interface TableOptions<Row> {
  /** Name of the table, for screen readers. */
  readonly label: string;
  /** Columns from left to right. */
  readonly columns: readonly Column<Row>[];
  /** One item for each row. */
  readonly rows: readonly Row[];
  /** Key of a row, by which a live page finds it when the table changes. @default none */
  readonly key?: ((row: Row) => string | number) | undefined;
  /** Order that the rows are in. @default none */
  readonly sorted?: { readonly by: string; readonly descending: boolean } | undefined;
  /** Makes the address that sorts by a column; without it no heading is a link. */
  readonly sortHref?: ((by: string, descending: boolean) => string) | undefined;
  /** True for rows of small height, in long tables. @default false */
  readonly dense?: boolean | undefined;
  /** Emphasis of a row that needs attention. @default none */
  readonly tone?: ((row: Row) => 'bad' | 'here' | undefined) | undefined;
}

/**
 * A table for comparing: names left, numbers right, sorted by links in its headings. On a phone its
 * rows become blocks.
 */
export function table<Row>(options: TableOptions<Row>): Html {
  const { label, columns, rows, key, tone, dense = false } = options;
  const kind = classes('table folds', { dense });
  const hasCorner = columns.some(({ fold }) => fold === 'corner');
  const places = columns.map((column, at) => placeOf(column, at, hasCorner));
  const body = rows.map((row) => {
    const cells = places.map((place) => cell(place, row));
    const found = tone?.(row);
    const name = found === 'bad' ? 'odd' : found;
    const line = html`<tr role="row" class="${name}">${cells}</tr>`;
    return key === undefined ? line : keyed(key(row), line);
  });
  // The roles are explicit: a browser drops them from a row that is styled as a block.
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}">
<table class="${kind}" role="table" aria-label="${label}">
<thead role="rowgroup"><tr role="row">${columns.map((column) => head(column, options))}</tr></thead>
<tbody role="rowgroup">${body}</tbody>
</table></div>`;
}

function head<Row>(column: Column<Row>, { sorted, sortHref }: TableOptions<Row>): Html {
  const { name, numeric, sort } = column;
  const isSorted = sort !== undefined && sorted?.by === sort;
  const order = isSorted && (sorted?.descending === true ? 'descending' : 'ascending');
  // The first click sorts numbers from the largest and names from A; a second one reverses it.
  const descending = isSorted ? sorted?.descending !== true : numeric === true;
  const words =
    sort === undefined || sortHref === undefined
      ? name
      : html`<a class="sort" href="${sortHref(sort, descending)}">${name}</a>`;
  return html`<th role="columnheader" scope="col" class="${numeric === true && 'num'}"
 aria-sort="${order}">${words}</th>`;
}

/** A column with what its cells have in common, computed once for thousands of rows. */
interface CellPlace<Row> {
  readonly cell: Column<Row>['cell'];
  readonly heads: boolean;
  readonly classList: string | undefined;
  /** Name that is shown with the cell on a phone. */
  readonly shown: string | undefined;
}

/** With a corner, another cell is at the right end of the row's first line on a phone. */
function placeOf<Row>(column: Column<Row>, at: number, hasCorner: boolean): CellPlace<Row> {
  const { name, numeric = false, heads = at === 0, cell } = column;
  const headFold = hasCorner ? 'left' : 'whole';
  const fold = column.fold ?? (heads ? headFold : 'half');
  const classList = classes(undefined, {
    num: numeric,
    whole: fold === 'whole' || fold === 'named',
    corner: fold === 'corner',
    'fold-away': fold === 'away',
  });
  const shown = fold === 'half' || fold === 'named' ? name : undefined;
  return { cell, heads, classList, shown };
}

function cell<Row>({ cell: contentOf, heads, classList, shown }: CellPlace<Row>, row: Row): Html {
  const content = contentOf(row);
  if (heads) {
    return html`<th role="rowheader" scope="row" class="${classList}"
 data-name="${shown}">${content}</th>`;
  }
  return html`<td role="cell" class="${classList}"
 data-name="${shown}"><span>${content}</span></td>`;
}

export interface PagerOptions {
  /** Name for screen readers: "Pages of tasks". */
  readonly label: string;
  /** Text of the shown range: "1 to 12 of 214". */
  readonly words: string;
  /** Address of the page before. @default none: this is the first */
  readonly previous?: string | undefined;
  /** Address of the page after. @default none: this is the last */
  readonly next?: string | undefined;
  /** Labels of the two links. @default ['Previous', 'Next'] */
  readonly names?: readonly [previous: string, next: string] | undefined;
}

/** Links through a list that is shown a page at a time. */
export function pager(options: PagerOptions): Html {
  const { label, words, previous, next, names = ['Previous', 'Next'] } = options;
  return html`<nav class="pager" aria-label="${label}"><span>${words}</span>
${step(names[0], previous)}${step(names[1], next)}</nav>`;
}

function step(name: string, href: string | undefined): Html {
  const isLast = href === undefined;
  return html`<a class="button little" href="${href}" role="${isLast && 'link'}"
 aria-disabled="${isLast && 'true'}">${name}</a>`;
}
