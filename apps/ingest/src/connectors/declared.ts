import { ingestError } from '../errors.ts';
import type { RecordSchema, RecordType } from '../table/records.ts';
import { Api, type DeclaredOptions, type Found, keysOf, type Query } from './api.ts';
import type { Connector, Cursor, TradePosition } from './connector.ts';
import { columnType, type Declaration, type Limits } from './declaration.ts';
import { firstIdAt, type IdRange, idPages } from './id-pages.ts';
import {
  type Again,
  type PageAnswer,
  type Pager,
  type PagesBy,
  pageOf,
  pagerOf,
} from './pagers.ts';
import type { TradePage } from './trade-page.ts';
import { fieldChanged } from './trade-scanner.ts';

/** The connector of a declared source: the same rate, ledger and proofs as for an exchange. */
export function declared(source: Declaration, options: DeclaredOptions): Connector {
  const { name, pages } = source;
  const api = new Api(source, options);
  const pager = pages.by === 'ids' ? undefined : pagerOf(source);
  const pageSize = 'size' in pages ? pages.size : 100;
  const common = {
    name,
    baseUrl: api.baseUrl,
    pageSize,
    rate: { ratePerSecond: rateOf(source.limits), burst: 1, atOnce: source.limits?.atOnce },
    hasDenseIds: true,
    lineSql: schemaOf(source),
    products: async () => source.products ?? [name],
    [Symbol.asyncDispose]: () => api[Symbol.asyncDispose](),
  };
  /** Reads the page at a cursor. An API may give a secret back in it: what is kept has none. */
  const pageAt = async (product: string, at: Cursor, signal: AbortSignal): Promise<PageAnswer> => {
    const way = pager as Pager;
    const cursor = { ...at, since: api.secrets.show(at.since) };
    const again: Again = (since) =>
      api.guard((caller) => api.get(product, way.ask(since), caller), signal);
    const answer = await api.get(product, way.ask(cursor.since), signal);
    const keyTypes = keyTypesOf(source, answer.records, at.keyTypes);
    const { next, ...read } = await way.read(answer, cursor, again);
    const { since, ...rest } = next as Cursor;
    return { ...read, next: { ...rest, since: api.secrets.hide(since), keyTypes } };
  };
  const checkWay = (at: TradePosition): void => {
    const by = typeof at === 'number' ? 'ids' : at.by;
    if (by === pages.by) return;
    const what = `${name}: its pages were read by ${by}, and pages.by is ${pages.by} now`;
    throw ingestError('SOURCE_INVALID', `${what}; add --full-refresh to begin anew`);
  };
  if (pager === undefined) return { ...common, ...byIds(source, api, checkWay) };
  // Without `known`, so that the first answer is a step to be committed even if it is empty.
  const start: Cursor = { id: 1, since: '', by: pages.by };
  return {
    ...common,
    start,
    latest: async () => Infinity,
    async positionAt(_product, timeUs) {
      if ('since' in pages && pages.since !== undefined) {
        const at = new Date(Number(timeUs / 1000n)).toISOString();
        return { ...start, since: JSON.stringify({ at }) };
      }
      const what = `${name}: --since: its pages are not by time`;
      throw ingestError('SOURCE_INVALID', `${what}: see pages.since`);
    },
    source(product, { from = start, to }, sourceName = `${name}/${product}`) {
      checkWay(from);
      const steps = new Steps(name);
      return {
        name: sourceName,
        from,
        pageAt: (at) => ((at as Cursor).id < to ? { from: at, to: undefined } : undefined),
        fetch: (page, signal) =>
          api.secrets.guard(async () => {
            const at = page.from as Cursor;
            const answer = await pageAt(product, at, signal);
            if (!answer.isEnd) steps.add(at.since, (answer.next as Cursor).since);
            return answer;
          }),
      };
    },
  };
}

/**
 * Refuses a cursor that leads back to a page of before: nothing would ever end. By the algorithm of
 * Brent it is found within three rounds, and one cursor is kept.
 */
class Steps {
  readonly #name: string;
  #from: string | undefined;
  #mark: string | undefined;
  #left = 1;
  #size = 1;

  constructor(name: string) {
    this.#name = name;
  }

