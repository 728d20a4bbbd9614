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

/** One thing in a declaration that cannot be. */
export interface Problem {
  readonly field: string;
  /** Completes "must be". */
  readonly rule: string;
  readonly value: unknown;
}

/** A rule for one field. What keeps it has the type `T`, so that neither is written twice. */
interface Rule<T> {
  /** Completes "must be". */
  readonly rule: string;
  readonly isRight: (value: unknown) => boolean;
  readonly isOptional?: boolean;
  /** Finds problems in the fields of a value that is an object. */
  readonly within?: (fields: Fields, where: string) => readonly Problem[];
  /** Never there: only the compiler reads it. */
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

/** The ways from one page to the next. */
const pageRules = {
  /** Ids without holes: `{from}`, `{to}`, `{last}` and `{size}` stand for the ids of a page. */
  ids: {
    query: parameters,
    /** Parameters that ask for the newest record. */
    latest: parameters,
    size,
    /** The first id. @default 1 */
    first: optional(integer(0, 2 ** 50)),
  },
  /** Parameters for the number of records to pass over, and for how many are wanted. */
  offset: { offset: parameter, limit: parameter, size },
  /** Parameter for the number of the page; `size` is how many records a whole one has. */
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
    /** Path to true or false: another page follows. @default one does while there is a cursor */
    more: optional(field),
  },
  /** The address in the `Link` header, or at `next`; with `since` and `field` also by time. */
  link: { next: optional(field), since: optional(parameter), field: optional(field) },
  /** Parameter for a time: records from then on, by ascending `field`. */
  time: { since: parameter, field, size },
  /** Parameter for nanoseconds, which `next` of the answer tells for trades after its last one. */
  moment: { since: parameter, next: field, limit: parameter, size },
};

type PageRules = typeof pageRules;

/** The way from one page to the next. */
export type Pages = {
  [By in keyof PageRules]: { readonly by: By } & Ruled<PageRules[By]>;
}[keyof PageRules];

const rate = optional(
  ruled<number>('a number above 0, up to 1,000,000', (value) => {
    return typeof value === 'number' && value > 0 && value <= 1_000_000;
  }),
);

/** Limits that the API sets; the lowest rate counts. @default one request a second */
const limitRules = {
  perSecond: rate,
  perMinute: rate,
  perHour: rate,
  /** Requests that may come at once after a pause. @default what the rate gives in 100 ms */
  burst: optional(integer(1, 1_000_000)),
  /** Requests of a process in flight, at most. */
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
  /** The side of the order that stood in the book, the maker's, or of the one that met it. */
  side: object({ field: place, of: oneOf('maker', 'taker'), buy: word, sell: word }),
};

/** The fields of records that are trades; they go into the table of trades. */
export type TradeFields = Ruled<typeof tradeRules>;

/** A question for the products of an API. */
export interface ProductList {
  /** Path below the host of the address. */
  readonly path: string;
  /** Path to the list in the answer. @default the answer itself */
  readonly records?: string | undefined;
  /** Field with the name of a product. @default the names of the fields there are the products */
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
   * Lists that the address has, such as repositories, or how the API is asked for them.
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
  /** Sent with every request; `${NAME}` is the variable of that name, and never shown. */
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
  /** Field, or fields, by which records are the same; the later one replaces the earlier. */
  key: optional(
    ruled<string | readonly string[]>('a field, or a list of fields', (value) => {
      return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText));
    }),
  ),
  /** Field with the time that tells the day of a record. @default none: all are of one day */
  time: optional(field),
  pages: { ...ruled<Pages>('an object', isObject), within: pageProblems },
  limits: optional(object(limitRules)),
  /** Types of fields; those of the others are found by sampling. */
  columns: optional({ ...ruled<Texts>('an object', isObject), within: columnProblems }),
  /** Fields of records that are trades. @default they are not: each field is a column */
  trades: optional(object(tradeRules)),
  /** Text in a refusal that there is no such product. @default any refusal with status 404 */
  unknown: optional(text('a text')),
  /** Throws if an answer with status 200 tells of a fault; for modules. */
  check: optional(
    ruled<(body: unknown) => void>('a function', (value) => typeof value === 'function'),
  ),
  /** Live trades; for modules. */
  feed: optional(ruled<FeedDeclaration>('an object', isObject)),
};

/** One API that gives records in pages, as people declare it in a file. */
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

/** The type of a declared column; undefined if there is none of that name. */
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

/** Everything in it that cannot be; none if it can be used. */
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

/** Problems of records that are no trades. */
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
    const why = `${path}: cannot be read: ${(cause as Error).message}`;
    throw ingestError('SOURCE_INVALID', why, { cause });
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
