import { readFile, stat } from 'node:fs/promises';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { parse } from 'yaml';
import { ingestError } from '../errors.ts';
import type { RecordType } from '../table/records.ts';
import { dots } from './exchange-client.ts';
import type { FeedDeclaration } from './feed-form.ts';
import type { TradeFields } from './trades.ts';

/** One API that gives records in pages, as people declare it in a file. */
export interface Declaration {
  /** Part of paths, and the name of its view in SQL: `github-issues` is `github_issues`. */
  readonly name: string;
  /** Address of a page, where `{product}` stands for one of `products`. */
  readonly address: string;
  /**
   * Lists that the address has, such as repositories, or how the API is asked for them.
   * @default one, named after the source
   */
  readonly products?: readonly string[] | ProductList | undefined;
  /** Sent with every request; `${NAME}` is the variable of that name, and never shown. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Parameters of every request; `${NAME}` as in `headers`, `{product}` as in the address. */
  readonly query?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Path to the list of records in an answer, such as `data.items`. @default the answer itself */
  readonly records?: string | undefined;
  /** Field, or fields, by which records are the same; the later one replaces the earlier. */
  readonly key?: string | readonly string[] | undefined;
  /** Field with the time that tells the day of a record. @default none: all are of one day */
  readonly time?: string | undefined;
  readonly pages: Pages;
  readonly limits?: Limits | undefined;
  /** Types of fields; those of the others are found by sampling. */
  readonly columns?: Readonly<Record<string, string>> | undefined;
  /** Fields of records that are trades. @default they are not: each field is a column */
  readonly trades?: TradeFields | undefined;
  /** Text in a refusal that there is no such product. @default any refusal with status 404 */
  readonly unknown?: string | undefined;
  /** Throws if an answer with status 200 tells of a fault; for modules. */
  readonly check?: ((body: unknown) => void) | undefined;
  /** Live trades; for modules. */
  readonly feed?: FeedDeclaration | undefined;
}

/** A question for the products of an API. */
export interface ProductList {
  /** Path below the host of the address. */
  readonly path: string;
  /** Path to the list in the answer. @default the answer itself */
  readonly records?: string | undefined;
  /** Field with the name of a product. @default the names of the fields there are the products */
  readonly field?: string | undefined;
}

/** The way from one page to the next. */
export type Pages =
  /** Ids without holes: `{from}`, `{to}`, `{last}` and `{size}` stand for the ids of a page. */
  | {
      readonly by: 'ids';
      readonly query: Readonly<Record<string, string | number>>;
      /** Parameters that ask for the newest record. */
      readonly latest: Readonly<Record<string, string | number>>;
      readonly size: number;
      /** The first id. @default 1 */
      readonly first?: number | undefined;
    }
  /** Parameters for the number of records to pass over, and for how many are wanted. */
  | {
      readonly by: 'offset';
      readonly offset: string;
      readonly limit: string;
      readonly size: number;
    }
  /** Parameter for the number of the page; `size` is how many records a whole one has. */
  | {
      readonly by: 'page';
      readonly page: string;
      readonly size: number;
      /** The number of the first page. @default 1 */
      readonly first?: number | undefined;
    }
  /** Parameter for a cursor: from a path of the answer, or from a field of the last record. */
  | {
      readonly by: 'cursor';
      readonly cursor: string;
      readonly next?: string | undefined;
      readonly field?: string | undefined;
      /** Path to true or false: another page follows. @default one does while there is a cursor */
      readonly more?: string | undefined;
    }
  /** The address in the `Link` header, or at `next`; with `since` and `field` also by time. */
  | {
      readonly by: 'link';
      readonly next?: string | undefined;
      readonly since?: string | undefined;
      readonly field?: string | undefined;
    }
  /** Parameter for nanoseconds, which `next` of the answer tells for trades after its last one. */
  | {
      readonly by: 'moment';
      readonly since: string;
      readonly next: string;
      readonly limit: string;
      readonly size: number;
    }
  /** Parameter for a time: records from then on, by ascending `field`. */
  | { readonly by: 'time'; readonly since: string; readonly field: string; readonly size: number };

