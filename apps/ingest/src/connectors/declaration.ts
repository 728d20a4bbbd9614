import { readFile, stat } from 'node:fs/promises';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { parse } from 'yaml';
import { ingestError } from '../errors.ts';
import type { RecordType } from '../table/records.ts';
import { dots } from './exchange-client.ts';
import type { FeedDeclaration } from './feed-form.ts';
import type { FieldName } from './trades.ts';

/** A field of a declaration that breaks its rule. */
export interface Problem {
  readonly field: string;
  /** Completes "must be". */
  readonly rule: string;
  readonly value: unknown;
}

/** A rule for one field; `T` is the type of values that keep it: types follow from rules. */
interface Rule<T> {
  /** Completes "must be". */
  readonly rule: string;
  readonly isRight: (value: unknown) => boolean;
  readonly isOptional?: boolean;
  /** Finds problems inside of a value that is an object. */
  readonly within?: (fields: Fields, where: string) => readonly Problem[];
  /** For the compiler only; never set. */
  readonly type?: T;
}

interface Optional<T> extends Rule<T> {
  readonly isOptional: true;
}

type Fields = Readonly<Record<string, unknown>>;
type Rules = Readonly<Record<string, Rule<unknown>>>;
type Texts<T = string> = Readonly<Record<string, T>>;
type ValueOf<R> = R extends Rule<infer T> ? T : never;
type OptionalIn<R> = { [Name in keyof R]: R[Name] extends Optional<unknown> ? Name : never };

/** The type of objects that keep these rules. */
type Ruled<R, Lacking extends keyof R = OptionalIn<R>[keyof R]> = {
  readonly [Name in Exclude<keyof R, Lacking>]: ValueOf<R[Name]>;
} & { readonly [Name in Lacking]?: ValueOf<R[Name]> | undefined };

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isParameters = (value: unknown): boolean =>
  isObject(value) &&
  Object.values(value).every((one) => ['string', 'number', 'boolean'].includes(typeof one));

function ruled<T>(rule: string, isRight: (value: unknown) => boolean): Rule<T> {
  return { rule, isRight };
}

function text(rule: string): Rule<string> {
  return ruled(rule, isText);
}

function integer(min: number, max: number): Rule<number> {
  return ruled(`an integer from ${min} to ${max}`, (value) => {
    return Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  });
}

function oneOf<const T extends string>(...words: readonly T[]): Rule<T> {
  return ruled(`one of ${words.join(', ')}`, (value) => words.some((word) => word === value));
}

function object<R extends Rules>(rules: R): Rule<Ruled<R>> {
  const within = (fields: Fields, where: string) => problemsOf(fields, rules, where);
  return { rule: 'an object', isRight: isObject, within };
}

function optional<T>(rule: Rule<T>): Optional<T> {
  return { ...rule, isOptional: true };
}

const parameter = text('the name of a parameter');
const field = text('the name of a field, or a path like a.b');
const parameters = ruled<Texts<string | number>>('names with texts or numbers', isParameters);
const size = integer(1, 1_000_000);

/** The kinds of paging. */
const pageRules = {
  /** Ids without holes; `{from}`, `{to}`, `{last}` and `{size}` stand for those of a page. */
  ids: {
    query: parameters,
    /** Parameters of a request for the newest record. */
    latest: parameters,
    size,
    /** The first id. @default 1 */
    first: optional(integer(0, 2 ** 50)),
  },
  /** Parameters for the number of records to skip, and for the number to return. */
  offset: { offset: parameter, limit: parameter, size },
  /** Parameter for the number of the page; a full page has `size` records. */
  page: {
    page: parameter,
    size,
    /** The number of the first page. @default 1 */
    first: optional(integer(0, 1_000)),
  },
  /** Parameter for a cursor: from a path of the answer, a header, or a field of the last record. */
  cursor: {
    cursor: parameter,
    next: optional(field),
    header: optional(text('the name of a header')),
    field: optional(field),
    /** Path to true or false, whether another page follows. @default true if there is a cursor */
    more: optional(field),
  },
  /** The address in the `Link` header, or at the path `next`; with `since` and `field` by time. */
  link: { next: optional(field), since: optional(parameter), field: optional(field) },
  /** Parameter for a time, from which on records come by ascending `field`. */
  time: { since: parameter, field, size },
  /** Parameter for a time in nanoseconds; the path `next` has that of the next page. */
  moment: { since: parameter, next: field, limit: parameter, size },
};

type PageRules = typeof pageRules;

/** The paging of a source. */
export type Pages = {
  [By in keyof PageRules]: { readonly by: By } & Ruled<PageRules[By]>;
}[keyof PageRules];

const rate = optional(
  ruled<number>('a number above 0, up to 1,000,000', (value) => {
    return typeof value === 'number' && value > 0 && value <= 1_000_000;
  }),
);

