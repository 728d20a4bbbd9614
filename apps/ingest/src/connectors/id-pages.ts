import type { HarvestSource } from 'spillway';
import { checkInteger } from 'spillway/internal';
import type { TradePosition } from './connector.ts';
import type { TradePage } from './trade-page.ts';

/** Ids from `from` up to, but not including, `to`. */
export interface IdRange {
  readonly from: number;
  readonly to: number;
}

export interface IdPagesOptions extends IdRange {
  readonly name: string;
  readonly pageSize: number;
  /** The trades with these ids, as far as there are any. */
  readonly fetch: (range: IdRange, signal: AbortSignal) => Promise<TradePage>;
}

/** Ids cut in pages, all known at once; ids that the exchange does not have become gaps. */
export function idPages(options: IdPagesOptions): HarvestSource<TradePage, TradePosition> {
  const { name, from, to, pageSize } = options;
  checkInteger('from', from, 0);
  checkInteger('to', to, from);
  return {
    name,
    from,
    pageAt(position) {
      const at = position as number;
      return at < to ? { from: at, to: Math.min(at + pageSize, to) } : undefined;
    },
    pagesLeft: (position) => Math.max(0, Math.ceil((to - (position as number)) / pageSize)),
    async fetch(page, signal) {
      const range = { from: page.from as number, to: page.to as number };
      const trades = await options.fetch(range, signal);
      const rows = trades.ids.length === 0 ? [] : [trades];
      return { rows, missing: missingIds(trades.ids, range) };
    },
  };
}

function missingIds(ids: Float64Array, range: IdRange): readonly IdRange[] {
  if (ids.length === range.to - range.from) return [];
  const missing: IdRange[] = [];
  let next = range.from;
  for (const id of [...ids, range.to]) {
    if (id > next) missing.push({ from: next, to: id });
    next = id + 1;
  }
  return missing;
}

/** Trades near an id, and the range that they show to be complete. */
export interface Sighting {
  readonly trades: TradePage;
  /** Between these ids there are no trades but those. */
  readonly seen: IdRange;
}

/** The first id whose trade is at that time or later, by halving the range; its end if none is. */
export async function firstIdAt(
  range: IdRange,
  timeUs: bigint,
  look: (id: number) => Promise<Sighting>,
): Promise<number> {
  let { from, to } = range;
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const { trades, seen } = await look(middle);
    const place = trades.timesUs.findIndex((at) => at >= timeUs);
    if (place > 0) return trades.ids[place] as number;
    // Either all of them are late enough, and the one wanted is not after them, or none is.
    if (place === 0) to = Math.min(middle, Math.max(from, seen.from));
    else from = Math.min(to, Math.max(middle + 1, seen.to));
  }
  return to;
}
