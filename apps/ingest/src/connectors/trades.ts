import { named } from '../table/records.ts';
import { decimalOf, fieldChanged, type RawNumber } from './answer.ts';
import type { LineSql } from './connector.ts';
import type { TradeFields } from './declaration.ts';
import type { Item } from './page.ts';

/** A field of a record: its name, or its place where records are lists. */
export type FieldName = string | number;

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,9})?Z$/;
const decimal = /^\d{1,20}(?:\.\d{1,18})?$/;
/** Times below it are in milliseconds (up to the year 5138), others in microseconds. */
const epochUsMin = 1e14;

const rules = {
  id: 'a whole number from 0 to 2^53 - 1',
  decimal: 'a decimal in quotes with at most 20 digits before and 18 after the point',
  iso: 'a UTC time in quotes, as in "2020-03-20T00:22:57.833897Z"',
  epoch: 'whole milliseconds or microseconds since 1970',
  seconds: 'seconds since 1970',
};

/** Reads records as trades. */
export class TradeReader {
  readonly #source: string;
  readonly #fields: TradeFields;
  /** Cache: the last ISO time up to its minute, and that minute in µs. */
  #minute = 'none yet';
  #minuteUs = 0;

  constructor(source: string, fields: TradeFields) {
    this.#source = source;
    this.#fields = fields;
  }

  /** Reads a list of trades; throws with name and value of a wrong field. */
  read(list: unknown): readonly Item[] {
    if (!Array.isArray(list)) throw fieldChanged(this.#source, 'trades', 'a list', list);
    return list.map((value, place) => this.one(value, place));
  }

  /** Reads one trade; `place` is its index in the list. */
  one(value: unknown, place = 0): Item {
    const { id, price, quantity, time, side } = this.#fields;
    const isList = typeof id === 'number';
    const isRecord = typeof value === 'object' && value !== null && Array.isArray(value) === isList;
    if (!isRecord) {
      const rule = isList ? 'a list' : 'an object';
      throw fieldChanged(this.#source, `trades[${place}]`, rule, value);
    }
    const record = value as Readonly<Record<FieldName, unknown>>;
    const number = record[id];
    if (!Number.isSafeInteger(number) || Number(number) < 0) {
      throw this.#changed(record, place, id, rules.id);
    }
    for (const field of [price, quantity]) {
      const text = record[field];
      const isDecimal = typeof text === 'string' && decimal.test(text);
      if (isDecimal) continue;
      const digits = typeof text === 'string' ? decimalOf(text) : text;
      if (digits === text) throw this.#changed(record, place, field, rules.decimal);
      // The line gets the digits without an exponent, since the table reads them from there.
      const copy = isList ? [...(value as readonly unknown[])] : { ...record };
      return this.one(Object.assign(copy, { [field]: digits }), place);
    }
    const us = this.#us(record[time.field]);
    if (us === undefined) throw this.#changed(record, place, time.field, rules[time.as]);
    if (record[side.field] !== side.buy && record[side.field] !== side.sell) {
      const words = `${JSON.stringify(side.buy)} or ${JSON.stringify(side.sell)}`;
      throw this.#changed(record, place, side.field, words);
    }
    return { id: number as number, us, line: value };
  }

  /** Returns price, quantity and side as one text, to compare trades. */
  facts(value: unknown): string {
    const { price, quantity, side } = this.#fields;
    const record = Object(value);
    return [plain(record[price]), plain(record[quantity]), record[side.field]].join(' ');
  }

  #changed(
    record: Readonly<Record<FieldName, unknown>>,
    place: number,
    field: FieldName,
    rule: string,
  ): Error {
    const name = typeof field === 'number' ? `[${field}]` : `.${field}`;
    return fieldChanged(this.#source, `trades[${place}]${name}`, rule, record[field]);
  }

  /** Microseconds since 1970. */
  #us(value: unknown): number | undefined {
    const { as } = this.#fields.time;
    if (as === 'iso') return typeof value === 'string' ? this.#isoUs(value) : undefined;
    const number = Number((value as RawNumber | undefined)?.rawJSON ?? value);
    if (typeof value === 'string' || !(number >= 0)) return undefined;
    // The same floating-point steps as in the SQL, so that both get the same microsecond.
    const us =
      as === 'seconds' ? Math.round(number * 1e6) : number < epochUsMin ? number * 1000 : number;
    const isWhole = as === 'seconds' || Number.isInteger(number);
    return isWhole && Number.isSafeInteger(us) ? us : undefined;
  }

  #isoUs(text: string): number | undefined {
    if (!isoTime.test(text)) return undefined;
    if (!text.startsWith(this.#minute)) {
      const minute = text.slice(0, 17);
      const ms = Date.parse(`${minute}00Z`);
      // `Date` turns a minute that does not exist into another one.
      if (!(ms >= 0) || !new Date(ms).toISOString().startsWith(minute)) return undefined;
      this.#minute = minute;
      this.#minuteUs = ms * 1000;
    }
    // Digits below a microsecond are cut off, as by DuckDB.
    const seconds = Number(text.slice(17, Math.min(26, text.length - 1)));
    return this.#minuteUs + Math.round(seconds * 1e6);
  }
}

/** Removes trailing zeros and exponents, so that equal numbers have equal texts. */
function plain(decimal: unknown): string {
  const text = String(decimalOf(decimal));
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** Makes the SQL by which DuckDB reads lines with these fields. */
export function lineSqlOf({ id, price, quantity, time, side }: TradeFields): LineSql {
  const isList = typeof id === 'number';
  const value = (field: FieldName): string =>
    isList ? `trade ->> '$[${field}]'` : named(`${field}`);
  const at = value(time.field);
  const times = {
    iso: `CAST(${at} AS TIMESTAMP)`,
    epoch: `make_timestamp(CASE WHEN CAST(${at} AS BIGINT) < ${epochUsMin}
      THEN CAST(${at} AS BIGINT) * 1000 ELSE CAST(${at} AS BIGINT) END)`,
    seconds: `make_timestamp(CAST(round(CAST(${at} AS DOUBLE) * 1000000) AS BIGINT))`,
  };
  const types = { iso: 'TIMESTAMP', epoch: 'BIGINT', seconds: 'DOUBLE' };
  const columns = [
    [id, 'BIGINT'],
    [price, 'VARCHAR'],
    [quantity, 'VARCHAR'],
    [time.field, types[time.as]],
    [side.field, 'VARCHAR'],
  ].map(([field, type]) => `${named(`${field}`)}: '${type}'`);
  const read = isList ? `records = false, columns = {trade: 'JSON'}` : `columns = {${columns}}`;
  const sideOf = (buy: string, sell: string): string =>
    `CASE ${value(side.field)} WHEN '${side.buy}' THEN '${buy}'
      WHEN '${side.sell}' THEN '${sell}' END`;
  const same = sideOf('buy', 'sell');
  const other = sideOf('sell', 'buy');
  return {
    options: `format = 'newline_delimited', ${read}`,
    select: `CAST(${value(id)} AS BIGINT) AS trade_id, ${times[time.as]} AS trade_ts,
      ${value(price)} AS price, ${value(quantity)} AS quantity,
      ${side.of === 'maker' ? same : other} AS maker_side,
      ${side.of === 'maker' ? other : same} AS taker_side`,
  };
}
