import { checkNumber } from '../base/check.ts';
import { checkLimitOptions, type Limit, type LimitOptions, type Sample } from './limit.ts';

export interface AimdLimitOptions extends LimitOptions {
  /** The share of its size that a drop leaves; from 0.1 to 0.99, 0.9 by default. */
  readonly backoff?: number | undefined;
}

export interface AimdLimitStats {
  readonly size: number;
  readonly sizeMax: number;
  /** How often a drop made it smaller. */
  readonly cuts: number;
}

/**
 * Grows by one each round trip while it is used, and shrinks by a share when work is dropped. It
 * needs a downstream that refuses, or `latencyMsMax`: it sees no queue that only makes calls slow.
 */
export class AimdLimit implements Limit {
  readonly sizeMax: number;
  readonly #sizeMin: number;
  readonly #latencyMsMax: number;
  readonly #backoff: number;
  /** With its fraction: each success adds a part of one. */
  #size: number;
  #cutAt = -Infinity;
  #cuts = 0;

  constructor(options: AimdLimitOptions) {
    const { size, sizeMin, sizeMax, latencyMsMax } = checkLimitOptions(options);
    const { backoff = 0.9 } = options;
    checkNumber('backoff', backoff, 0.1, 0.99);
    this.sizeMax = sizeMax;
    this.#sizeMin = sizeMin;
    this.#latencyMsMax = latencyMsMax;
    this.#backoff = backoff;
    this.#size = size;
  }

  get size(): number {
    return Math.floor(this.#size);
  }

  get stats(): AimdLimitStats {
    return { size: this.size, sizeMax: this.sizeMax, cuts: this.#cuts };
  }

  observe(sample: Sample): void {
    const { outcome, startedAt, endedAt, inside } = sample;
    // What began before the last cut was sent at the old size: a burst of drops is one event.
    if (outcome === 'ignored' || startedAt < this.#cutAt) return;
    if (outcome === 'dropped' || endedAt - startedAt >= this.#latencyMsMax) {
      this.#size = Math.max(this.#sizeMin, this.#size * this.#backoff);
      this.#cutAt = endedAt;
      this.#cuts += 1;
    } else if (inside * 2 >= this.size) {
      this.#size = Math.min(this.sizeMax, this.#size + 1 / this.#size);
    }
  }
}