/** Limits that the API sets; the lowest rate counts. @default one request a second */
export interface Limits {
  readonly perSecond?: number | undefined;
  readonly perMinute?: number | undefined;
  readonly perHour?: number | undefined;
  /** Requests that may come at once after a pause. @default what the rate gives in 100 ms */
  readonly burst?: number | undefined;
  /** Requests of a process in flight, at most. */
  readonly atOnce?: number | undefined;
}

/** One thing in a declaration that cannot be. */
export interface Problem {
  readonly field: string;
  /** Completes "must be". */
  readonly rule: string;
  readonly value: unknown;
}

interface Rule {
  readonly rule: string;
  readonly isRight: (value: unknown) => boolean;
  readonly isOptional?: boolean;
}

type Rules = Readonly<Record<string, Rule>>;

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const object: Rule = { rule: 'an object', isRight: isObject };
const parameter: Rule = { rule: 'the name of a parameter', isRight: isText };
const field: Rule = { rule: 'the name of a field, or a path like a.b', isRight: isText };
const parameters: Rule = {
  rule: 'names with texts or numbers',
  isRight: (value) =>
    isObject(value) &&
    Object.values(value).every((one) => ['string', 'number', 'boolean'].includes(typeof one)),
};
const size: Rule = integer(1, 1_000_000);
const rate: Rule = optional({
  rule: 'a number above 0, up to 1,000,000',
  isRight: (value) => typeof value === 'number' && value > 0 && value <= 1_000_000,
});

function integer(min: number, max: number): Rule {
  const isRight = (value: unknown) =>
    Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  return { rule: `an integer from ${min} to ${max}`, isRight };
}

function optional(rule: Rule): Rule {
  return { ...rule, isOptional: true };
}

const keyRule: Rule = {
  rule: 'a field, or a list of fields',
  isRight: (value) =>
    isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText)),
};

const sourceRules: Rules = {
  name: {
    rule: 'small letters, digits and -, from 2 to 40, and no name of an exchange or of trades',
    isRight: (value) =>
      /^[a-z][a-z0-9-]{0,38}[a-z0-9]$/.test(String(value)) &&
      !['coinbase', 'kraken', 'binance', 'simulated', 'trades', 'ohlcv'].includes(String(value)),
  },
  address: {
    rule: 'an http:// or https:// address without a query, a password or another {} than {product}',
    isRight: (value) =>
      isText(value) &&
      /^https?:\/\/[^@/?#{}]+(\/[^?#{}]*)?$/.test(withoutBraces(value)) &&
      URL.canParse(withoutBraces(value)),
  },
  products: optional({
    rule: 'a list of names, none of them with . or .. between slashes, or path, records and field',
    isRight: (value) =>
      Array.isArray(value)
        ? value.length > 0 && value.every((one) => isText(one) && !dots.test(one))
        : isObject(value) && Object.values(value).every(isText) && isText(value.path),
  }),
  headers: optional({
    rule: 'names of headers with texts or numbers',
    isRight: (value) =>
      parameters.isRight(value) &&
      Object.keys(Object(value)).every((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name)),
  }),
  query: optional(parameters),
  records: optional({ ...field, rule: 'a path like data.items' }),
  key: optional(keyRule),
  time: optional(field),
  pages: object,
  limits: optional(object),
  columns: optional(object),
  trades: optional(object),
  unknown: optional({ rule: 'a text', isRight: isText }),
  check: optional({ rule: 'a function', isRight: (value) => typeof value === 'function' }),
  feed: optional(object),
};

const pageRules: Readonly<Record<string, Rules>> = {
  ids: { query: parameters, latest: parameters, size, first: optional(integer(0, 2 ** 50)) },
  offset: { offset: parameter, limit: parameter, size },
  page: { page: parameter, size, first: optional(integer(0, 1_000)) },
  cursor: {
    cursor: parameter,
    next: optional(field),
    field: optional(field),
    more: optional(field),
  },
  link: { next: optional(field), since: optional(parameter), field: optional(field) },
  time: { since: parameter, field, size },
  moment: { since: parameter, next: field, limit: parameter, size },
};

const place: Rule = {
  rule: 'the name of a field, or a place in a list',
  isRight: (value) => isText(value) || (Number.isInteger(value) && Number(value) >= 0),
};
const word: Rule = {
  rule: 'a text, true or false',
  isRight: (value) => isText(value) || typeof value === 'boolean',
};
const oneOf = (...words: readonly string[]): Rule => {
  return { rule: `one of ${words.join(', ')}`, isRight: (value) => words.includes(String(value)) };
};
const tradeRules: Rules = {
  id: place,
  price: place,
  quantity: place,
  time: object,
  side: object,
};
const timeRules: Rules = { field: place, as: oneOf('iso', 'epoch', 'seconds') };
const sideRules: Rules = { field: place, of: oneOf('maker', 'taker'), buy: word, sell: word };

const limitRules: Rules = {
  perSecond: rate,
  perMinute: rate,
  perHour: rate,
  burst: optional(integer(1, 1_000_000)),
  atOnce: optional(integer(1, 1_000)),
};

const columnTypes: Readonly<Record<string, RecordType>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  number: 'DOUBLE',
  date: 'DATE',
  time: 'TIMESTAMPTZ',
  json: 'JSON',
  text: 'VARCHAR',
};
const decimal = /^decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)$/;

