import { recordBytesMax } from '../table/records.ts';
import type { ConnectorOptions } from './connector.ts';
import type { Declaration } from './declaration.ts';
import { ExchangeClient } from './exchange-client.ts';
import { isSecret, Secrets } from './secrets.ts';
import { parseAnswer } from './trade-page.ts';
import { fieldChanged } from './trade-scanner.ts';

export interface DeclaredOptions extends ConnectorOptions {
  /** Variables that the declaration names as `${NAME}`. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** One record of an answer. */
export interface Found {
  /** JSON, with every number that a double does not hold as text. */
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
  /** Microseconds since 1970; 0 if no time is declared. */
  readonly us: bigint;
}

/** One answer of the API. */
export interface Answer {
  readonly records: readonly Found[];
  readonly body: unknown;
  /** Path of the next page by the `Link` header. */
  readonly link: string | undefined;
}

/** Parameters of a request. */
export type Query = Readonly<Record<string, string>>;

/** Asks the API that is declared, and finds the records in its answers. */
export class Api implements AsyncDisposable {
  readonly baseUrl: string;
  readonly guard: NonNullable<ConnectorOptions['guard']>;
  readonly #source: Declaration;
  readonly #client: ExchangeClient;
  readonly #path: string;
  readonly #origins: readonly string[];
  readonly #query: Query;
  /** Names of parameters whose values are secret. */
  readonly #hidden: readonly string[];
  readonly secrets: Secrets;

  constructor(source: Declaration, options: DeclaredOptions) {
    const { name, address, headers = {}, query = {} } = source;
    const [, origin = '', path = ''] = /^(https?:\/\/[^/]+)(.*)$/.exec(address) ?? [];
    const { environment, ...rest } = options;
    this.baseUrl = options.baseUrl ?? origin;
    this.guard = options.guard ?? ((request, signal) => request(signal));
    this.#source = source;
    this.#path = path === '' ? '/' : path;
    this.#origins = [new URL(origin).origin, new URL(this.baseUrl).origin];
    const all = Object.entries(query);
    this.#query = Object.fromEntries(
      all.filter(([, value]) => !isSecret(value)).map(([key, value]) => [key, String(value)]),
    );
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
      isUnknown: (status) => status === 404,
      hide: (text) => this.secrets.hide(text),
    });
  }

  /** The path of a request as messages show it. */
  pathOf(product: string, query: Query | string): string {
    if (typeof query === 'string') return query;
    const own = product.split('/').map(encodeURIComponent).join('/');
    const all = new URLSearchParams({ ...this.#query, ...query }).toString();
    return `${this.#path.replaceAll('{product}', own)}${all === '' ? '' : `?${all}`}`;
  }

  async get(product: string, query: Query | string, signal: AbortSignal): Promise<Answer> {
    const path = this.pathOf(product, query);
    return await this.#client.get(path, signal, (bytes, headers) => {
      const { name } = this.#source;
      const hide = (text: string) => this.secrets.hide(text);
      const body = parseAnswer(name, bytes, { reviver: exactly, hide });
      return { body, records: this.#recordsIn(body), link: this.#linkIn(headers.link) };
    });
  }

  #recordsIn(body: unknown): readonly Found[] {
    const { name, records = '', key, time } = this.#source;
    const list = records === '' ? body : at(body, records);
    const where = records === '' ? 'the answer' : records;
    if (!Array.isArray(list)) throw fieldChanged(name, where, 'a list of records', list);
    const keys = keysOf(key);
    return list.map((value, place): Found => {
      const item = `${records === '' ? 'records' : records}[${place}]`;
      if (typeof value !== 'object' || value === null || Array.isArray(value)) {
        throw fieldChanged(name, item, 'an object', value);
      }
      for (const one of keys) {
        const part: unknown = value[one];
        if (!['string', 'number', 'boolean'].includes(typeof part)) {
          throw fieldChanged(name, `${item}.${one}`, 'a text or a number, as it is the key', part);
        }
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

  /** The path to the next page, without secrets: it is kept in the checkpoint. */
  #linkIn(header: string | string[] | undefined): string | undefined {
    const [, address] = /<([^>]*)>\s*;[^,<]*\brel="?next"?/.exec(String(header ?? '')) ?? [];
    if (address === undefined) return undefined;
    const url = new URL(address, `${this.baseUrl}/`);
    if (!this.#origins.includes(url.origin)) {
      const { name } = this.#source;
      throw fieldChanged(name, 'link', `an address at ${this.#origins[0]}`, address);
    }
    for (const parameter of this.#hidden) url.searchParams.delete(parameter);
    const prefix = new URL(this.baseUrl).pathname.replace(/\/+$/, '');
    const path = url.pathname.startsWith(prefix) ? url.pathname.slice(prefix.length) : url.pathname;
    return `${path}${url.search}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }
}

/** Leaves a number as its text where a double would change a digit of it. */
function exactly(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const { source = '' } = context ?? {};
  if (typeof value !== 'number' || /^-?\d{1,15}$/.test(source)) return value;
  return digitsOf(source) === digitsOf(String(value)) ? value : source;
}

/** JSON with U+FFFD for halves of characters, which other readers of JSON refuse. */
function wellFormed(json: string): string {
  if (!json.includes('\\ud')) return json;
  // `JSON.stringify` escapes halves, and nothing else that begins with d.
  return json.replaceAll(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (found) =>
    found.length > 2 ? '\ufffd' : found,
  );
}

function digitsOf(number: string): string {
  const [digits = ''] = number.toLowerCase().split('e');
  return digits.replace(/[-.]/g, '').replace(/^0+|0+$/g, '');
}

/** The value at a path like `a.b.0`; a field of just that name comes first. */
export function at(value: unknown, path: string): unknown {
  const whole: unknown = Object(value)[path];
  if (whole !== undefined) return whole;
  return path.split('.').reduce((part: unknown, name) => Object(part)[name], value);
}

const iso = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.(\d+))?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

/** Microseconds since 1970; a time without a zone is one of UTC. */
export function microseconds(value: unknown): bigint | undefined {
  if (typeof value === 'number' || (typeof value === 'string' && /^\d{9,19}$/.test(value))) {
    const number = Number(value);
    const scale = number < 1e11 ? 1e6 : number < 1e14 ? 1e3 : number < 1e17 ? 1 : 1e-3;
    return Number.isFinite(number) ? BigInt(Math.round(number * scale)) : undefined;
  }
  if (typeof value !== 'string') return undefined;
  const found = iso.exec(value);
  if (found === null) return undefined;
  const [, fraction = ''] = found;
  const isZoned = /[T ].*(Z|[+-]\d\d:?\d\d)$/.test(value) || value.length === 10;
  const ms = Date.parse(`${value.replace(/\.\d+/, '').replace(' ', 'T')}${isZoned ? '' : 'Z'}`);
  if (Number.isNaN(ms)) return undefined;
  return BigInt(ms) * 1000n + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
}

/** The fields of a key. */
export function keysOf(key: Declaration['key']): readonly string[] {
  return typeof key === 'string' ? [key] : key;
}
