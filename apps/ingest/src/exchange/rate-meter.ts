import { check, checkInteger } from 'spillway/internal';

export interface ExchangeRate {
  /** Requests that are let through each second; above 0. */
  readonly ratePerSecond: number;
  /** How many of them may come at once; an integer from 1. */
  readonly burst: number;
}

/** One request too many. */
export interface Overrun {
  /** Milliseconds since the exchange was opened. */
  readonly atMs: number;
  /** How many came in the second before, itself counted. */
  readonly inSecond: number;
}

/** How many of the last arrivals are known: more in one second are not told apart from these. */
const arrivalsMax = 65_536;
const overrunsMax = 100;

/** A bucket of tokens, filled when it is looked at and full at first; and what came when. */
export class RateMeter {
  readonly #rate: ExchangeRate | undefined;
  #tokens: number;
  #filledAt: number;
  /** Arrivals of the last second, as a ring. */
  readonly #arrivals = new Float64Array(arrivalsMax);
  #oldest = 0;
  #inSecond = 0;
  requests = 0;
  refused = 0;
  mostInSecond = 0;
  /** The first ones. */
  readonly overruns: Overrun[] = [];

  constructor(rate: ExchangeRate | undefined, now: number) {
    if (rate !== undefined) {
      const { ratePerSecond, burst } = rate;
      check(ratePerSecond > 0, 'ratePerSecond', 'a number above 0', ratePerSecond);
      checkInteger('burst', burst, 1);
    }
    this.#rate = rate;
    this.#tokens = rate?.burst ?? Infinity;
    this.#filledAt = now;
  }

  /** Counts a request; in how many milliseconds it would have been let through, 0 if it is. */
  arrive(now: number): number {
    this.#count(now);
    if (this.#rate === undefined) return 0;
    const { ratePerSecond, burst } = this.#rate;
    const filled = ((now - this.#filledAt) / 1000) * ratePerSecond;
    this.#tokens = Math.min(burst, this.#tokens + filled);
    this.#filledAt = now;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return 0;
    }
    this.refused += 1;
    if (this.overruns.length < overrunsMax) {
      this.overruns.push({ atMs: now, inSecond: this.#inSecond });
    }
    return ((1 - this.#tokens) / ratePerSecond) * 1000;
  }

  #count(now: number): void {
    const isOld = (): boolean => (this.#arrivals[this.#oldest] as number) <= now - 1000;
    while (this.#inSecond > 0 && (isOld() || this.#inSecond === arrivalsMax)) {
      this.#oldest = (this.#oldest + 1) % arrivalsMax;
      this.#inSecond -= 1;
    }
    this.#arrivals[(this.#oldest + this.#inSecond) % arrivalsMax] = now;
    this.#inSecond += 1;
    this.requests += 1;
    this.mostInSecond = Math.max(this.mostInSecond, this.#inSecond);
  }
}
