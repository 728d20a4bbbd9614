import { inspect } from 'node:util';
import { ingestError } from '../errors.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });
/** Characters of an answer that an error message quotes. */
const toldMax = 80;
/** Bytes of an answer that are searched for secrets before a message quotes it. */
const maskedMax = 2 ** 20;
/** Finds numbers that may not fit a double: with a point, an exponent, or from 2^53 on. */
const delicate = /(?:"\s*:|[[,])\s*-?(?:\d+[.eE]|\d{17}|9\d{15})/;

/** A number with the digits of the answer, which `JSON.stringify` writes unchanged. */
export interface RawNumber {
  readonly rawJSON: string;
}

const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => RawNumber };

export interface ParseOptions {
  /** Form of a number that does not fit a double: a text, or a {@link RawNumber}. */
  readonly exact: 'text' | 'raw';
  /** Masks secrets in error messages. */
  readonly hide: (text: string) => string;
}

/** Parses an answer. One that is no JSON was cut short, or comes from a proxy. */
export function parseAnswer(
  source: string,
  bytes: Uint8Array,
  { exact, hide }: ParseOptions,
): unknown {
  try {
    const text = decoder.decode(bytes);
    // 0.6 ms for 1,000 trades; with a function for each value it is 2.6 (2026-11).
    return delicate.test(text) ? JSON.parse(text, revivers[exact]) : JSON.parse(text);
  } catch {
    // The cause is left out, as its message quotes the answer. Secrets are masked before the text
    // is cut, as half a secret would not be found.
    const masked = hide(Buffer.from(bytes.subarray(0, maskedMax)).toString());
    const text = masked.slice(0, 4 * toldMax).replace(/\s+/g, ' ');
    const what = `${source}: an answer of ${bytes.length} bytes that is not JSON`;
    throw ingestError('EXCHANGE_FAILED', `${what}: ${text.trim().slice(0, toldMax)}`.trim());
  }
}

type Context = { readonly source?: string } | undefined;

/** Revivers for `JSON.parse` that keep the digits of numbers a double would change. */
const revivers = {
  text: (_key: string, value: unknown, context?: Context) => changedDigits(value, context) ?? value,
  raw: (_key: string, value: unknown, context?: Context) => {
    const digits = changedDigits(value, context);
    return digits === undefined ? value : rawJSON(digits);
  },
};

function changedDigits(value: unknown, { source = '' }: Context = {}): string | undefined {
  if (typeof value !== 'number' || /^-?\d{1,15}$/.test(source)) return undefined;
  return digitsOf(source) === digitsOf(String(value)) ? undefined : source;
}

function digitsOf(number: string): string {
  const [digits = ''] = number.toLowerCase().split('e');
  return digits.replace(/[-.]/g, '').replace(/^0+|0+$/g, '');
}

/** Replaces lone surrogates by U+FFFD, as other JSON readers refuse them. */
export function wellFormed(json: string): string {
  if (!json.includes('\\ud')) return json;
  // `JSON.stringify` escapes lone surrogates, and nothing else that begins with d.
  return json.replaceAll(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (found) =>
    found.length > 2 ? '\ufffd' : found,
  );
}

/** Returns the value at a path like `a.b.0`; a field with that whole name takes precedence. */
export function at(value: unknown, path: string): unknown {
  const whole: unknown = Object(value)[path];
  if (whole !== undefined) return whole;
  return path.split('.').reduce((part: unknown, name) => Object(part)[name], value);
}

const iso =
  /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.(\d+))?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?$/;

/** Years that every reader of the table supports. */
const years = { first: -62_135_596_800_000_000n, end: 253_402_300_800_000_000n };

/** Microseconds since 1970, for the years 1 to 9999; a time without a zone is in UTC. */
export function microseconds(value: unknown): bigint | undefined {
  const us = anyMicroseconds(value);
  if (us === undefined || us < years.first || us >= years.end) return undefined;
  // Cut to milliseconds where a double would round it up, perhaps to the next day.
  return Number.isSafeInteger(Number(us)) ? us : us - (((us % 1000n) + 1000n) % 1000n);
}

/** Seconds since 1970 or a finer unit, as text: the whole part and the fraction. */
export const seconds: RegExp = /^(\d{9,19})(?:\.(\d+))?$/;

function anyMicroseconds(value: unknown): bigint | undefined {
  if (typeof value === 'number' || (typeof value === 'string' && seconds.test(value))) {
    const number = Number(value);
    const size = Math.abs(number);
    const scale = size < 1e11 ? 1e6 : size < 1e14 ? 1e3 : size < 1e17 ? 1 : 1e-3;
    return Number.isFinite(number) ? BigInt(Math.round(number * scale)) : undefined;
  }
  if (typeof value !== 'string') return undefined;
  const found = iso.exec(value);
  if (found === null) return undefined;
  const [, fraction = ''] = found;
  // Ruby and Go write the zone after a space.
  const text = value.replace(/\.\d+/, '').replace(' ', 'T').replace(' ', '').replace('UTC', 'Z');
  const isZoned = /T.*(Z|[+-]\d\d:?\d\d)$/.test(text) || text.length === 10;
  const ms = Date.parse(`${text}${isZoned ? '' : 'Z'}`);
  if (Number.isNaN(ms)) return undefined;
  return BigInt(ms) * 1000n + BigInt(fraction.slice(0, 6).padEnd(6, '0'));
}

/** The error for a field that is not as declared or documented. */
export function fieldChanged(source: string, name: string, rule: string, value: unknown): Error {
  const tell = (hide: (text: string) => string): string => {
    const shown = masked(value, hide);
    const got = inspect(shown, { depth: 0, maxStringLength: 80, breakLength: Infinity });
    return `${source}: ${name}: must be ${rule}, got ${got}`;
  };
  const error = ingestError('EXCHANGE_CHANGED', tell(String));
  tellers.set(error, tell);
  return error;
}

/** For each error, a function that makes its message with secrets masked before values are cut. */
const tellers = new WeakMap<Error, (hide: (text: string) => string) => string>();

/** The message of an error with secrets masked. */
export function maskedMessage(error: Error, hide: (text: string) => string): string {
  return hide(tellers.get(error)?.(hide) ?? error.message);
}

/** Masks secrets in a value, as deep as a message shows it. */
function masked(value: unknown, hide: (text: string) => string): unknown {
  const text = (part: unknown): unknown => (typeof part === 'string' ? hide(part) : part);
  if (Array.isArray(value)) return value.map(text);
  if (typeof value !== 'object' || value === null) return text(value);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [hide(key), text(part)]));
}

/** Writes out the exponent of a JSON number; returns anything else unchanged. */
export function decimalOf(written: unknown): unknown {
  const parts = /^(\d+)(?:\.(\d+))?[eE]([+-]?\d{1,2})$/.exec(String(written));
  if (parts === null) return written;
  const [, whole = '', fraction = '', power = '0'] = parts;
  const point = whole.length + Number(power);
  const figures = `${'0'.repeat(Math.max(0, 1 - point))}${whole}${fraction}`;
  const at = Math.max(1, point);
  const padded = figures.padEnd(at, '0');
  return padded.length === at ? padded : `${padded.slice(0, at)}.${padded.slice(at)}`;
}
