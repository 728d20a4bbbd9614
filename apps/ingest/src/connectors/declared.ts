import { createHash } from 'node:crypto';
import type { HarvestAnswer } from 'spillway';
import { ingestError } from '../errors.ts';
import type { RecordSchema, RecordType } from '../table/records.ts';
import {
  type Answer,
  Api,
  at,
  type DeclaredOptions,
  type Found,
  keysOf,
  microseconds,
  type Query,
} from './api.ts';
import type { Connector, Cursor, TradePosition } from './connector.ts';
import { columnType, type Declaration, type Limits } from './declaration.ts';
import { firstIdAt, type IdRange, idPages } from './id-pages.ts';
import type { TradePage } from './trade-page.ts';
import { fieldChanged } from './trade-scanner.ts';

type PageAnswer = HarvestAnswer<TradePage, TradePosition>;

/** A way through the pages of a list whose end only the answers tell. */
interface Pager {
  /** Parameters of the page at a cursor, or the path to it. */
  ask(since: string): Query | string;
  read(answer: Answer, cursor: Cursor, again: Again): PageAnswer | Promise<PageAnswer>;
}

/** Asks for one more page within the same step. */
type Again = (since: string) => Promise<Answer>;

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
  const checkWay = (at: TradePosition): void => {
    const by = typeof at === 'number' ? 'ids' : at.by;
    if (by === pages.by) return;
    const what = `${name}: its pages were read by ${by}, and pages.by is ${pages.by} now`;
    throw ingestError('SOURCE_INVALID', `${what}; add --full-refresh to begin anew`);
  };
  if (pager === undefined) return { ...common, ...byIds(source, api, checkWay) };
  const start: Cursor = { id: 1, since: '', known: [], by: pages.by };
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
      return {
        name: sourceName,
        from,
        pageAt: (at) => ((at as Cursor).id < to ? { from: at, to: undefined } : undefined),
        async fetch(page, signal) {
          const cursor = page.from as Cursor;
          const again: Again = (since) =>
            api.guard((caller) => api.get(product, pager.ask(since), caller), signal);
          const answer = await api.get(product, pager.ask(cursor.since), signal);
          return await pager.read(answer, cursor, again);
        },
      };
    },
  };
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

/** A page of records, numbered one after the other or by their ids. */
export function pageOf(records: readonly Found[], idAt: (place: number) => number): TradePage {
  const lines = records.map(({ text, us }, place) => {
    return `{"seq":${idAt(place)},"us":${us},"record":${text}}\n`;
  });
  return {
    ids: Float64Array.from(records, (_, place) => idAt(place)),
    timesUs: BigInt64Array.from(records, ({ us }) => us),
    lines: Buffer.from(lines.join('')),
  };
}

function hashOf({ text }: Found): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

interface Turn {
  readonly since: string;
  readonly isEnd: boolean;
  /** Hashes of records that the next answer may have again. @default none */
  readonly known?: readonly string[] | undefined;
}

/** The records that are new, and the cursor of those after them. */
function turned(records: readonly Found[], cursor: Cursor, turn: Turn): PageAnswer {
  const known = new Set(cursor.known);
  const fresh = known.size === 0 ? records : records.filter((one) => !known.has(hashOf(one)));
  const rows = fresh.length === 0 ? [] : [pageOf(fresh, (place) => cursor.id + place)];
  const id = cursor.id + fresh.length;
  const next: Cursor = { ...cursor, id, since: turn.since, known: turn.known ?? [] };
  return { rows, next, isEnd: turn.isEnd };
}

function pagerOf(source: Declaration): Pager {
  const { pages } = source;
  if (pages.by === 'offset') return byOffset(pages);
  if (pages.by === 'page') return byPage(source.name, pages);
  if (pages.by === 'cursor') return byCursor(source.name, pages);
  if (pages.by === 'time') return byTime(source.name, pages.since, pages.field, pages.size);
  const { since, field } = pages as Extract<Declaration['pages'], { readonly by: 'link' }>;
  return since === undefined ? byLink() : byTime(source.name, since, field as string, undefined);
}

type PagesBy<By> = Extract<Declaration['pages'], { readonly by: By }>;

/** A list that grows at its end: what was read is not asked for again. */
function byOffset({ offset, limit, size }: PagesBy<'offset'>): Pager {
  return {
    ask: (since) => ({ [offset]: String(Number(since)), [limit]: String(size) }),
    read({ records }, cursor) {
      const next = String(Number(cursor.since) + records.length);
      return turned(records, cursor, { since: next, isEnd: records.length === 0 });
    },
  };
}

/** A page that is not whole is asked for again by the next harvest: it may have grown. */
function byPage(name: string, { page, size, first = 1 }: PagesBy<'page'>): Pager {
  return {
    ask: (since) => ({ [page]: since === '' ? String(first) : since }),
    async read({ records }, cursor, again) {
      const number = cursor.since === '' ? first : Number(cursor.since);
      const after = String(number + 1);
      const goOn = (whole: readonly Found[]): PageAnswer =>
        turned(whole, cursor, { since: after, isEnd: false });
      if (records.length >= size) return goOn(records);
      if (records.length > 0 && (await again(after)).records.length > 0) {
        // It may have been filled up between the two questions.
        const whole = (await again(String(number))).records;
        if (whole.length >= size) return goOn(whole);
        const what = `${name}: page ${number} has ${whole.length} records, not ${size}`;
        throw ingestError('EXCHANGE_CHANGED', `${what}, and another follows: see pages.size`);
      }
      const known = records.map(hashOf);
      return turned(records, cursor, { since: String(number), isEnd: true, known });
    },
  };
}

