import { named } from '../table/records.ts';
import { decimalOf, fieldChanged, type RawNumber, wellFormed } from './answer.ts';
import type { LineSql } from './connector.ts';
import type { Item } from './page.ts';

/** A field of a record: its name, or its place where records are lists. */
export type FieldName = string | number;

/** The fields of records that are trades; they go into the table of trades. */
export interface TradeFields {
  /** A whole number. */
  readonly id: FieldName;
  /** Decimals in quotes. */
  readonly price: FieldName;
  readonly quantity: FieldName;
  /** ISO 8601 in UTC, whole milli- or microseconds since 1970, or seconds with a fraction. */
  readonly time: { readonly field: FieldName; readonly as: 'iso' | 'epoch' | 'seconds' };
  /** The side of the order that stood in the book, the maker's, or of the one that met it. */
  readonly side: {
    readonly field: FieldName;
    readonly of: 'maker' | 'taker';
    readonly buy: string | boolean;
    readonly sell: string | boolean;
  };
}

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,9})?Z$/;
const decimal = /^\d{1,20}(?:\.\d{1,18})?$/;
/** Below it a whole number of time means milliseconds: as such it is the year 5138. */
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
  /** The last ISO time up to its minute, and that minute in µs: mostly it comes again. */
  #minute = '';
  #minuteUs = 0;

  constructor(source: string, fields: TradeFields) {
    this.#source = source;
    this.#fields = fields;
  }

  /** The trades of a list; throws with the name and the value of a field that is wrong. */
  read(list: unknown): readonly Item[] {
    if (!Array.isArray(list)) throw fieldChanged(this.#source, 'trades', 'a list', list);
    const isList = typeof this.#fields.id === 'number';
    const [open, shut, border] = isList ? ['[', ']', '],['] : ['{', '}', '},{'];
    // Written all at once and cut, which takes half the time; where a trade has such a border in
    // it there are more parts than trades.
    const parts = wellFormed(JSON.stringify(list)).slice(2, -2).split(border);
    const isCut = parts.length === list.length;
    return list.map((value, place) => {
      return this.one(value, place, isCut ? `${open}${parts[place]}${shut}` : undefined);
    });
  }

  /** One trade; `line` is its JSON, if that is known. */
  one(value: unknown, place = 0, line?: string): Item {
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
      // The line has the digits in place of an exponent, since the table reads them from there.
      const copy = isList ? [...(value as readonly unknown[])] : { ...record };
      return this.one(Object.assign(copy, { [field]: digits }), place);
    }
    const us = this.#us(record[time.field]);
    if (us === undefined) throw this.#changed(record, place, time.field, rules[time.as]);
    if (record[side.field] !== side.buy && record[side.field] !== side.sell) {
      const words = `${JSON.stringify(side.buy)} or ${JSON.stringify(side.sell)}`;
      throw this.#changed(record, place, side.field, words);
    }
    return { id: number as number, us, line: line ?? wellFormed(JSON.stringify(value)) };
  }

  /** Price, quantity and side as one text, the same for trades that agree on them. */
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
    // The same steps, in the same floating point, as in SQL: so both get the same microsecond.
    const us =
      as === 'seconds' ? Math.round(number * 1e6) : number < epochUsMin ? number * 1000 : number;
    return Number.isSafeInteger(us) && (as === 'seconds' || Number.isInteger(number))
      ? us
      : undefined;
  }

  #isoUs(text: string): number | undefined {
    if (!isoTime.test(text)) return undefined;
    const minute = text.slice(0, 17);
    if (minute !== this.#minute) {
      const ms = Date.parse(`${minute}00Z`);
      // A minute that does not exist has become another one.
      if (!(ms >= 0) || !new Date(ms).toISOString().startsWith(minute)) return undefined;
      this.#minute = minute;
      this.#minuteUs = ms * 1000;
    }
    // Digits finer than a microsecond are cut off, as DuckDB does.
    const fraction = text.slice(20, -1).padEnd(6, '0').slice(0, 6);
    return this.#minuteUs + Number(text.slice(17, 19)) * 1e6 + Number(fraction);
  }
}

/** The same text for the same number. */
function plain(decimal: unknown): string {
  const text = String(decimalOf(decimal));
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** SQL that makes rows of the table of lines with these fields. */
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
