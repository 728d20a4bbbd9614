import { hash } from 'node:crypto';
import { ingestError } from '../errors.ts';
import type { RecordSchema, RecordType } from '../table/records.ts';
import { fieldChanged } from './answer.ts';
import { type Answer, Api, type DeclaredOptions, type Found, keysOf, rateOf } from './api.ts';
import { byIds } from './by-ids.ts';
import { byMoment } from './by-moment.ts';
import { type Connector, type Cursor, checkWay, type Way } from './connector.ts';
import { columnType, type Declaration } from './declaration.ts';
import { inFlightMax } from './exchange-client.ts';
import type { FeedForm } from './feed-form.ts';
import { type Again, type PageAnswer, pagerOf } from './pagers.ts';
import { lineSqlOf, TradeReader } from './trades.ts';

/** Makes the connector of a declared source; exchanges are declared sources, too. */
export function declared(source: Declaration, options: DeclaredOptions = {}): Connector {
  const { name, pages, trades } = source;
  const api = new Api(source, options);
  const reader = trades && new TradeReader(name, trades);
  const common = {
    name,
    baseUrl: api.baseUrl,
    isReached: api.isReached,
    address: addressOf(source, api),
    pageSize: 'size' in pages ? pages.size : 100,
    rate: { atOnce: inFlightMax, ...source.limits, ratePerSecond: rateOf(source.limits) },
    hasDenseIds: pages.by !== 'moment',
    lineSql: trades === undefined ? schemaOf(source) : lineSqlOf(trades),
    feed: reader && feedOf(source, api, reader, options),
    products: (signal: AbortSignal) => api.products(signal),
    [Symbol.asyncDispose]: () => api[Symbol.asyncDispose](),
  };
  if (pages.by === 'ids') return { ...common, ...byIds(source, api, reader) };
  if (reader !== undefined) return { ...common, ...byMoment(source, api, reader) };
  return { ...common, ...byPager(source, api) };
}

/**
 * Makes the address that the checkpoint keeps. Ports of this machine are left out, as a tunnel or a
 * simulated exchange has another one with each start.
 */
function addressOf({ address }: Declaration, { baseUrl }: Api): string {
  const { protocol, host, hostname, pathname } = new URL(baseUrl);
  const isHere = /^(localhost|127\..*|\[::1\])$/.test(hostname);
  const path = address.replace(/^https?:\/\/[^/]+/, '');
  return `${protocol}//${isHere ? hostname : host}${pathname.replace(/\/+$/, '')}${path}`;
}

/** Makes the feed, at its own address or below the base URL of the settings. */
function feedOf(
  { feed, products }: Declaration,
  api: Api,
  reader: TradeReader,
  { feedUrl, baseUrl }: DeclaredOptions,
): FeedForm | undefined {
  if (feed === undefined) return undefined;
  const { address, path, symbolsIn, ...rest } = feed;
  const below = baseUrl && `${baseUrl.replace(/^http/, 'ws')}${path}`;
  return {
    ...rest,
    url: feedUrl ?? below ?? address,
    async symbols(names, signal) {
      if (symbolsIn === undefined) return new Map(names.map((one) => [one, one]));
      const place = Object(products).path;
      const read = (body: unknown) => symbolsIn(body, names);
      return await api.guard((caller) => api.ask('', place, caller, read), signal);
    },
    line: (trade) => reader.one(trade),
    facts: (trade) => reader.facts(trade),
  };
}

