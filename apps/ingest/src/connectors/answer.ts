import { inspect } from 'node:util';
import { ingestError } from '../errors.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });
/** Characters of an answer that an error tells. */
const toldMax = 80;
/** Bytes of it that are searched for secrets: more than any of them has. */
const maskedMax = 2 ** 20;
/** Finds numbers that a double may change: with a point, an exponent, or from 2^53 on. */
const delicate = /(?:"\s*:|[[,])\s*-?(?:\d+[.eE]|\d{17}|9\d{15})/;

/** Digits as they were written: a part of an answer that `JSON.stringify` writes back as it was. */
export interface RawNumber {
  readonly rawJSON: string;
}

const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => RawNumber };

export interface ParseOptions {
  /** Form of a number that a double does not hold: its text, or its digits without quotes. */
  readonly exact: 'text' | 'raw';
  /** Masks secrets in what an error tells. */
  readonly hide: (text: string) => string;
}

/** An answer as JSON; one that is none was cut short or comes from something in between. */
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
    // Without the cause: its message quotes the answer.
    // Masked before it is cut, as half a secret is not found any more.
    const masked = hide(Buffer.from(bytes.subarray(0, maskedMax)).toString());
    const text = masked.slice(0, 4 * toldMax).replace(/\s+/g, ' ');
    const what = `${source}: an answer of ${bytes.length} bytes that is not JSON`;
    throw ingestError('EXCHANGE_FAILED', `${what}: ${text.trim().slice(0, toldMax)}`.trim());
  }
}

type Context = { readonly source?: string } | undefined;

/** A value, or the digits of a number where a double would change one of them. */
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

/** JSON with U+FFFD for halves of characters, which other readers of JSON refuse. */
export function wellFormed(json: string): string {
  if (!json.includes('\\ud')) return json;
  // `JSON.stringify` escapes halves, and nothing else that begins with d.
  return json.replaceAll(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (found) =>
    found.length > 2 ? '\ufffd' : found,
  );
}

/** The value at a path like `a.b.0`; a field of just that name comes first. */
export function at(value: unknown, path: string): unknown {
  const whole: unknown = Object(value)[path];
  if (whole !== undefined) return whole;
  return path.split('.').reduce((part: unknown, name) => Object(part)[name], value);
}

const iso =
  /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.(\d+))?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?$/;

/** In years that every reader of the table knows. */
const years = { first: -62_135_596_800_000_000n, end: 253_402_300_800_000_000n };

/** Microseconds since 1970, in the years from 1 to 9999; a time without a zone is one of UTC. */
export function microseconds(value: unknown): bigint | undefined {
  const us = anyMicroseconds(value);
  if (us === undefined || us < years.first || us >= years.end) return undefined;
  // In whole milliseconds where a number would round it up, maybe to the next day.
  return Number.isSafeInteger(Number(us)) ? us : us - (((us % 1000n) + 1000n) % 1000n);
}

/** Seconds since 1970, or finer, as text: whole ones, and the fraction. */
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

/** The error for an API that no longer is what it was. */
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

/** By error: its message with secrets masked before values are cut, as half a secret is none. */
const tellers = new WeakMap<Error, (hide: (text: string) => string) => string>();

/** The message of an error without secrets. */
export function maskedMessage(error: Error, hide: (text: string) => string): string {
  return hide(tellers.get(error)?.(hide) ?? error.message);
}

/** The value with its texts masked, as deep as a message shows it. */
function masked(value: unknown, hide: (text: string) => string): unknown {
  const text = (part: unknown): unknown => (typeof part === 'string' ? hide(part) : part);
  if (Array.isArray(value)) return value.map(text);
  if (typeof value !== 'object' || value === null) return text(value);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [hide(key), text(part)]));
}

/** A number as JSON writes it, without an exponent; anything else stays as it is. */
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
