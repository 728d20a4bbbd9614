import type { Sample } from './limit.ts';

/** Samples of a burst that are enough if they took about the same time. */
const samplesLeast = 8;
const samplesMin = 16;
const samplesMax = 24;
/** Relative error at which a reading is good enough; noisier traffic is read for longer. */
const errorMax = 0.1;
/** Errors of a reading by which the mean may differ by chance. */
export const errorsByChance = 2;
/** Share of its size above which a limit binds: below it, a smaller one is not called for. */
const boundShare = 0.87;
/** Share of a round trip that is left out where the last samples took about the same time. */
const evenShare = 0.3;
/** Ends in a row, with nobody who comes meanwhile, that are taken for the end of a burst. */
const fallsMin = 4;
const fallsMost = 8;
/** Work that takes no time at all is not infinitely fast. */
const latencyMsMin = 0.001;

/** The summary of a window of samples. */
export interface Reading {
  /** The mean without the lowest and the highest eighth: a few cache hits do not sway it. */
  readonly latencyMs: number;
  /** Latency of the quickest: an eighth was quicker. Time in a queue is added to theirs too. */
  readonly floorMs: number;
  /** Difference between the slower and the quicker: time in a queue is added to both. */
  readonly spreadMs: number;
  /** Permits in use, on average: by Little's law, throughput times latency. */
  readonly inside: number;
  /** Standard error of the latency over the latency. */
  readonly error: number;
  /** Share of the work that did not end in time. */
  readonly lateShare: number;
  /** True if all calls of a burst were read, from the first to the last. */
  readonly isBurst: boolean;
}

/** A reading, and the size it was taken at. */
export interface Step extends Reading {
  readonly size: number;
}

/** Rise of the latency: that of the quickest, or that of all beyond what chance explains. */
export function riseMs(smaller: Reading, larger: Reading): number {
  const errorMs = Math.hypot(smaller.error * smaller.latencyMs, larger.error * larger.latencyMs);
  const riseOfAllMs = larger.latencyMs - smaller.latencyMs - errorsByChance * errorMs;
  return Math.max(larger.floorMs - smaller.floorMs, riseOfAllMs);
}

/** Rise of the latency by a queue, if all who are inside more wait in it. */
export function waitMs(smaller: Reading, larger: Reading): number {
  return larger.latencyMs * (1 - smaller.inside / larger.inside);
}

/** True if there is so much to do that a larger size is of use. */
export function isUsed({ inside, size }: Step): boolean {
  return inside * 1.5 > Math.floor(size);
}

/** True if the limit is what keeps the number inside from growing. */
export function isBound({ inside, size }: Step): boolean {
  return inside >= boundShare * Math.floor(size);
}

/**
 * Gathers samples until they say something, in fixed memory.
 *
 * Calls of a burst end in the order of their durations, so some that end one after the other say
 * little about all. If nobody is left inside before a reading was given, all that were begun since
 * the window was opened give one.
 */
export class ReadingWindow {
  readonly #samples = new Samples();
  #countMin = samplesMin;
  /** All samples since the window was opened, until a reading was given. */
  readonly #burst = new Samples();
  #isBurstWhole = false;
  /** Samples left out since the size has changed; none at the start, where calls meet nobody. */
  #skipped = Infinity;
  /** True until the first reading. */
  #isFirst = true;
  /** The last samples took about the same time, so few quick ones come first. */
  #isEven = false;
  #insideLast = 0;
  /** Last samples that each left fewer inside than the one before: nobody came meanwhile. */
  #falls = 0;

  /** Begins anew, after the size has changed: a larger one shows after a whole round trip only. */
  open(isLarger: boolean): void {
    if (isLarger) this.#isEven = false;
    this.#samples.clear();
    this.#burst.clear();
    this.#isBurstWhole = true;
    this.#skipped = 0;
  }