/** Paging of lists whose end only the answers tell; records are numbered as they come. */
function byPager(source: Declaration, api: Api): Way {
  const { name, pages } = source;
  const pager = pagerOf(source);
  /** Fetches a page. A page that is unknown counts as empty if the one before it has records. */
  const answerAt = async (
    product: string,
    since: string,
    signal: AbortSignal,
    again: Again,
  ): Promise<Answer> => {
    try {
      return await api.get(product, pager.ask(since), signal);
    } catch (error) {
      const before = pager.before?.(since);
      if (Object(error).code !== 'PRODUCT_UNKNOWN' || before === undefined) throw error;
      if ((await again(before)).records.length === 0) throw error;
      return { records: [], body: undefined, headers: {}, link: undefined };
    }
  };
  /** Reads the page at a cursor. Secrets in the next cursor are masked before it is kept. */
  const pageAt = async (
    product: string,
    at: Cursor,
    steps: Steps,
    signal: AbortSignal,
  ): Promise<PageAnswer> => {
    const cursor = { ...at, since: api.secrets.show(at.since) };
    const again: Again = (since) =>
      api.guard((caller) => answerAt(product, since, caller, again), signal);
    const answer = await answerAt(product, cursor.since, signal, again);
    const keyTypes = keyTypesOf(source, answer.records, at.keyTypes);
    const { next, ...read } = await pager.read(answer, cursor, again);
    const { since, ...rest } = next as Cursor;
    const kept = api.secrets.keep(since);
    if (!read.isEnd) steps.add(at.since, kept, answer.records);
    return { ...read, next: { ...rest, since: kept, keyTypes } };
  };
  // Has no `known`, so that an empty first answer changes the cursor, too, and is committed.
  const start: Cursor = { id: 1, since: '', by: pages.by };
  return {
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
      checkWay(source, from);
      const steps = new Steps(name);
      return {
        name: sourceName,
        from,
        pageAt: (at) => ((at as Cursor).id < to ? { from: at, to: undefined } : undefined),
        fetch: (page, signal) =>
          api.secrets.guard(() => pageAt(product, page.from as Cursor, steps, signal)),
      };
    },
  };
}

/** Empty pages in a row that lead to another page. */
const emptyMax = 1_000;
/** Answers in a row with new records to the same request, as for a time that is not over. */
const sameMax = 100;

/**
 * Detects paging without an end: a cursor that leads back to an earlier page, the same records
 * again and again (the API ignores the parameter), or empty pages for ever. Brent's algorithm finds
 * a cycle within three rounds, and keeps one page.
 */
class Steps {
  readonly #name: string;
  #from: string | undefined;
  #mark: string | undefined;
  #markedRecords: string | undefined;
  #left = 1;
  #size = 1;
  #empty = 0;
  #same = 0;
  #repeats = 0;

  constructor(name: string) {
    this.#name = name;
  }

  add(from: string, next: string, records: readonly Found[]): void {
    this.#same = from === next ? this.#same + 1 : 0;
    if (this.#same > sameMax) {
      throw this.#endless(`the question for ${from} had new records ${sameMax} times in a row`);
    }
    // A page may be requested again, and one moment may have more records than a page.
    if (from === this.#from || from === next) return;
    this.#from = from;
    this.#empty = records.length === 0 ? this.#empty + 1 : 0;
    if (this.#empty > emptyMax) {
      const remedy = 'by cursor, "pages.more" may name a field that tells the end';
      throw this.#endless(`${emptyMax} pages in a row have no record; ${remedy}`);
    }
    if (next === this.#mark) {
      throw this.#endless(`the cursor ${next} leads back to a page that was read before`);
    }
    const own = hash('sha256', records.map(({ text }) => text).join('\n'));
    if (own === this.#markedRecords && records.length > 0) this.#repeats += 1;
    // Once may be chance: the list may have grown at its front by exactly one page.
    if (this.#repeats > 1) {
      const remedy = 'does the API know the parameters in "pages"?';
      throw this.#endless(`the page before ${next} has the records of an earlier page; ${remedy}`);
    }
    this.#left -= 1;
    if (this.#left > 0) return;
    this.#markedRecords = own;
    this.#mark = next;
    this.#size *= 2;
    this.#left = this.#size;
  }

  #endless(why: string): Error {
    return ingestError('EXCHANGE_CHANGED', `${this.#name}: ${why}: pages have no end`);
  }
}

/**
 * Checks that fields of the key keep their types: in the table, 1 and "1" would be the same. A text
 * of many digits may be a number that does not fit a double, so it is not checked.
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

/** Makes the schema: key and declared types. With pages by ids, the id is the record's number. */
export function schemaOf({ key, pages, columns = {} }: Declaration): RecordSchema {
  const types = Object.entries(columns).map(([field, type]) => [field, columnType(type)]);
  return {
    key: pages.by === 'ids' ? [] : keysOf(key),
    declared: Object.fromEntries(types) as Readonly<Record<string, RecordType>>,
  };
}