/** Limits of the API; the lowest rate counts. @default one request a second */
const limitRules = {
  perSecond: rate,
  perMinute: rate,
  perHour: rate,
  /** Requests that may come at once after a pause. @default those of 100 ms */
  burst: optional(integer(1, 1_000_000)),
  /** Largest number of requests of a process in flight. */
  atOnce: optional(integer(1, 1_000)),
};

export type Limits = Ruled<typeof limitRules>;

const place = ruled<FieldName>('the name of a field, or a place in a list', (value) => {
  return isText(value) || (Number.isInteger(value) && Number(value) >= 0);
});
const word = ruled<string | boolean>('a text, true or false', (value) => {
  return isText(value) || typeof value === 'boolean';
});

const tradeRules = {
  /** A whole number. */
  id: place,
  /** Decimals in quotes. */
  price: place,
  quantity: place,
  /** ISO 8601 in UTC, whole milli- or microseconds since 1970, or seconds with a fraction. */
  time: object({ field: place, as: oneOf('iso', 'epoch', 'seconds') }),
  /** The side of the maker's order (in the book) or of the taker's (the one that met it). */
  side: object({ field: place, of: oneOf('maker', 'taker'), buy: word, sell: word }),
};

/** The fields that make a record a trade, for the table of trades. */
export type TradeFields = Ruled<typeof tradeRules>;

/** The request for the products of an API. */
export interface ProductList {
  /** Path below the host of the address. */
  readonly path: string;
  /** Path to the list in the answer. @default the answer itself */
  readonly records?: string | undefined;
  /** Field with the name of a product. @default the list is an object whose keys are products */
  readonly field?: string | undefined;
}

const sourceRules = {
  /** Part of paths, and the name of its view in SQL: `github-issues` is `github_issues`. */
  name: ruled<string>(
    'small letters, digits and -, from 2 to 40, and no name of an exchange or of trades',
    (value) =>
      isText(value) &&
      /^[a-z][a-z0-9-]{0,38}[a-z0-9]$/.test(value) &&
      !['coinbase', 'kraken', 'binance', 'simulated', 'trades', 'ohlcv'].includes(value),
  ),
  /** Address of a page, where `{product}` stands for one of `products`. */
  address: ruled<string>(
    'an http:// or https:// address without a query, a password or another {} than {product}',
    (value) =>
      isText(value) &&
      /^https?:\/\/[^@/?#{}]+(\/[^?#{}]*)?$/.test(withoutBraces(value)) &&
      URL.canParse(withoutBraces(value)),
  ),
  /**
   * Lists at the address, such as repositories, or how to request their names.
   * @default one, named after the source
   */
  products: optional(
    ruled<readonly string[] | ProductList>(
      'a list of names, none of them with . or .. between slashes, or path, records and field',
      (value) =>
        Array.isArray(value)
          ? value.length > 0 && value.every((one) => isText(one) && !dots.test(one))
          : isObject(value) && Object.values(value).every(isText) && isText(value.path),
    ),
  ),
  /** Sent with every request; `${NAME}` stands for a variable, whose value is never shown. */
  headers: optional(
    ruled<Texts>('names of headers with texts or numbers', (value) => {
      const names = Object.keys(Object(value));
      return isParameters(value) && names.every((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name));
    }),
  ),
  /** Parameters of every request; `${NAME}` as in `headers`, `{product}` as in the address. */
  query: optional<Texts<string | number | boolean>>(parameters),
  /** Path to the list of records in an answer, such as `data.items`. @default the answer itself */
  records: optional(text('a path like data.items')),
  /** Field, or fields, that identify a record; a later record with the same key replaces it. */
  key: optional(
    ruled<string | readonly string[]>('a field, or a list of fields', (value) => {
      return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText));
    }),
  ),
  /** Field with the time of a record, which tells its day. @default none: all are of one day */
  time: optional(field),
  pages: { ...ruled<Pages>('an object', isObject), within: pageProblems },
  limits: optional(object(limitRules)),
  /** Types of fields; those of other fields are inferred from all values. */
  columns: optional({ ...ruled<Texts>('an object', isObject), within: columnProblems }),
  /** Fields that make a record a trade. @default none: each field is a column */
  trades: optional(object(tradeRules)),
  /** Text in the answer for an unknown product. @default any answer with status 404 */
  unknown: optional(text('a text')),
  /** Throws for an answer with status 200 that reports an error; in modules only. */
  check: optional(
    ruled<(body: unknown) => void>('a function', (value) => typeof value === 'function'),
  ),
  /** Feed of live trades; in modules only. */
  feed: optional(ruled<FeedDeclaration>('an object', isObject)),
};

/** An API with pages of records, as declared in a file. */
export type Declaration = Ruled<typeof sourceRules>;

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

/** Returns the type for a declared name; undefined if there is none. */
export function columnType(declared: unknown): RecordType | undefined {
  if (typeof declared !== 'string') return undefined;
  const [, width = 0, scale = 0] = (decimal.exec(declared) ?? []).map(Number);
  const isDecimal = width >= 1 && width <= 38 && scale < width;
  return isDecimal ? `DECIMAL(${width},${scale})` : columnTypes[declared];
}

