import type { Limit, LimitOptions, Sample } from 'spillway';

/**
 * Grows by one each round trip while it is used, and shrinks by a share when work is dropped. It
 * needs a downstream that refuses, or `latencyMsMax`: it sees no queue that only makes calls slow.
 */
export class AimdLimit implements Limit {
  readonly sizeMax: number;
  readonly #sizeMin: number;
  readonly #latencyMsMax: number;
  /** With its fraction: each success adds a part of one. */
  #size: number;
  #cutAt = -Infinity;

  constructor(options: LimitOptions) {
    this.sizeMax = options.sizeMax;
    this.#sizeMin = options.sizeMin ?? 1;
    this.#latencyMsMax = options.latencyMsMax ?? Infinity;
    this.#size = options.size ?? Math.min(20, options.sizeMax);
  }

  get size(): number {
    return Math.floor(this.#size);
  }

  observe({ outcome, isWhole, startedAt, endedAt, inside }: Sample): void {
    const isTooMuch = outcome === 'overloaded' || outcome === 'late';
    // Work begun before the last cut was sent at the old size: a burst of drops is one event.
    if (startedAt < this.#cutAt) return;
    if (isTooMuch || endedAt - startedAt >= this.#latencyMsMax) {
      this.#size = Math.max(this.#sizeMin, this.#size * 0.9);
      this.#cutAt = endedAt;
    } else if (isWhole && inside * 2 >= this.size) {
      this.#size = Math.min(this.sizeMax, this.#size + 1 / this.#size);
    }
  }
}