/** The type of a declared column; undefined if there is none of that name. */
export function columnType(declared: unknown): RecordType | undefined {
  if (typeof declared !== 'string') return undefined;
  const [, width = 0, scale = 0] = (decimal.exec(declared) ?? []).map(Number);
  const isDecimal = width >= 1 && width <= 38 && scale < width;
  return isDecimal ? `DECIMAL(${width},${scale})` : columnTypes[declared];
}

/** Everything in it that cannot be; none if it can be used. */
export function problemsIn(value: unknown): readonly Problem[] {
  if (!isObject(value)) return [{ field: '', rule: 'an object with name, address …', value }];
  const found = problemsOf('', value, sourceRules);
  const { pages, limits, columns, products, address, query, trades } = value;
  if (isObject(pages)) found.push(...pageProblems(pages));
  if (isObject(limits)) found.push(...problemsOf('limits.', limits, limitRules));
  const rule = `${Object.keys(columnTypes).join(', ')} or decimal(18,9)`;
  for (const [name, type] of Object.entries(isObject(columns) ? columns : {})) {
    if (columnType(type) === undefined) found.push({ field: `columns.${name}`, rule, value: type });
  }
  if (trades === undefined) found.push(...keyProblems(value));
  else if (isObject(trades)) found.push(...tradeProblems(trades, pages));
  const places = `${address} ${JSON.stringify(query ?? '')}`;
  if (products !== undefined && isText(address) && !places.includes('{product}')) {
    found.push({ field: 'address', rule: 'one with {product} in it', value: address });
  }
  return found;
}

/** Problems of records that are no trades. */
function keyProblems({ key, pages }: Readonly<Record<string, unknown>>): readonly Problem[] {
  const { by } = Object(pages);
  if (key === undefined) return [{ field: 'key', rule: keyRule.rule, value: key }];
  if (by === 'moment') return [{ field: 'trades', rule: 'given, by moment', value: undefined }];
  if (by !== 'ids' || isText(key)) return [];
  return [{ field: 'key', rule: 'one field, where pages are by ids', value: key }];
}