function columnProblems(columns: Fields, where: string): readonly Problem[] {
  const rule = `${Object.keys(columnTypes).join(', ')} or decimal(18,9)`;
  return Object.entries(columns)
    .filter(([, type]) => columnType(type) === undefined)
    .map(([name, value]) => ({ field: where + name, rule, value }));
}

/** Lists every problem of a declaration. */
export function problemsIn(value: unknown): readonly Problem[] {
  if (!isObject(value)) return [{ field: '', rule: 'an object with name, address …', value }];
  const found = problemsOf(value, sourceRules);
  const { pages, products, address, query, trades } = value;
  const { by } = Object(pages);
  if (trades === undefined) found.push(...keyProblems(value));
  else if (isObject(trades) && by !== 'ids' && by !== 'moment') {
    found.push({ field: 'pages.by', rule: 'ids or moment, for trades', value: by });
  }
  const places = [address, ...Object.values(Object(query))].filter(isText);
  const isPlaced = places.some((one) => one.includes('{product}'));
  if (products !== undefined && isText(address) && !isPlaced) {
    found.push({ field: 'address', rule: 'one with {product} in it', value: address });
  }
  return found;
}

/** Lists problems of the key, for records that are no trades. */
function keyProblems({ key, pages }: Fields): readonly Problem[] {
  const { by } = Object(pages);
  if (key === undefined) return [{ field: 'key', rule: sourceRules.key.rule, value: key }];
  if (by === 'moment') return [{ field: 'trades', rule: 'given, by moment', value: undefined }];
  if (by !== 'ids' || isText(key)) return [];
  return [{ field: 'key', rule: 'one field, where pages are by ids', value: key }];
}

function pageProblems({ by, ...rest }: Fields, where: string): readonly Problem[] {
  const kinds = Object.keys(pageRules).join(', ');
  if (!isText(by) || !Object.hasOwn(pageRules, by)) {
    return [{ field: 'pages.by', rule: `one of ${kinds}`, value: by }];
  }
  const found = problemsOf(rest, pageRules[by as keyof PageRules], where);
  const given = [rest.next, rest.header, rest.field].filter((one) => one !== undefined);
  if (by === 'cursor' && given.length !== 1) {
    const rule = 'given, or else pages.header or pages.field';
    found.push({ field: 'pages.next', rule, value: rest.next });
  }
  if (by === 'link' && (rest.since === undefined) !== (rest.field === undefined)) {
    found.push({ field: 'pages.since', rule: 'given with pages.field', value: rest.since });
  }
  return found;
}

function problemsOf(value: Fields, rules: Rules, where = ''): Problem[] {
  const found: Problem[] = [];
  const inside: Problem[] = [];
  for (const [name, { rule, isRight, isOptional, within }] of Object.entries(rules)) {
    const given = value[name];
    if (given === undefined && isOptional) continue;
    if (!isRight(given)) found.push({ field: where + name, rule, value: given });
    else if (within !== undefined) inside.push(...within(given as Fields, `${where}${name}.`));
  }
  const names = Object.keys(rules).join(', ');
  for (const name of Object.keys(value).filter((one) => !Object.hasOwn(rules, one))) {
    found.push({ field: where + name, rule: `one of ${names}`, value: value[name] });
  }
  return [...found, ...inside];
}

function withoutBraces(address: string): string {
  return address.replaceAll('{product}', 'product');
}

/** Describes a problem in one line: field, rule, value. */
export function problemText({ field: name, rule, value }: Problem): string {
  const got = inspect(value, { depth: 0, maxStringLength: 80, breakLength: Infinity });
  return `${name === '' ? 'the file' : name}: must be ${rule}, got ${got}`;
}

/** Largest declaration in bytes: the YAML parser takes seconds and gigabytes for 10 MB. */
const bytesMax = 2 ** 20;

/** Reads a declaration without checking it: YAML, JSON, or the default export of a module. */
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
    const why = `${path}: cannot be read: ${(cause as Error).message}`;
    throw ingestError('SOURCE_INVALID', why, { cause });
  }
}

/** Leaves out fields without a value, as in `limits:` with nothing after it. */
function filled(value: unknown): unknown {
  if (!isObject(value)) return value;
  const given = Object.entries(value).filter(([, one]) => one !== null);
  return Object.fromEntries(given.map(([name, one]) => [name, filled(one)]));
}

/** Reads and checks a declaration; rejects with `SOURCE_INVALID` and every problem. */
export async function loadDeclaration(file: string): Promise<Declaration> {
  const value = await readDeclaration(file);
  const problems = problemsIn(value);
  if (problems.length === 0) return value as Declaration;
  const lines = problems.map(problemText).join('\n');
  throw ingestError('SOURCE_INVALID', `${resolve(file)}:\n${lines}`);
}
