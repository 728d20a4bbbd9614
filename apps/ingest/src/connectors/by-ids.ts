import { checkInteger } from 'spillway/internal';
import { fieldChanged } from './answer.ts';
import type { Api, Found, Query } from './api.ts';
import { checkWay, type Way } from './connector.ts';
import type { Declaration } from './declaration.ts';
import { type IdRange, type Item, newestOf, pageOf, wantedOf } from './page.ts';
import { numbered, type PagesBy } from './pagers.ts';
import type { TradeReader } from './trades.ts';

/** Paging by ids without holes: all pages are known at once, and missing ids are gaps. */
export function byIds(source: Declaration, api: Api, reader: TradeReader | undefined): Way {
  const { name, key } = source;
  const pages = source.pages as PagesBy<'ids'>;
  const { size, first = 1 } = pages;
  const recordIn = (found: Found, place: number): Item => {
    const id = found.value[key as string];
    if (Number.isSafeInteger(id) && Number(id) >= 0) return numbered(found, Number(id));
    throw fieldChanged(name, `records[${place}].${String(key)}`, 'an integer from 0', id);
  };
  const itemsIn = (body: unknown): readonly Item[] =>
    reader === undefined ? api.recordsIn(body).map(recordIn) : reader.read(api.listIn(body));
  const ask = (product: string, { from, to }: IdRange, signal: AbortSignal) => {
    const words: Query = { from: `${from}`, to: `${to}`, last: `${to - 1}`, size: `${to - from}` };
    return api.ask(product, queryOf(pages.query, words), signal, itemsIn);
  };
  const latest = async (product: string, signal: AbortSignal): Promise<number | undefined> => {
    const newest = queryOf(pages.latest, {});
    return newestOf(await api.guard((caller) => api.ask(product, newest, caller, itemsIn), signal));
  };
  return {
    start: first,
    latest,
    async positionAt(product, timeUs, signal) {
      const range = { from: first, to: ((await latest(product, signal)) ?? first - 1) + 1 };
      return await firstIdAt(range, timeUs, async (middle) => {
        const from = Math.max(first, middle - Math.floor(size / 2));
        const seen = { from, to: from };
        for (;;) {
          const asked = { from: seen.to, to: Math.min(range.to, seen.to + size) };
          const found = await api.guard((caller) => ask(product, asked, caller), signal);
          const items = wantedOf(found, { from: 0, to: range.to });
          // An API may fill up its page with ids beyond the range.
          seen.from = Math.min(seen.from, items[0]?.id ?? from);
          seen.to = Math.max(asked.to, (items.at(-1)?.id ?? -1) + 1);
          // An empty page has no time to compare, so the next one is fetched.
          if (items.length > 0 || seen.to >= range.to) return { items, seen };
        }
      });
    },
    source(product, { from = first, to }, sourceName = `${name}/${product}`) {
      checkWay(source, from);
      checkInteger('to', to, from as number);
      const fetched = async (range: IdRange, signal: AbortSignal): Promise<readonly Item[]> => {
        const items = wantedOf(await ask(product, range, signal), range);
        if (items.length > 0) return items;
        // It may be a wrong answer, so a page is fetched again before all of it becomes a gap.
        const again = (caller: AbortSignal) => ask(product, range, caller);
        return wantedOf(await api.guard(again, signal), range);
      };
      return {
        name: sourceName,
        from,
        pageAt(position) {
          const at = position as number;
          return at < to ? { from: at, to: Math.min(at + size, to) } : undefined;
        },
        pagesLeft: (position) => Math.max(0, Math.ceil((to - (position as number)) / size)),
        async fetch(page, signal) {
          const range = { from: page.from as number, to: page.to as number };
          const items = await fetched(range, signal);
          const rows = items.length === 0 ? [] : [pageOf(items)];
          return { rows, missing: missingIds(items, range) };
        },
      };
    },
  };
}

/** Fills in `{from}` and the like. */
function queryOf(query: Readonly<Record<string, string | number>>, words: Query): Query {
  const filled = Object.entries(query).map(([key, value]): [string, string] => [
    key,
    String(value).replaceAll(/\{(\w+)\}/g, (whole, word: string) => words[word] ?? whole),
  ]);
  return Object.fromEntries(filled);
}

function missingIds(items: readonly Item[], range: IdRange): readonly IdRange[] {
  if (items.length === range.to - range.from) return [];
  const missing: IdRange[] = [];
  let next = range.from;
  for (const id of [...items.map((item) => item.id), range.to]) {
    if (id > next) missing.push({ from: next, to: id });
    next = id + 1;
  }
  return missing;
}

/** All items of a range of ids, by id. */
interface ItemWindow {
  readonly items: readonly Item[];
  readonly seen: IdRange;
}

/** Finds the first id with that time or a later one by bisection; the end if there is none. */
async function firstIdAt(
  range: IdRange,
  timeUs: bigint,
  look: (id: number) => Promise<ItemWindow>,
): Promise<number> {
  let { from, to } = range;
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const { items, seen } = await look(middle);
    const place = items.findIndex(({ us }) => us >= timeUs);
    if (place > 0) return items[place]?.id as number;
    // All items are late enough, so the first such id is not after them; or none of them is.
    if (place === 0) to = Math.min(middle, Math.max(from, seen.from));
    else from = Math.min(to, Math.max(middle + 1, seen.to));
  }
  return to;
}
