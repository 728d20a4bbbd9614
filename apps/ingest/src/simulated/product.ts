import { check, checkInteger, checkNumber } from 'spillway/internal';

/** Options of a product that may be left out. */
const defaults = {
  /** The id of the first trade; an integer from 0. */
  firstId: 1,
  /** Trades are the same for the same seed and id; an integer. */
  seed: 1,
  /** Time of the first trade, in microseconds since 1970; from 0. */
  startUs: Date.UTC(2024, 0, 1) * 1000,
  /** Microseconds between trades, on average; an integer from 1. */
  stepUs: 250_000,
  /** Trades added per second; from 0. */
  growthPerSecond: 0,
  /** The share of ids that were never given to a trade; from 0 to below 1. */
  gapShare: 0,
  /** Ids that are not there either, until {@link SimulatedProduct.heal}. */
  gaps: [] as readonly { readonly from: number; readonly to: number }[],
  /** First id whose price is a JSON number, as after a change of the API. */
  numericFrom: Infinity,
};

export interface SimulatedProductOptions extends Partial<typeof defaults> {
  /** As in `BTC-USD`. */
  readonly id: string;
  /** Number of trades at the start; an integer from 0. */
  readonly trades: number;
}

/** One trade, exactly. */
export interface SimulatedTrade {
  readonly id: number;
  readonly timeUs: number;
  readonly price: string;
  readonly size: string;
  readonly makerSide: 'buy' | 'sell';
}

/** A product whose trades are computed from a seed and their ids, so that they need no memory. */
export class SimulatedProduct {
  readonly options: Required<SimulatedProductOptions>;
  readonly id: string;
  readonly firstId: number;
  readonly #seed: number;
  /** In cents. */
  readonly #basePrice: number;
  #isHealed = false;

  constructor(options: SimulatedProductOptions) {
    this.options = { ...defaults, ...options };
    const { id, trades, firstId, seed, startUs, stepUs, gapShare } = this.options;
    check(/^[\w.-]+$/.test(id), 'id', 'letters, digits, dots and dashes', id);
    checkInteger('trades', trades, 0);
    checkInteger('firstId', firstId, 0);
    checkInteger('seed', seed, Number.MIN_SAFE_INTEGER);
    checkInteger('startUs', startUs, 0);
    checkInteger('stepUs', stepUs, 1, 2 ** 32);
    checkNumber('growthPerSecond', this.options.growthPerSecond, 0, 1e9);
    check(gapShare >= 0 && gapShare < 1, 'gapShare', 'a number from 0 to below 1', gapShare);
    this.id = id;
    this.firstId = firstId;
    this.#seed = [...id].reduce((sum, letter) => mix(sum, letter.charCodeAt(0)), seed | 0);
    this.#basePrice = 500 + (mix(this.#seed, 1) % 6_000_000);
  }

  /** Returns one above the newest id, `ms` after the start. */
  endAt(ms: number): number {
    const { trades, growthPerSecond } = this.options;
    return this.firstId + trades + Math.floor((ms / 1000) * growthPerSecond);
  }

  /** True if the id, which may be a future one, belongs to a trade. */
  has(id: number): boolean {
    const { gapShare, gaps } = this.options;
    if (id < this.firstId) return false;
    if (gapShare > 0 && this.#hash(id, 2) < gapShare * 2 ** 32) return false;
    return this.#isHealed || gaps.every(({ from, to }) => id < from || id >= to);
  }

  /** Makes the ids in `gaps` available. */
  heal(): void {
    this.#isHealed = true;
  }

  /** Returns the time, never before that of the id before; about every third is equal to it. */
  timeUs(id: number): number {
    const place = id - this.firstId;
    const group = place - (place % 3);
    const at = this.#hash(group, 3) % 2 === 0 ? group : place;
    const { startUs, stepUs } = this.options;
    return startUs + at * stepUs + (this.#hash(at, 4) % stepUs);
  }

  /** Returns the price in cents, which goes up and down over some thousand trades. */
  price(id: number): number {
    const hills = this.#hills(id, 4096, 5) * 0.2 + this.#hills(id, 64, 6) * 0.02;
    return Math.floor(this.#basePrice * (0.9 + hills)) + (this.#hash(id, 7) % 100);
  }

  /** Returns the size in units of 10^-8; small ones are more frequent. */
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

  /** Returns a height from 0 to 1, interpolated between random ones at every `width` ids. */
  #hills(id: number, width: number, salt: number): number {
    const cell = Math.floor(id / width);
    const before = this.#hash(cell, salt);
    const after = this.#hash(cell + 1, salt);
    return (before + ((after - before) * (id - cell * width)) / width) / 2 ** 32;
  }

  #hash(n: number, salt: number): number {
    const low = mix(this.#seed ^ Math.imul(salt, 0x9e3779b1), n);
    // Includes the bits above the 32nd of large ids.
    return n > 0x7fffffff ? mix(low, n / 2 ** 32) : low;
  }
}

/** Formats a decimal given in units of its last digit: `decimal(1234, 2)` is 12.34. */
export function decimal(units: number, digits: number): string {
  const scale = 10 ** digits;
  return `${Math.floor(units / scale)}.${String(units % scale).padStart(digits, '0')}`;
}

/** Hashes two numbers to an unsigned integer of 32 bits. */
function mix(a: number, b: number): number {
  let h = Math.imul(a ^ (b | 0), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0xc2b2ae35) + (b | 0);
  h = Math.imul(h ^ (h >>> 13), 0x27d4eb2f);
  return (h ^ (h >>> 16)) >>> 0;
}