  add(from: string, next: string): void {
    // The same page may be asked for again.
    if (from === this.#from) return;
    this.#from = from;
    if (next === this.#mark) {
      const what = `${this.#name}: the cursor ${next} leads back to a page that was read before`;
      throw ingestError('EXCHANGE_CHANGED', `${what}: pages have no end`);
    }
    this.#left -= 1;
    if (this.#left > 0) return;
    this.#mark = next;
    this.#size *= 2;
    this.#left = this.#size;
  }
}

/**
 * Types of the key's fields, which must stay what they were: as columns of the table, 1 and "1"
 * would be the same. Long digits may be a number that no double holds, so they tell no type.
 */
function keyTypesOf(
  { name, key }: Declaration,
  records: readonly Found[],
  before: Cursor['keyTypes'] = {},
): NonNullable<Cursor['keyTypes']> {
  const types = { ...before };
  for (const field of keysOf(key)) {
    for (const [place, { value }] of records.entries()) {
      const part = value[field];
      if (typeof part === 'string' && /^-?\d{16,}$/.test(part)) continue;
      types[field] ??= typeof part;
      if (types[field] === typeof part) continue;
      const rule = `a ${types[field]}, as this part of the key was in records before`;
      throw fieldChanged(name, `records[${place}].${field}`, rule, part);
    }
  }
  return types;
}

/** The key and the declared types; where pages are by ids, the id of a record is its number. */
export function schemaOf({ key, pages, columns = {} }: Declaration): RecordSchema {
  const types = Object.entries(columns).map(([field, type]) => [field, columnType(type)]);
  return {
    key: pages.by === 'ids' ? [] : keysOf(key),
    declared: Object.fromEntries(types) as Readonly<Record<string, RecordType>>,
  };
}

function rateOf({ perSecond, perMinute, perHour }: Limits = {}): number {
  const rates = [perSecond, (perMinute ?? NaN) / 60, (perHour ?? NaN) / 3600];
  const given = rates.filter((rate) => rate !== undefined && !Number.isNaN(rate)) as number[];
  return given.length === 0 ? 1 : Math.min(...given);
}

type ByIds = Pick<Connector, 'start' | 'latest' | 'positionAt' | 'source'>;

/** Pages of ids without holes: known all at once, asked for side by side, gaps in the ledger. */
function byIds(source: Declaration, api: Api, checkWay: (from: TradePosition) => void): ByIds {
  const { name, key } = source;
  const pages = source.pages as PagesBy<'ids'>;
  const { size, first = 1 } = pages;
  const idOf = ({ value }: Found, place: number): number => {
    const id = value[key as string];
    if (Number.isSafeInteger(id) && Number(id) >= 0) return Number(id);
    throw fieldChanged(name, `records[${place}].${String(key)}`, 'an integer from 0', id);
  };
  const ask = async (product: string, range: IdRange, signal: AbortSignal): Promise<TradePage> => {
    const { from, to } = range;
    const words: Query = { from: `${from}`, to: `${to}`, last: `${to - 1}`, size: `${to - from}` };
    const { records } = await api.get(product, queryOf(pages.query, words), signal);
    const byId = new Map(records.map((one, place) => [idOf(one, place), one]));
    const ids = [...byId.keys()].filter((id) => id >= from && id < to).sort((a, b) => a - b);
    return pageOf(
      ids.map((id) => byId.get(id) as Found),
      (place) => ids[place] as number,
    );
  };
  const latest = async (product: string, signal: AbortSignal): Promise<number | undefined> => {
    const newest = queryOf(pages.latest, {});
    return await api.secrets.guard(async () => {
      const { records } = await api.guard((caller) => api.get(product, newest, caller), signal);
      return records.length === 0 ? undefined : Math.max(...records.map(idOf));
    });
  };
  return {
    start: first,
    latest,
    async positionAt(product, timeUs, signal) {
      const range = { from: first, to: ((await latest(product, signal)) ?? first - 1) + 1 };
      return await firstIdAt(range, timeUs, async (middle) => {
        const from = Math.max(first, middle - Math.floor(size / 2));
        const seen = { from, to: Math.min(range.to, from + size) };
        const trades = await api.secrets.guard(() =>
          api.guard((caller) => ask(product, seen, caller), signal),
        );
        return { trades, seen };
      });
    },
    source(product, { from = first, to }, sourceName = `${name}/${product}`) {
      checkWay(from);
      const fetch = (range: IdRange, signal: AbortSignal): Promise<TradePage> =>
        api.secrets.guard(() => ask(product, range, signal));
      return idPages({ name: sourceName, from: from as number, to, pageSize: size, fetch });
    },
  };
}

/** Parameters with `{from}` and the like filled in. */
function queryOf(query: Readonly<Record<string, string | number>>, words: Query): Query {
  const filled = Object.entries(query).map(([key, value]): [string, string] => [
    key,
    String(value).replaceAll(/\{(\w+)\}/g, (whole, word: string) => words[word] ?? whole),
  ]);
  return Object.fromEntries(filled);
}