function byCursor(name: string, { cursor: parameter, next, field }: PagesBy<'cursor'>): Pager {
  const nextOf = ({ body, records }: Answer): unknown => {
    if (next !== undefined) return at(body, next);
    const last = records.at(-1)?.value;
    return last === undefined ? undefined : at(last, field as string);
  };
  return {
    ask: (since): Query => (since === '' ? {} : { [parameter]: since }),
    read(answer, cursor) {
      const { records } = answer;
      const found = nextOf(answer) ?? '';
      if (typeof found !== 'string' && typeof found !== 'number') {
        throw fieldChanged(name, next ?? String(field), 'a text or a number', found);
      }
      const since = String(found);
      if (since !== '' && since !== cursor.since) {
        return turned(records, cursor, { since, isEnd: records.length === 0 });
      }
      return turned(records, cursor, {
        since: cursor.since,
        isEnd: true,
        known: records.map(hashOf),
      });
    },
  };
}

function byLink(): Pager {
  return {
    ask: (since): Query | string => (since === '' ? {} : since),
    read({ records, link }, cursor) {
      if (link !== undefined && link !== cursor.since) {
        return turned(records, cursor, { since: link, isEnd: false });
      }
      return turned(records, cursor, {
        since: cursor.since,
        isEnd: true,
        known: records.map(hashOf),
      });
    },
  };
}

/** A cursor by time: the last time that was read, and the path to more records of that time. */
interface Moment {
  readonly at?: string | undefined;
  readonly link?: string | undefined;
}

/**
 * Each page is asked for by the last time of the one before: records that change meanwhile move to
 * the end and none is passed over, as they are where pages are counted. A link is followed only
 * where all of a page is of one time. `size` is undefined where links tell the end.
 */
function byTime(name: string, since: string, field: string, size: number | undefined): Pager {
  const momentOf = (text: string): Moment => (text === '' ? {} : JSON.parse(text));
  return {
    ask(text): Query | string {
      const { at: from, link } = momentOf(text);
      return link ?? (from === undefined ? {} : { [since]: from });
    },
    read({ records, link }, cursor) {
      const before = momentOf(cursor.since);
      const times = timesOf(name, records, field);
      const lastUs = times.at(-1) ?? -Infinity;
      const isSame = records.length === 0 || lastUs <= (microseconds(before.at) ?? -Infinity);
      const ofLast = records.filter((_, place) => isSame || times[place] === lastUs).map(hashOf);
      const known = isSame ? [...new Set([...(cursor.known ?? []), ...ofLast])] : ofLast;
      const moment = isSame
        ? { at: before.at, link }
        : { at: String(at(records.at(-1)?.value, field)) };
      const turn = { since: JSON.stringify(moment), known };
      if (size === undefined) {
        return turned(records, cursor, {
          ...turn,
          isEnd: link === undefined || link === before.link,
        });
      }
      const answer = turned(records, cursor, { ...turn, isEnd: false });
      if (answer.rows.length > 0) return answer;
      if (isSame && records.length >= size) {
        const what = `${name}: more than ${size} records at ${before.at}`;
        throw ingestError('EXCHANGE_CHANGED', `${what}: no time leads past them`);
      }
      return { ...answer, isEnd: true };
    },
  };
}

/** The times of records, which must ascend. */
function timesOf(name: string, records: readonly Found[], field: string): readonly bigint[] {
  const times: bigint[] = [];
  for (const [place, { value }] of records.entries()) {
    const us = microseconds(at(value, field));
    const isLate = us !== undefined && us < (times.at(-1) ?? -Infinity);
    if (us !== undefined && !isLate) {
      times.push(us);
      continue;
    }
    const rule = isLate ? 'not before that of the record before: ask for it ascending' : 'a time';
    throw fieldChanged(name, `records[${place}].${field}`, rule, at(value, field));
  }
  return times;
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
    const { records } = await api.guard((caller) => api.get(product, newest, caller), signal);
    return records.length === 0 ? undefined : Math.max(...records.map(idOf));
  };
  return {
    start: first,
    latest,
    async positionAt(product, timeUs, signal) {
      const range = { from: first, to: ((await latest(product, signal)) ?? first - 1) + 1 };
      return await firstIdAt(range, timeUs, async (middle) => {
        const from = Math.max(first, middle - Math.floor(size / 2));
        const seen = { from, to: Math.min(range.to, from + size) };
        const trades = await api.guard((caller) => ask(product, seen, caller), signal);
        return { trades, seen };
      });
    },
    source(product, { from = first, to }, sourceName = `${name}/${product}`) {
      checkWay(from);
      const fetch = (range: IdRange, signal: AbortSignal): Promise<TradePage> =>
        ask(product, range, signal);
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
