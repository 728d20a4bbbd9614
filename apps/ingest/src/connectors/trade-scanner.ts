import { inspect } from 'node:util';
import { ingestError } from '../errors.ts';
import { type FieldKind, fieldRules, TradeReader } from './trade-reader.ts';

/** The fields of a trade that are needed: keys of an object, or places in an array. */
export type TradeFormat = readonly { readonly key: string | number; readonly kind: FieldKind }[];

/** The trades found in an answer, in its order; good until the same scanner reads the next. */
export interface ScannedTrades {
  readonly ids: Float64Array;
  readonly timesUs: Float64Array;
  /** Bytes of each: from a start up to, but not including, an end. */
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly bytes: Buffer;
  /** End of the list in the answer. */
  readonly end: number;
}

const comma = 0x2c;
const colon = 0x3a;
const listOpen = 0x5b;
const listClose = 0x5d;
const objectOpen = 0x7b;
const objectClose = 0x7d;

/** Finds trades in the bytes of an answer. */
export class TradeScanner {
  readonly #exchange: string;
  readonly #format: TradeFormat;
  /** Each key as it is written, with its quotes and colon. */
  readonly #keys: readonly Buffer[];
  readonly #isObject: boolean;
  readonly #close: number;
  readonly #all: number;
  readonly #columns = new TradeColumns();

  constructor(exchange: string, format: TradeFormat) {
    this.#exchange = exchange;
    this.#format = format;
    this.#keys = format.map(({ key }) => Buffer.from(`"${key}":`));
    this.#isObject = typeof format[0]?.key === 'string';
    this.#close = this.#isObject ? objectClose : listClose;
    this.#all = 2 ** format.length - 1;
  }

  /**
   * The list of trades that begins there; undefined where it is not written as expected, which may
   * be a fault or only another way to write the same: {@link check} tells.
   */
  scan(bytes: Buffer, from = 0): ScannedTrades | undefined {
    const reader = new TradeReader(bytes, from);
    const columns = this.#columns;
    columns.count = 0;
    if (!reader.take(listOpen)) return undefined;
    if (reader.take(listClose)) return columns.trades(bytes, reader.at);
    do {
      if (!this.#trade(reader)) return undefined;
    } while (reader.take(comma));
    return reader.take(listClose) ? columns.trades(bytes, reader.at) : undefined;
  }

  #trade(reader: TradeReader): boolean {
    const start = reader.at;
    let id = 0;
    let timeUs = 0;
    if (!reader.take(this.#isObject ? objectOpen : listOpen)) return false;
    const format = this.#format;
    let seen = 0;
    let place = 0;
    do {
      const at = this.#isObject ? this.#fieldAt(reader, place) : this.#fieldIn(place);
      if (at === undefined) return false;
      place += 1;
      if (at < 0) {
        if (!reader.skipValue()) return false;
        continue;
      }
      const { kind } = format[at] as TradeFormat[number];
      if (!reader.read(kind)) return false;
      // A key that comes twice has two values: which one counts is not ours to say.
      if ((seen & (1 << at)) !== 0) return false;
      seen |= 1 << at;
      if (kind === 'id') id = reader.value;
      else if (kind === 'iso' || kind === 'epoch' || kind === 'seconds') timeUs = reader.value;
    } while (reader.take(comma));
    reader.skipSpace();
    if (seen !== this.#all || reader.bytes[reader.at] !== this.#close) return false;
    reader.at += 1;
    this.#columns.add(id, timeUs, start, reader.at);
    return true;
  }

  /** Goes past a key: which field follows, -1 for one that is not needed; undefined for no key. */
  #fieldAt(reader: TradeReader, place: number): number | undefined {
    const keys = this.#keys;
    let at = place < keys.length && reader.takeAll(keys[place] as Buffer) ? place : -1;
    for (let i = 0; at < 0 && i < keys.length; i += 1) {
      if (reader.takeAll(keys[i] as Buffer)) at = i;
    }
    if (at < 0) return this.#spacedFieldAt(reader);
    reader.skipSpace();
    return at;
  }

  /** The same where there is space before the colon, or a key that is not needed. */
  #spacedFieldAt(reader: TradeReader): number | undefined {
    const start = reader.at;
    if (!reader.skipString()) return undefined;
    const key = reader.bytes.toString('latin1', start + 1, reader.at - 1);
    return reader.take(colon) ? this.#fieldIn(key) : undefined;
  }

  #fieldIn(place: string | number): number {
    return this.#format.findIndex(({ key }) => key === place);
  }

