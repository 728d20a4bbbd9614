import { columnsMax, recordBytesMax } from '../table/records.ts';
import { at, fieldChanged, microseconds, parseAnswer, wellFormed } from './answer.ts';
import type { ConnectorOptions } from './connector.ts';
import type { Declaration, Limits } from './declaration.ts';
import { ExchangeClient } from './exchange-client.ts';
import { isSecret, Secrets } from './secrets.ts';

export interface DeclaredOptions extends ConnectorOptions {
  /** Variables that the declaration names as `${NAME}`. */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
}

/** One record of an answer. */
export interface Found {
  /** JSON; numbers that do not fit a double are texts. */
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
  /** Microseconds since 1970; 0 if no time is declared. */
  readonly us: bigint;
}

/** One answer of the API. */
export interface Answer {
  readonly records: readonly Found[];
  readonly body: unknown;
  readonly headers: Headers;
  /** Path of the next page: from the `Link` header, or from the answer. */
  readonly link: string | undefined;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Parameters of a request. */
export type Query = Readonly<Record<string, string>>;

/** Sends requests to a declared API, and finds the records in its answers. */
export class Api implements AsyncDisposable {
  readonly baseUrl: string;
  readonly guard: NonNullable<ConnectorOptions['guard']>;
  readonly #source: Declaration;
  readonly #client: ExchangeClient;
  readonly #path: string;
  readonly #origins: readonly string[];
  readonly #query: Declaration['query'];
  /** Names of query parameters with secret values. */
  readonly #hidden: readonly string[];
  readonly secrets: Secrets;
  readonly isReached = (): boolean => this.#client.isReached;

