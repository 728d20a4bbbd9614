import { check, checkInteger, checkNumber } from 'spillway/internal';

export interface SimulatedProductOptions {
  /** As in `BTC-USD`. */
  readonly id: string;
  /** Trades there are at the start; an integer from 0. */
  readonly trades: number;
  /** The id of the first trade; an integer from 0. @default 1 */
  readonly firstId?: number | undefined;
  /** Trades are the same for the same seed and id; an integer. @default 1 */
  readonly seed?: number | undefined;
  /** Time of the first trade, in microseconds since 1970; from 0. @default the start of 2024 */
  readonly startUs?: number | undefined;
  /** Microseconds between trades, on average; an integer from 1. @default 250,000 */
  readonly stepUs?: number | undefined;
  /** Trades that are added each second; from 0. @default 0 */
  readonly growthPerSecond?: number | undefined;
  /** The share of ids that were never given to a trade; from 0 to below 1. @default 0 */
  readonly gapShare?: number | undefined;
  /** Ids that are not there either, until {@link SimulatedProduct.heal}. @default none */
  readonly gaps?: readonly { readonly from: number; readonly to: number }[] | undefined;
  /** Factor by which its answers are slower; from 0. @default 1 */
  readonly slowness?: number | undefined;
  /** Prices are written as numbers from this id on: an API that has changed. @default never */
  readonly numericFrom?: number | undefined;
}

/** One trade, exactly. */
export interface SimulatedTrade {
  readonly id: number;
  readonly timeUs: number;
  readonly price: string;
  readonly size: string;
  readonly makerSide: 'buy' | 'sell';
}

const defaultStartUs = Date.UTC(2024, 0, 1) * 1000;

/** A product whose trades need no memory: each is computed from the seed and its id. */
export class SimulatedProduct {
  readonly id: string;
  readonly firstId: number;
  readonly slowness: number;
  readonly numericFrom: number;
  readonly #seed: number;
  readonly #startUs: number;
  readonly #stepUs: number;
  readonly #trades: number;
  readonly #growthPerSecond: number;
  readonly #gapBelow: number;
  /** In cents. */
  readonly #basePrice: number;
  #gaps: readonly { readonly from: number; readonly to: number }[];

  constructor(options: SimulatedProductOptions) {
    const { id, trades, firstId = 1, seed = 1, gapShare = 0, gaps = [] } = options;
    const { startUs = defaultStartUs, stepUs = 250_000, growthPerSecond = 0 } = options;
    const { slowness = 1, numericFrom = Infinity } = options;
    check(/^[\w.-]+$/.test(id), 'id', 'letters, digits, dots and dashes', id);
    checkInteger('trades', trades, 0);
    checkInteger('firstId', firstId, 0);
    checkInteger('seed', seed, Number.MIN_SAFE_INTEGER);
    checkInteger('startUs', startUs, 0);
    checkInteger('stepUs', stepUs, 1, 2 ** 32);
    checkNumber('growthPerSecond', growthPerSecond, 0, 1e9);
    check(gapShare >= 0 && gapShare < 1, 'gapShare', 'a number from 0 to below 1', gapShare);
    checkNumber('slowness', slowness, 0, 1e6);
    this.id = id;
    this.firstId = firstId;
    this.slowness = slowness;
    this.numericFrom = numericFrom;
    this.#seed = [...id].reduce((sum, letter) => mix(sum, letter.charCodeAt(0)), seed | 0);
    this.#startUs = startUs;
    this.#stepUs = stepUs;
    this.#trades = trades;
    this.#growthPerSecond = growthPerSecond;
    this.#gapBelow = gapShare * 2 ** 32;
    this.#basePrice = 500 + (mix(this.#seed, 1) % 6_000_000);
    this.#gaps = gaps;
  }

  /** One above the newest id, that many milliseconds after the start. */
  endAt(ms: number): number {
    return this.firstId + this.#trades + Math.floor((ms / 1000) * this.#growthPerSecond);
  }

  /** True if that id was given to a trade, provided that it is not above the newest. */
  has(id: number): boolean {
    if (id < this.firstId) return false;
    if (this.#gapBelow > 0 && this.#hash(id, 2) < this.#gapBelow) return false;
    return this.#gaps.every(({ from, to }) => id < from || id >= to);
  }

  /** The ids in `gaps` are there from now on. */
  heal(): void {
    this.#gaps = [];
  }

  /** Never earlier than that of the id before; every third or so is of the same moment as that. */
  timeUs(id: number): number {
    const place = id - this.firstId;
    const group = place - (place % 3);
    const at = this.#hash(group, 3) % 2 === 0 ? group : place;
    return this.#startUs + at * this.#stepUs + (this.#hash(at, 4) % this.#stepUs);
  }

  /** In cents: hills of some thousand trades, with smaller ones on them. */
  price(id: number): number {
    const hills = this.#hills(id, 4096, 5) * 0.2 + this.#hills(id, 64, 6) * 0.02;
    return Math.floor(this.#basePrice * (0.9 + hills)) + (this.#hash(id, 7) % 100);
  }

  /** In hundred-millionths: small ones are more frequent. */
  size(id: number): number {
    const chance = this.#hash(id, 8);
    return 1 + (chance % 1_000_003) * (1 + ((chance >>> 22) >> (id % 8)));
  }

  trade(id: number): SimulatedTrade {
    return {
      id,
      timeUs: this.timeUs(id),
      price: decimal(this.price(id), 2),
      size: decimal(this.size(id), 8),
      makerSide: (this.#hash(id, 10) & 1) === 0 ? 'buy' : 'sell',
    };
  }

  /** The first id below `end` whose trade is later than that; `end` if none is. */
  firstAfter(timeUs: number, end: number): number {
    let from = this.firstId;
    let to = end;
    while (from < to) {
      const middle = Math.floor((from + to) / 2);
      if (this.timeUs(middle) > timeUs) to = middle;
      else from = middle + 1;
    }
    return to;
  }

  /** From 0 to 1, in lines between one height for every `width` ids. */
  #hills(id: number, width: number, salt: number): number {
    const cell = Math.floor(id / width);
    const before = this.#hash(cell, salt);
    const after = this.#hash(cell + 1, salt);
    return (before + ((after - before) * (id - cell * width)) / width) / 2 ** 32;
  }

  #hash(n: number, salt: number): number {
    const low = mix(this.#seed ^ Math.imul(salt, 0x9e3779b1), n);
    // Bits above the 32nd count too, for ids that large.
    return n > 0x7fffffff ? mix(low, n / 2 ** 32) : low;
  }
}

/** Units of the last digit as text: `decimal(1234, 2)` is 12.34. */
export function decimal(units: number, digits: number): string {
  const scale = 10 ** digits;
  return `${Math.floor(units / scale)}.${String(units % scale).padStart(digits, '0')}`;
}

/** Two numbers well mixed into one of 32 bits, from 0. */
function mix(a: number, b: number): number {
  let h = Math.imul(a ^ (b | 0), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0xc2b2ae35) + (b | 0);
  h = Math.imul(h ^ (h >>> 13), 0x27d4eb2f);
  return (h ^ (h >>> 16)) >>> 0;
}
