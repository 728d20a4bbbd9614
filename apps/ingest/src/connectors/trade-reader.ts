/**
 * Content of a field of a trade: an id; a decimal in quotes; a time as ISO text, as whole milli- or
 * microseconds, or as seconds with a fraction; a side, in a word or its first letter; yes or no.
 */
export type FieldKind =
  | 'id'
  | 'decimal'
  | 'iso'
  | 'epoch'
  | 'seconds'
  | 'side'
  | 'letter'
  | 'boolean';

/** Rule for each kind, in the words of an error. */
export const fieldRules: Readonly<Record<FieldKind, string>> = {
  id: 'a whole number from 0 to 2^53 - 1',
  decimal: 'a decimal in quotes with at most 20 digits before and 18 after the point',
  iso: 'a UTC time in quotes, as in "2020-03-20T00:22:57.833897Z"',
  epoch: 'whole milliseconds or microseconds since 1970',
  seconds: 'seconds since 1970',
  side: '"buy" or "sell"',
  letter: '"b" or "s"',
  boolean: 'true or false',
};

const quote = 0x22;
const backslash = 0x5c;
const dot = 0x2e;
const minus = 0x2d;
const digit0 = 0x30;
const digit9 = 0x39;
/** Length of `"2020-03-20T00:22:`. */
const minuteLength = 18;
const powers: readonly number[] = Array.from({ length: 10 }, (_, n) => 10 ** n);
/** Below it a whole number of time means milliseconds: as such it is the year 5138. */
const epochUsMin = 1e14;

const words = {
  buy: Buffer.from('"buy"'),
  sell: Buffer.from('"sell"'),
  b: Buffer.from('"b"'),
  s: Buffer.from('"s"'),
  true: Buffer.from('true'),
  false: Buffer.from('false'),
  null: Buffer.from('null'),
};

/** Reads JSON byte by byte, as far as it is written as plainly as exchanges write it. */
export class TradeReader {
  readonly bytes: Buffer;
  at: number;
  /** The last number or time that was read; a time in microseconds. */
  value = 0;
  /** Place of the last ISO time, and the minute it names. */
  #minuteAt = -1;
  #minuteUs = 0;

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  skipSpace(): void {
    const { bytes } = this;
    let { at } = this;
    let byte = bytes[at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      at += 1;
      byte = bytes[at];
    }
    this.at = at;
  }

  /** Goes past the byte, and space around it, if it is the next. */
  take(byte: number): boolean {
    if (this.bytes[this.at] !== byte) {
      this.skipSpace();
      if (this.bytes[this.at] !== byte) return false;
    }
    this.at += 1;
    if ((this.bytes[this.at] as number) <= 0x20) this.skipSpace();
    return true;
  }

  /** Goes past these bytes if they are the next. */
  takeAll(expected: Uint8Array): boolean {
    const { bytes, at } = this;
    for (let i = 0; i < expected.length; i += 1) {
      if (bytes[at + i] !== expected[i]) return false;
    }
    this.at = at + expected.length;
    return true;
  }

  /** Goes past a value of that kind; false, and anywhere, if it is not written so. */
  read(kind: FieldKind): boolean {
    switch (kind) {
      case 'id':
        return this.#integer();
      case 'decimal':
        return this.#decimal();
      case 'iso':
        return this.#iso();
      case 'epoch':
        return this.#epoch();
      case 'seconds':
        return this.#seconds();
      case 'side':
        return this.takeAll(words.buy) || this.takeAll(words.sell);
      case 'letter':
        return this.takeAll(words.b) || this.takeAll(words.s);
      default:
        return this.takeAll(words.true) || this.takeAll(words.false);
    }
  }

  /** Goes past a string of plain characters, a plain number, true, false or null. */
  skipValue(): boolean {
    const first = this.bytes[this.at];
    if (first === quote) return this.skipString();
    if (first === 0x74) return this.takeAll(words.true);
    if (first === 0x66) return this.takeAll(words.false);
    if (first === 0x6e) return this.takeAll(words.null);
    if (first === minus) this.at += 1;
    return this.#number();
  }

  skipString(): boolean {
    if (this.bytes[this.at] !== quote) return false;
    let byte: number | undefined = 0x20;
    // Escapes and anything beyond ASCII are left to JSON.parse.
    while (byte !== undefined && byte >= 0x20 && byte < 0x7f && byte !== backslash) {
      this.at += 1;
      byte = this.bytes[this.at];
      if (byte === quote) {
        this.at += 1;
        return true;
      }
    }
    return false;
  }