  /** Takes one sample in; gives a reading when it completes one, and then goes on to the next. */
  add(sample: Sample): Reading | undefined {
    const { inside } = sample;
    const fall = this.#insideLast - inside;
    this.#falls = fall > 0 ? this.#falls + 1 : 0;
    this.#insideLast = inside;
    if (this.#isBurstWhole) this.#burst.add(sample);
    const fallsLeast = Math.min(fallsMost, Math.max(fallsMin, this.#skipped));
    const isDraining = this.#falls >= fallsLeast && !this.#isFirst;
    // Only some of the ends may be looked at, so that of the last is not seen.
    if (isDraining && inside - fall < 1) return this.#readBurst();
    if (this.#samples.count === 0) {
      // The first to come back after a change are the quick ones, so one round trip is left out.
      if (isDraining || this.#skipped < (this.#isEven ? evenShare : 1) * inside) {
        this.#skipped += 1;
        return undefined;
      }
      this.#countMin = samplesMin;
    }
    this.#samples.add(sample);
    return this.#samples.count < this.#countMin ? undefined : this.#read();
  }

  #read(): Reading | undefined {
    const reading = this.#samples.summary();
    const { count } = this.#samples;
    if (count < samplesMax && reading.error > errorMax) {
      this.#countMin = samplesMax;
      return undefined;
    }
    this.#samples.clear();
    this.#isEven = reading.error < errorMax / 4;
    if (this.#falls >= count - 1 && !this.#isEven) return undefined;
    this.#isFirst = false;
    this.#isBurstWhole = false;
    return reading;
  }

  /** Gives a reading of a whole burst, or adds the next one to it if there are too few samples. */
  #readBurst(): Reading | undefined {
    const reading = this.#isBurstWhole ? this.#burst.summary() : undefined;
    const countMin = reading && reading.error < errorMax ? samplesLeast : samplesMin;
    if (reading && this.#burst.count < countMin) {
      this.#samples.clear();
      this.#skipped = 0;
      return undefined;
    }
    const inside = this.#burst.insideMost;
    this.open(true);
    return reading && { ...reading, inside, isBurst: true };
  }
}

/** Samples, of which every second is left out whenever there are too many. */
class Samples {
  readonly #latencies = new Float64Array(samplesMax);
  /** Samples that are kept. */
  count = 0;
  insideMost = 0;
  #all = 0;
  #late = 0;
  #insideSum = 0;
  /** Samples out of which one is kept. */
  #keptOf = 1;

  add({ outcome, startedAt, endedAt, inside }: Sample): void {
    if (this.#all % this.#keptOf === 0) {
      if (this.count === samplesMax) this.#thin();
      this.#latencies[this.count] = Math.max(latencyMsMin, endedAt - startedAt);
      this.count += 1;
    }
    this.#all += 1;
    this.#insideSum += inside;
    this.insideMost = Math.max(this.insideMost, inside);
    if (outcome !== 'ok') this.#late += 1;
  }

  #thin(): void {
    this.count >>= 1;
    this.#keptOf *= 2;
    for (let i = 0; i < this.count; i += 1) {
      this.#latencies[i] = this.#latencies[2 * i] as number;
    }
  }

  clear(): void {
    this.count = 0;
    this.insideMost = 0;
    this.#all = 0;
    this.#late = 0;
    this.#insideSum = 0;
    this.#keptOf = 1;
  }

  summary(): Reading {
    const { count } = this;
    const sorted = this.#latencies.slice(0, count).sort();
    const eighth = count >> 3;
    const latencyMs = meanOf(sorted.subarray(eighth, count - eighth));
    const deviations = sorted.map((ms) => (ms - latencyMs) ** 2);
    const error = Math.sqrt(meanOf(deviations) / count) / latencyMs;
    const floorMs = sorted[eighth] as number;
    const spreadMs = (sorted[count - 1 - (count >> 2)] as number) - floorMs;
    const inside = this.#insideSum / this.#all;
    const lateShare = this.#late / this.#all;
    return { latencyMs, floorMs, spreadMs, inside, error, lateShare, isBurst: false };
  }
}

function meanOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
