import type { HarvestSource } from 'spillway';
import { type Connector, type Cursor, idOf, type TradePosition } from '../connectors/connector.ts';
import type { TradePage } from '../connectors/page.ts';
import type { Feed } from './feed.ts';

/** Age over the newest trade that a late one may have, where pages are by time, in µs. */
const backUs = 1_000_000;
const seenMax = 2_000;

/** A connector that reads pages from the buffer of a feed: only trades that follow a position. */
export function liveConnector(connector: Connector, feed: Feed): Connector {
  const { pageSize, start } = connector;
  return {
    ...connector,
    latest: async (product) => feed.newest(product),
    source(product, { from = start }, name = `${connector.name}/${product}`) {
      const source: HarvestSource<TradePage, TradePosition> = {
        name,
        from,
        pageAt(position) {
          const id = idOf(position);
          const count = feed.runAt(product, id, pageSize);
          if (count === 0) return undefined;
          return { from: position, to: typeof position === 'number' ? id + count : undefined };
        },
        async fetch({ from: position, to }) {
          const id = idOf(position);
          const end = typeof to === 'number' ? to : id + feed.runAt(product, id, pageSize);
          const page = feed.page(product, id, end);
          const rows = page.ids.length === 0 ? [] : [page];
          if (typeof position === 'number') {
            const missing = page.ids.length === end - id ? [] : [{ from: id, to: end }];
            return missing.length === 0 ? { rows } : { rows: [], missing };
          }
          const next = rows.length === 0 ? position : cursorAfter(position, page);
          return { rows, next, isEnd: feed.runAt(product, idOf(next), 1) === 0 };
        },
      };
      return source;
    },
  };
}

/** The cursor with which the REST API continues after these trades of the feed. */
function cursorAfter({ seen = [], id }: Cursor, page: TradePage): Cursor {
  const sinceUs = Math.max(...page.timesUs) - backUs;
  const recent = [...page.ids].filter((_, at) => Number(page.timesUs[at]) >= sinceUs - 2);
  // Older ids may stay in the list: the REST API does not return them again.
  const all = recent.length === page.ids.length ? [...seen, ...recent] : recent;
  const next = Math.max(id, (page.ids.at(-1) as number) + 1);
  return { id: next, since: String(BigInt(sinceUs) * 1000n), seen: all.slice(-seenMax) };
}