  /** Goes past digits; how many they were. */
  #digits(): number {
    const { bytes, at: start } = this;
    let at = start;
    let byte = bytes[at] as number;
    while (byte >= digit0 && byte <= digit9) {
      at += 1;
      byte = bytes[at] as number;
    }
    this.at = at;
    return at - start;
  }

  /** The same, and `value` is the number they make. */
  #count(): number {
    const { bytes, at: start } = this;
    let at = start;
    let value = 0;
    let byte = bytes[at] as number;
    while (byte >= digit0 && byte <= digit9) {
      value = value * 10 + (byte - digit0);
      at += 1;
      byte = bytes[at] as number;
    }
    this.at = at;
    this.value = value;
    return at - start;
  }

  #integer(): boolean {
    const isZero = this.bytes[this.at] === digit0;
    const count = this.#count();
    if (count === 0 || (isZero && count > 1) || this.value > Number.MAX_SAFE_INTEGER) return false;
    return this.#isNumberOver();
  }

  /** True if no more of a number follows. */
  #isNumberOver(): boolean {
    const byte = this.bytes[this.at];
    return byte !== dot && byte !== 0x65 && byte !== 0x45;
  }

  #number(): boolean {
    const isZero = this.bytes[this.at] === digit0;
    const count = this.#digits();
    if (count === 0 || (isZero && count > 1)) return false;
    if (this.bytes[this.at] !== dot) return this.#isNumberOver();
    this.at += 1;
    return this.#digits() > 0 && this.#isNumberOver();
  }

  #decimal(): boolean {
    if (this.bytes[this.at++] !== quote) return false;
    const whole = this.#digits();
    if (whole === 0 || whole > 20) return false;
    if (this.bytes[this.at] === dot) {
      this.at += 1;
      const fraction = this.#digits();
      if (fraction === 0 || fraction > 18) return false;
    }
    return this.bytes[this.at++] === quote;
  }

  #epoch(): boolean {
    if (!this.#integer()) return false;
    if (this.value < epochUsMin) this.value *= 1000;
    return this.value <= Number.MAX_SAFE_INTEGER;
  }

  #seconds(): boolean {
    const start = this.at;
    if (!this.#number()) return false;
    // The same steps, in the same floating point, as in SQL: so both get the same microsecond.
    this.value = Math.round(Number(this.bytes.toString('latin1', start, this.at)) * 1e6);
    return this.value <= Number.MAX_SAFE_INTEGER;
  }

  /** A number of that many digits, then that byte; NaN if there is none. */
  #part(digits: number, end: number): number {
    const isPart = this.#count() === digits && this.bytes[this.at] === end;
    if (isPart) this.at += 1;
    return isPart ? this.value : Number.NaN;
  }

  #iso(): boolean {
    if (!this.#isSameMinute() && !this.#minute()) return false;
    if (this.#count() !== 2 || this.value > 59) return false;
    const second = this.value;
    let fractionUs = 0;
    if (this.bytes[this.at] === dot) {
      this.at += 1;
      const digits = this.#count();
      if (digits === 0 || digits > 9) return false;
      // What is finer than a microsecond is cut off, as DuckDB does.
      fractionUs = Math.floor((this.value * (powers[9 - digits] as number)) / 1000);
    }
    this.value = this.#minuteUs + second * 1e6 + fractionUs;
    return this.bytes[this.at++] === 0x5a && this.bytes[this.at++] === quote;
  }

  /** Neighbours are seldom more than a minute apart: then most of the time is known already. */
  #isSameMinute(): boolean {
    const { bytes, at } = this;
    const before = this.#minuteAt;
    if (before < 0) return false;
    // From the end, where times differ first.
    for (let i = minuteLength - 1; i >= 0; i -= 1) {
      if (bytes[at + i] !== bytes[before + i]) return false;
    }
    this.at = at + minuteLength;
    return true;
  }

  /** Goes past the part of a time that names the minute. */
  #minute(): boolean {
    const start = this.at;
    this.at += 1;
    const year = this.#part(4, minus);
    const month = this.#part(2, minus);
    const day = this.#part(2, 0x54);
    const hour = this.#part(2, 0x3a);
    const minute = this.#part(2, 0x3a);
    const ms = Date.UTC(year, month - 1, day, hour, minute);
    // A minute that does not exist has become another one.
    const isTrue =
      this.bytes[start] === quote &&
      year >= 1970 &&
      month <= 12 &&
      hour <= 23 &&
      minute <= 59 &&
      new Date(ms).getUTCDate() === day;
    this.#minuteAt = isTrue ? start : -1;
    this.#minuteUs = ms * 1000;
    return isTrue;
  }
}