  constructor(source: Declaration, options: DeclaredOptions) {
    const { name, address, headers = {}, query = {}, unknown } = source;
    const [, origin = '', path = ''] = /^(https?:\/\/[^/]+)(.*)$/.exec(address) ?? [];
    const { environment = {}, ...rest } = options;
    this.baseUrl = options.baseUrl ?? origin;
    this.guard = options.guard ?? ((request, signal) => request(signal));
    this.#source = source;
    this.#path = path === '' ? '/' : path;
    const all = Object.entries(query);
    this.#query = Object.fromEntries(all.filter(([, value]) => !isSecret(value)));
    const secrets = all.filter(([, value]) => isSecret(value));
    this.#hidden = secrets.map(([key]) => key);
    this.secrets = new Secrets(environment);
    const filled = (where: string, [key, value]: readonly [string, unknown]): [string, string] => [
      key,
      this.secrets.fill(`${name}: ${where}.${key}`, String(value)),
    ];
    const pairs = Object.entries(headers).map((pair) => filled('headers', pair));
    this.#client = new ExchangeClient({
      ...rest,
      exchange: name,
      baseUrl: this.baseUrl,
      headers: Object.fromEntries(pairs.map(([key, value]) => [key.toLowerCase(), value])),
      secretQuery: new URLSearchParams(secrets.map((pair) => filled('query', pair))).toString(),
      askMs: 1_000 / (options.ratePerSecond ?? rateOf(source.limits)),
      isUnknown: (status, text) =>
        unknown === undefined ? status === 404 : text.includes(unknown),
      hide: (text) => this.secrets.hide(text),
    });
    this.#origins = [new URL(origin).origin, new URL(this.baseUrl).origin];
  }

  /** Makes the path of a request, without secrets. */
  #pathOf(product: string, query: Query | string): string {
    if (typeof query === 'string') return query;
    const own = product.split('/').map(encodeURIComponent).join('/');
    const parts = Object.entries({ ...this.#query, ...query });
    const all = parts.map(([key, value]): [string, string] => {
      return [key, String(value).replaceAll('{product}', () => product)];
    });
    const text = new URLSearchParams(all).toString();
    return `${this.#path.replaceAll('{product}', own)}${text === '' ? '' : `?${text}`}`;
  }

  /** Sends a request, and returns the result of `read` for the answer. */
  async ask<T>(
    product: string,
    query: Query | string,
    signal: AbortSignal,
    read: (body: unknown, headers: Headers) => T,
  ): Promise<T> {
    const { name, trades, check } = this.#source;
    const hide = (text: string) => this.secrets.hide(text);
    const exact = trades === undefined ? 'text' : 'raw';
    const path = this.#pathOf(product, query);
    return await this.secrets.guard(() =>
      this.#client.get(path, signal, (bytes, headers) => {
        const body = parseAnswer(name, bytes, { exact, hide });
        check?.(body);
        return read(body, headers);
      }),
    );
  }

  /** Fetches a page of records. */
  async get(product: string, query: Query | string, signal: AbortSignal): Promise<Answer> {
    const path = this.#pathOf(product, query);
    return await this.ask(product, query, signal, (body, headers) => {
      const link = this.#linkIn(this.#nextIn(body, headers), path);
      return { body, headers, records: this.recordsIn(body), link };
    });
  }

  /** Fetches the products of the API, or returns the declared ones. */
  async products(signal: AbortSignal): Promise<readonly string[]> {
    const { name, products = [name] } = this.#source;
    if (!('path' in products)) return products;
    const { path, records = '', field } = products;
    const list = await this.guard(
      (caller) => this.ask('', path, caller, (body) => (records === '' ? body : at(body, records))),
      signal,
    );
    if (field === undefined) return Object.keys(Object(list)).sort(byText);
    const where = records === '' ? 'products' : records;
    if (!Array.isArray(list)) throw fieldChanged(name, where, 'a list', list);
    const ids = list.map((product, place): string => {
      const id: unknown = Object(product)[field];
      if (typeof id === 'string') return id;
      throw fieldChanged(name, `${where}[${place}].${field}`, 'a text', id);
    });
    return ids.sort(byText);
  }

  /** Finds the list of records; a path that ends in `*` means the only list in that object. */
  listIn(body: unknown): unknown {
    const { name, records = '', pages } = this.#source;
    if (records === '') return body;
    const [, parent] = /^(.+)\.\*$/.exec(records) ?? [];
    if (parent === undefined) return at(body, records);
    const found = Object(at(body, parent));
    const lists = Object.values(found).filter(Array.isArray);
    if (lists.length === 1) return lists[0];
    const next = 'next' in pages ? ` and \`${pages.next?.split('.').at(-1)}\`` : '';
    throw fieldChanged(name, parent, `one list${next}`, Object.keys(found));
  }

  recordsIn(body: unknown): readonly Found[] {
    const { name, records = '', key, time } = this.#source;
    const found = this.listIn(body);
    // Programs in Go and others write an empty list as null.
    const list = found === null ? [] : found;
    const where = records === '' ? 'the answer' : records;
    if (!Array.isArray(list)) throw fieldChanged(name, where, 'a list of records', list);
    const keys = keysOf(key);
    return list.map((value, place): Found => {
      const item = `${records === '' ? 'records' : records}[${place}]`;
      if (typeof value !== 'object' || value === null || Array.isArray(value)) {
        throw fieldChanged(name, item, 'an object', value);
      }
      const fields = Object.keys(value).length;
      if (fields > columnsMax) {
        throw fieldChanged(name, item, `of at most ${columnsMax} fields`, fields);
      }
      for (const one of keys) {
        const part: unknown = value[one];
        const isPart = ['string', 'number', 'boolean'].includes(typeof part);
        // Keys with different lone surrogates would become the same text.
        if (isPart && String(part).isWellFormed()) continue;
        throw fieldChanged(name, `${item}.${one}`, 'a text or a number, as it is the key', part);
      }
      const us = time === undefined ? 0n : microseconds(at(value, time));
      if (us === undefined) {
        const rule = 'a time: ISO 8601, or seconds, milli- or microseconds since 1970';
        throw fieldChanged(name, `${item}.${time}`, rule, at(value, time as string));
      }
      const text = wellFormed(JSON.stringify(value));
      if (Buffer.byteLength(text) <= recordBytesMax) return { text, value, us };
      throw fieldChanged(name, item, `at most ${recordBytesMax} bytes of JSON`, text);
    });
  }

  /** Returns the address of the next page: from the declared field, or from the header. */
  #nextIn(body: unknown, { link }: Headers): string | undefined {
    const { name, pages } = this.#source;
    if (pages.by !== 'link' || pages.next === undefined) return nextLink(String(link ?? ''));
    const next = at(body, pages.next) ?? '';
    if (typeof next === 'string') return next === '' ? undefined : next;
    throw fieldChanged(name, pages.next, 'the address of the next page', next);
  }

  /** Makes a path of the address of the next page, without secrets, for the checkpoint. */
  #linkIn(address: string | undefined, path: string): string | undefined {
    if (address === undefined) return undefined;
    const url = URL.parse(address, `${this.baseUrl}${path}`);
    if (url === null || !this.#origins.includes(url.origin)) {
      const { name } = this.#source;
      throw fieldChanged(name, 'link', `an address at ${this.#origins[0]}`, address);
    }
    for (const parameter of this.#hidden) url.searchParams.delete(parameter);
    const prefix = new URL(this.baseUrl).pathname.replace(/\/+$/, '');
    const { pathname, search } = url;
    return `${pathname.startsWith(prefix) ? pathname.slice(prefix.length) : pathname}${search}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }
}

const links = /<([^<>]*)>((?:\s*;\s*[^\s;,=<]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)/g;
const parameters = /;\s*([^\s;,=]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))/g;

/** Returns the target of the first link with `rel=next` in a `Link` header (RFC 8288). */
function nextLink(header: string): string | undefined {
  for (const [, target, rest = ''] of header.matchAll(links)) {
    const all = [...rest.matchAll(parameters)];
    const [, , quoted, word = ''] = all.find(([, name]) => name?.toLowerCase() === 'rel') ?? [];
    if ((quoted ?? word).toLowerCase().split(/\s+/).includes('next')) return target;
  }
  return undefined;
}

/** Compares by code units, which is the same in every locale. */
const byText = (a: string, b: string): number => (a < b ? -1 : 1);

/** Returns the requests a second that the declared limits permit. */
export function rateOf({ perSecond, perMinute, perHour }: Limits = {}): number {
  const rates = [perSecond, perMinute && perMinute / 60, perHour && perHour / 3600];
  const given = rates.filter((rate) => rate !== undefined);
  return given.length === 0 ? 1 : Math.min(...given);
}

/** Returns the fields of a key as a list. */
export function keysOf(key: Declaration['key'] = []): readonly string[] {
  return typeof key === 'string' ? [key] : key;
}
