import { ingestError } from '../errors.ts';
import { at, fieldChanged } from './answer.ts';
import type { Api, Query } from './api.ts';
import type { Cursor, TradePosition, TradeRange, Way } from './connector.ts';
import type { Declaration } from './declaration.ts';
import { type Item, newestOf, pageOf, wantedOf } from './page.ts';
import type { PageAnswer, PagesBy } from './pagers.ts';
import type { TradeReader } from './trades.ts';

/** The trades of an answer, and the time in nanoseconds after which the next page begins. */
interface Moments {
  readonly found: readonly Item[];
  readonly last: bigint;
}

const start: Cursor = { id: 1, since: '0', seen: [] };

/** Paging of trades by time: each page leads to the next, and ids may have holes. */
export function byMoment(source: Declaration, api: Api, reader: TradeReader): Way {
  const { name } = source;
  const pages = source.pages as PagesBy<'moment'>;
  const ask = async (product: string, query: Query, signal: AbortSignal): Promise<Moments> => {
    return await api.ask(product, query, signal, (body) => {
      const last = at(body, pages.next);
      if (typeof last !== 'string' || !/^\d{1,19}$/.test(last)) {
        throw fieldChanged(name, pages.next, 'nanoseconds in quotes', last);
      }
      return { found: reader.read(api.listIn(body)), last: BigInt(last) };
    });
  };
  const one = { [pages.limit]: '1' };
  const latest = async (product: string, signal: AbortSignal): Promise<number | undefined> => {
    const { found } = await api.guard((caller) => ask(product, one, caller), signal);
    return newestOf(found);
  };
  return {
    start,
    latest,
    async positionAt(product, timeUs, signal) {
      const since = String(timeUs > 0n ? timeUs * 1000n - 1n : 0n);
      const query = { ...one, [pages.since]: since };
      const { found } = await api.guard((caller) => ask(product, query, caller), signal);
      const id = found[0]?.id ?? ((await latest(product, signal)) ?? 0) + 1;
      return { id, since, seen: [] };
    },
    source(product, { from = start, to }: TradeRange, sourceName = `${name}/${product}`) {
      const left = (position: TradePosition): number => to - (position as Cursor).id;
      return {
        name: sourceName,
        from,
        pageAt: (position) => (left(position) > 0 ? { from: position, to: undefined } : undefined),
        pagesLeft: (position) => Math.max(0, Math.ceil(left(position) / pages.size)),
        async fetch(page, signal) {
          const cursor = page.from as Cursor;
          const query = { [pages.limit]: String(pages.size), [pages.since]: cursor.since };
          return answerOf(name, pages.size, await ask(product, query, signal), cursor, to);
        },
      };
    },
  };
}

/**
 * Finds the new trades of a page, and the cursor of the next one. Ids are not always in order of
 * time, so trades read before are recognized by the ids of the last moment, not by the highest id.
 */
function answerOf(
  name: string,
  size: number,
  { found, last }: Moments,
  cursor: Cursor,
  to: number,
): PageAnswer {
  const { since, seen } = cursor;
  const isEarlier = found.some(({ us }) => (BigInt(us) + 2n) * 1000n < BigInt(since));
  if (last < BigInt(since) || (seen !== undefined && isEarlier)) {
    const message = `${name}: an answer up to ${last} ns to the question for trades after ${since}`;
    throw ingestError('EXCHANGE_FAILED', message);
  }
  const items = wantedOf(found, { from: seen === undefined ? cursor.id : 0, to }, seen);
  const newest = newestOf(found) ?? -Infinity;
  const rows = items.length === 0 ? [] : [pageOf(items)];
  // The rest of this page is for a later harvest, which has to ask for the same page again.
  if (newest >= to) {
    const next = { id: to, since, seen: [...(seen ?? []), ...items.map(({ id }) => id)] };
    return { rows, next, isEnd: true };
  }
  // One nanosecond back, as the page may have ended between two trades of the same moment.
  const after = last > 0n ? last - 1n : 0n;
  const isFurther = after > BigInt(since);
  if (items.length === 0 && !isFurther) {
    if (found.length < size) return { rows, next: cursor, isEnd: true };
    const what = `${name}: more than ${size} trades at ${last} ns`;
    throw ingestError('EXCHANGE_CHANGED', `${what}: no cursor leads past them`);
  }
  const lastUs = Number(last / 1000n) - 1;
  const again = found.filter(({ us }) => us >= lastUs).map(({ id }) => id);
  const id = Math.max(cursor.id, newest + 1);
  const next = { id, since: String(after), seen: isFurther ? again : [...(seen ?? []), ...again] };
  return { rows, next, isEnd: id >= to || (found.length < size && rows.length === 0) };
}
