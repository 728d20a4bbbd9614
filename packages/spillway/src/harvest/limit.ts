import { AdaptiveLimit } from '../limit/adaptive.ts';
import type { Limit, Sample } from '../limit/limit.ts';

const sizeAtStart = 20;
const samplesMin = 64;
/** The size counts as used up when the mean in flight is above this share of it. */
const usedShare = 2 / 3;
/** After a doubling, calls this many times as slow mean that the added ones only wait. */
const slowdownMax = 1.6;
/** Answers after which the latency is known well enough to leap, and how far at most. */
const leapSamples = 8;
const leapMax = 4;
/** Doublings in a row that slow calls down; after one, the other side may just be slow. */
const slowerMax = 2;

/**
 * Finds the number of fetches in flight: by Little's law, the rate times the latency. After the
 * first few answers it leaps to twice that, at most fourfold. From there it doubles while its size
 * is used up; otherwise the bucket alone sets the pace. If doubling only makes calls slower, the
 * other side is full before the rate is used, and an {@link AdaptiveLimit} goes on from there.
 */
export class HarvestLimit implements Limit {
  readonly sizeMax: number;
  readonly #ratePerSecond: () => number;
  #size: number;
  #adaptive: AdaptiveLimit | undefined;
  /** Calls that began before this time were sent at another size, and do not count. */
  #epochAt = -Infinity;
  #skipped = 0;
  #insideSum = 0;
  #latencies: number[] = [];
  /** At half the size, if it has just been doubled. */
  #latencyMsBefore = Infinity;
  /** Doublings in a row that made calls slower. */
  #slower = 0;
  #hasGrown = false;
  /** Time spent by all in flight since the last reading, and how many came back in it. */
  #spentMs = 0;
  #answers = 0;
  #last: Pick<Sample, 'endedAt' | 'inside'> | undefined;

  /** `ratePerSecond` gives the current rate, or 0 if it is not known: then there is no leap. */
  constructor(sizeMax: number, ratePerSecond: () => number) {
    this.sizeMax = sizeMax;
    this.#ratePerSecond = ratePerSecond;
    this.#size = Math.min(sizeAtStart, sizeMax);
  }

  get size(): number {
    return this.#adaptive?.size ?? this.#size;
  }

  observe(sample: Sample): void {
    if (this.#adaptive !== undefined) this.#adaptive.observe(sample);
    else if (sample.isWhole && sample.startedAt >= this.#epochAt) {
      if (this.#hasGrown || !this.#leaps(sample)) this.#read(sample);
    }
  }

  /** Leaps if it is time to, once, before anything else has made it grow; true if it did. */
  #leaps({ startedAt, endedAt, inside }: Sample): boolean {
    const { endedAt: since, inside: before } = this.#last ?? { endedAt: startedAt, inside: 0 };
    this.#spentMs += ((before + inside) / 2) * (endedAt - since);
    this.#answers += 1;
    this.#last = { endedAt, inside };
    // Calls still in flight count too, since the first to come back are the quick ones.
    const latencyMs = this.#spentMs / this.#answers;
    const wanted = Math.ceil((2 * this.#ratePerSecond() * latencyMs) / 1000);
    if (this.#answers < leapSamples || wanted <= this.#size) return false;
    this.#resize(Math.min(leapMax * this.#size, Math.max(2 * this.#size, wanted)), endedAt);
    // Four times as many are two doublings: if calls are slower by as much, the other side is full.
    this.#latencyMsBefore = slowdownMax * latencyMs;
    this.#slower = slowerMax - 1;
    return true;
  }

  #read({ startedAt, endedAt, inside }: Sample): void {
    // The first to come back after a change are the quick ones, so one round trip is left out.
    if (this.#skipped < inside && this.#latencies.length === 0) {
      this.#skipped += 1;
      return;
    }
    this.#latencies.push(endedAt - startedAt);
    this.#insideSum += inside;
    const count = this.#latencies.length;
    if (count < Math.max(samplesMin, this.#size)) return;
    const latencyMs = this.#latencies.sort((a, b) => a - b)[count >> 1] as number;
    const isUsed = this.#insideSum / count > usedShare * this.#size;
    this.#latencies = [];
    this.#insideSum = 0;
    this.#spentMs = 0;
    this.#answers = 0;
    if (isUsed) this.#grow(latencyMs, endedAt);
    else this.#latencyMsBefore = Infinity;
  }

  #grow(latencyMs: number, at: number): void {
    const isSlower = latencyMs > slowdownMax * this.#latencyMsBefore;
    this.#slower = isSlower ? this.#slower + 1 : 0;
    const isFull = this.#slower >= slowerMax;
    if (isFull || this.#size === this.sizeMax) {
      const size = isFull ? this.#size >> 1 : this.#size;
      this.#adaptive = new AdaptiveLimit(size, this.sizeMax, Infinity);
      return;
    }
    this.#latencyMsBefore = latencyMs;
    this.#resize(2 * this.#size, at);
  }

  #resize(size: number, at: number): void {
    this.#size = Math.min(this.sizeMax, size);
    this.#hasGrown = true;
    this.#latencies = [];
    this.#insideSum = 0;
    this.#skipped = 0;
    this.#epochAt = at;
  }
}
