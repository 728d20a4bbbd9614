import type { Sample } from './limit.ts';

/** Samples that a whole burst needs if they differ little. */
const burstSamplesMin = 8;
const samplesMin = 16;
const samplesMax = 24;
/** Relative standard error of the mean above which a reading takes `samplesMax` samples. */
const errorMax = 0.1;
/** Standard errors by which two means may differ by chance. */
export const errorsByChance = 2;
/** Share of the size in use from which on the limit, and not the demand, bounds it. */
const boundShare = 0.87;
/** Part of a round trip that is skipped where the last latencies differed little. */
const evenSkip = 0.3;
/** Samples in a row, each with fewer in flight, after which a burst counts as draining. */
const fallsMin = 4;
const fallsMax = 8;
/** Latency of work that takes no time at all: it is not infinitely fast. */
const latencyMsMin = 0.001;

/** The summary of a window of samples. */
export interface Reading {
  /** Mean latency, without the lowest and the highest eighth: a few cache hits do not sway it. */
  readonly meanMs: number;
  /** Latency of the quick calls: an eighth was quicker. A queue delays these, too. */
  readonly quickMs: number;
  /** Difference of the slow calls (upper quartile) to the quick ones: no queue changes it. */
  readonly spreadMs: number;
  /** Mean number in flight: by Little's law, throughput times latency. */
  readonly inside: number;
  /** Standard error of the mean latency, relative to it. */
  readonly error: number;
  /** Share of the work that did not end in time. */
  readonly lateShare: number;
  /** True if it covers all calls of a burst, from the first to the last. */
  readonly isBurst: boolean;
}

/** A reading, and the size at which it was taken. */
export interface SizedReading extends Reading {
  readonly size: number;
}

/** Rise of latency with the size: of the quick calls, or of the mean beyond chance. */
export function riseMs(smaller: Reading, larger: Reading): number {
  const errorMs = Math.hypot(smaller.error * smaller.meanMs, larger.error * larger.meanMs);
  const meanRiseMs = larger.meanMs - smaller.meanMs - errorsByChance * errorMs;
  return Math.max(larger.quickMs - smaller.quickMs, meanRiseMs);
}

/** Rise of latency to be expected if all that are in flight besides only wait in a queue. */
export function queuedRiseMs(smaller: Reading, larger: Reading): number {
  return larger.meanMs * (1 - smaller.inside / larger.inside);
}

/** True if two thirds of the size are in use, so that a larger one may be needed. */
export function isUsed({ inside, size }: SizedReading): boolean {
  return inside * 1.5 > Math.floor(size);
}

/** True if the limit is what keeps the number in flight from growing. */
export function isBound({ inside, size }: SizedReading): boolean {
  return inside >= boundShare * Math.floor(size);
}

/**
 * The sample window: gathers samples in fixed memory until they make a reading.
 *
 * The calls of a burst end in the order of their durations, so a few that end one after another say
 * little about all. If the number in flight falls to 0 before the window was full, all samples
 * since it was opened make one reading.
 */
export class SampleWindow {
  readonly #samples = new Samples();
  /** Samples that this reading needs. */
  #countMin = samplesMin;
  /** All samples since the window was opened, until the first reading. */
  readonly #burst = new Samples();
  #isBurstWhole = false;
  /** Samples skipped since the window was opened; none at first, when calls meet nobody. */
  #skipped = Infinity;
  #isFirst = true;
  /** True if the last latencies differed little, so that quick calls do not come back first. */
  #isEven = false;
  #insideBefore = 0;
  /** Last samples that each left fewer in flight than the one before: nobody came meanwhile. */
  #falls = 0;

  /** Begins anew at another size. A larger one shows after a whole round trip only. */
  open(isLarger: boolean): void {
    if (isLarger) this.#isEven = false;
    this.#samples.clear();
    this.#burst.clear();
    this.#isBurstWhole = true;
    this.#skipped = 0;
  }

  /** Adds one sample; gives a reading if that completes one, and then begins the next. */
  add(sample: Sample): Reading | undefined {
    const { inside } = sample;
    const fall = this.#insideBefore - inside;
    this.#falls = fall > 0 ? this.#falls + 1 : 0;
    this.#insideBefore = inside;
    if (this.#isBurstWhole) this.#burst.add(sample);
    const fallsLeast = Math.min(fallsMax, Math.max(fallsMin, this.#skipped));
    const isDraining = this.#falls >= fallsLeast && !this.#isFirst;
    // The lane may pass on only some samples, so the very last of a burst may be missing.
    if (isDraining && inside - fall < 1) return this.#readBurst();
    if (this.#samples.count === 0) {
      // The first to come back after a change are the quick calls: one round trip is skipped.
      if (isDraining || this.#skipped < (this.#isEven ? evenSkip : 1) * inside) {
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
    // All of these came back while a burst drained.
    if (this.#falls >= count - 1 && !this.#isEven) return undefined;
    this.#isFirst = false;
    this.#isBurstWhole = false;
    return reading;
  }

  /** Gives a reading of a whole burst; one that is too small is read together with the next. */
  #readBurst(): Reading | undefined {
    const reading = this.#isBurstWhole ? this.#burst.summary() : undefined;
    const countMin = reading && reading.error < errorMax ? burstSamplesMin : samplesMin;
    if (reading && this.#burst.count < countMin) {
      this.#samples.clear();
      this.#skipped = 0;
      return undefined;
    }
    const inside = this.#burst.insideMax;
    this.open(true);
    return reading && { ...reading, inside, isBurst: true };
  }
}

/** Latencies in fixed memory: when it is full, every second one goes and half as many come in. */
class Samples {
  readonly #latencies = new Float64Array(samplesMax);
  /** Latencies that are kept. */
  count = 0;
  insideMax = 0;
  #all = 0;
  #late = 0;
  #insideSum = 0;
  /** One latency of so many is kept. */
  #stride = 1;

  add({ outcome, startedAt, endedAt, inside }: Sample): void {
    if (this.#all % this.#stride === 0) {
      if (this.count === samplesMax) this.#thin();
      this.#latencies[this.count] = Math.max(latencyMsMin, endedAt - startedAt);
      this.count += 1;
    }
    this.#all += 1;
    this.#insideSum += inside;
    this.insideMax = Math.max(this.insideMax, inside);
    if (outcome !== 'ok') this.#late += 1;
  }

  #thin(): void {
    this.count >>= 1;
    this.#stride *= 2;
    for (let i = 0; i < this.count; i += 1) {
      this.#latencies[i] = this.#latencies[2 * i] as number;
    }
  }

  clear(): void {
    this.count = 0;
    this.insideMax = 0;
    this.#all = 0;
    this.#late = 0;
    this.#insideSum = 0;
    this.#stride = 1;
  }

  summary(): Reading {
    const { count } = this;
    const sorted = this.#latencies.slice(0, count).sort();
    const eighth = count >> 3;
    const meanMs = meanOf(sorted.subarray(eighth, count - eighth));
    const deviations = sorted.map((ms) => (ms - meanMs) ** 2);
    const error = Math.sqrt(meanOf(deviations) / count) / meanMs;
    const quickMs = sorted[eighth] as number;
    const spreadMs = (sorted[count - 1 - (count >> 2)] as number) - quickMs;
    const inside = this.#insideSum / this.#all;
    const lateShare = this.#late / this.#all;
    return { meanMs, quickMs, spreadMs, inside, error, lateShare, isBurst: false };
  }
}

function meanOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