function tradeProblems(
  trades: Readonly<Record<string, unknown>>,
  pages: unknown,
): readonly Problem[] {
  const found = problemsOf('trades.', trades, tradeRules);
  const { time, side } = trades;
  if (isObject(time)) found.push(...problemsOf('trades.time.', time, timeRules));
  if (isObject(side)) found.push(...problemsOf('trades.side.', side, sideRules));
  const { by } = Object(pages);
  if (by !== 'ids' && by !== 'moment') {
    found.push({ field: 'pages.by', rule: 'ids or moment, for trades', value: by });
  }
  return found;
}

function pageProblems(pages: Readonly<Record<string, unknown>>): readonly Problem[] {
  const { by, ...rest } = pages;
  const rules = isText(by) && Object.hasOwn(pageRules, by) ? pageRules[by] : undefined;
  const kinds = Object.keys(pageRules).join(', ');
  if (rules === undefined) return [{ field: 'pages.by', rule: `one of ${kinds}`, value: by }];
  const found = problemsOf('pages.', rest, rules);
  const count = [rest.next, rest.field].filter((one) => one !== undefined).length;
  if (by === 'cursor' && count !== 1) {
    found.push({ field: 'pages.next', rule: 'given, or else pages.field', value: rest.next });
  }
  if (by === 'link' && (rest.since === undefined) !== (rest.field === undefined)) {
    found.push({
      field: 'pages.since',
      rule: 'given together with pages.field',
      value: rest.since,
    });
  }
  return found;
}

function problemsOf(
  where: string,
  value: Readonly<Record<string, unknown>>,
  rules: Rules,
): Problem[] {
  const found: Problem[] = [];
  for (const [name, { rule, isRight, isOptional = false }] of Object.entries(rules)) {
    const given = value[name];
    if (given === undefined ? isOptional : isRight(given)) continue;
    found.push({ field: where + name, rule, value: given });
  }
  const names = Object.keys(rules).join(', ');
  for (const name of Object.keys(value).filter((one) => !Object.hasOwn(rules, one))) {
    found.push({ field: where + name, rule: `one of ${names}`, value: value[name] });
  }
  return found;
}

function withoutBraces(address: string): string {
  return address.replaceAll('{product}', 'product');
}

/** The problem as one line: field, rule, value. */
export function problemText({ field: name, rule, value }: Problem): string {
  const got = inspect(value, { depth: 0, maxStringLength: 80, breakLength: Infinity });
  return `${name === '' ? 'the file' : name}: must be ${rule}, got ${got}`;
}

/** Length of a declaration: the reader of YAML takes seconds and gigabytes for 10 MB. */
const bytesMax = 2 ** 20;

/** Reads what a file declares, unchecked: YAML or JSON, or the default export of a module. */
export async function readDeclaration(file: string): Promise<unknown> {
  const path = resolve(file);
  try {
    if (['.ts', '.mts', '.js', '.mjs'].includes(extname(path))) {
      return (await import(pathToFileURL(path).href)).default;
    }
    const { size } = await stat(path);
    if (size > bytesMax) throw new Error(`it has ${size} bytes, at most ${bytesMax} are read`);
    return filled(parse(await readFile(path, 'utf8')));
  } catch (cause) {
    const { message } = cause as Error;
    throw ingestError('SOURCE_INVALID', `${path}: cannot be read: ${message}`, { cause });
  }
}

/** The same without fields that have no value: a name with nothing after it says nothing. */
function filled(value: unknown): unknown {
  if (!isObject(value)) return value;
  const given = Object.entries(value).filter(([, one]) => one !== null);
  return Object.fromEntries(given.map(([name, one]) => [name, filled(one)]));
}

/** The source that a file declares; rejects with `SOURCE_INVALID` and every problem in it. */
export async function loadDeclaration(file: string): Promise<Declaration> {
  const value = await readDeclaration(file);
  const problems = problemsIn(value);
  if (problems.length === 0) return value as Declaration;
  const lines = problems.map(problemText).join('\n');
  throw ingestError('SOURCE_INVALID', `${resolve(file)}:\n${lines}`);
}