  /** The same of trades that JSON.parse has read, each checked by itself. */
  check(trades: unknown): ScannedTrades {
    if (!Array.isArray(trades)) throw this.#changed('trades', 'a list', trades);
    const columns = this.#columns;
    columns.count = 0;
    const lines: string[] = [];
    let end = 0;
    for (const [at, trade] of trades.entries()) {
      const { id, timeUs } = this.#checkTrade(`trades[${at}]`, trade);
      const line = JSON.stringify(trade);
      const start = end;
      end += Buffer.byteLength(line);
      columns.add(id, timeUs, start, end);
      lines.push(line);
    }
    return columns.trades(Buffer.from(lines.join('')), end);
  }

  #checkTrade(where: string, trade: unknown): { readonly id: number; readonly timeUs: number } {
    const isObject = typeof trade === 'object' && trade !== null && !Array.isArray(trade);
    if (this.#isObject ? !isObject : !Array.isArray(trade)) {
      throw this.#changed(where, this.#isObject ? 'an object' : 'a list', trade);
    }
    let [id, timeUs] = [0, 0];
    for (const { key, kind } of this.#format) {
      const value = (trade as Readonly<Record<string | number, unknown>>)[key];
      const reader = new TradeReader(Buffer.from(JSON.stringify(value) ?? ''));
      if (!reader.read(kind) || reader.at !== reader.bytes.length) {
        const name = typeof key === 'number' ? `${where}[${key}]` : `${where}.${key}`;
        throw this.#changed(name, fieldRules[kind], value);
      }
      if (kind === 'id') id = reader.value;
      else if (kind === 'iso' || kind === 'epoch' || kind === 'seconds') timeUs = reader.value;
    }
    return { id, timeUs };
  }

  #changed(name: string, rule: string, value: unknown): Error {
    return fieldChanged(this.#exchange, name, rule, value);
  }
}

/** The error for an API that no longer is what it was. */
export function fieldChanged(exchange: string, name: string, rule: string, value: unknown): Error {
  const tell = (hide: (text: string) => string): string => {
    const shown = masked(value, hide);
    const got = inspect(shown, { depth: 0, maxStringLength: 80, breakLength: Infinity });
    return `${exchange}: ${name}: must be ${rule}, got ${got}`;
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

/** Columns of the trades of an answer, in arrays that serve one answer after the other. */
class TradeColumns {
  count = 0;
  #ids = new Float64Array(1024);
  #timesUs = new Float64Array(1024);
  #starts = new Float64Array(1024);
  #ends = new Float64Array(1024);

  add(id: number, timeUs: number, start: number, end: number): void {
    const at = this.count;
    if (at === this.#ids.length) this.#grow();
    this.#ids[at] = id;
    this.#timesUs[at] = timeUs;
    this.#starts[at] = start;
    this.#ends[at] = end;
    this.count = at + 1;
  }

  trades(bytes: Buffer, end: number): ScannedTrades {
    const { count } = this;
    return {
      ids: this.#ids.subarray(0, count),
      timesUs: this.#timesUs.subarray(0, count),
      starts: this.#starts.subarray(0, count),
      ends: this.#ends.subarray(0, count),
      bytes,
      end,
    };
  }

  #grow(): void {
    const doubled = (column: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> => {
      const longer = new Float64Array(2 * column.length);
      longer.set(column);
      return longer;
    };
    this.#ids = doubled(this.#ids);
    this.#timesUs = doubled(this.#timesUs);
    this.#starts = doubled(this.#starts);
    this.#ends = doubled(this.#ends);
  }
}
