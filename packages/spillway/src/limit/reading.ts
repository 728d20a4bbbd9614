import type { Sample } from './limit.ts';

const samplesMin = 16;
const samplesMax = 24;
/** Relative error at which a reading is good enough; noisier traffic is read for longer. */
const errorMax = 0.1;
/** Share of a round trip that is left out where the last samples took about the same time. */
const evenShare = 0.3;
/** Work that takes no time at all is not infinitely fast. */
const latencyMsMin = 0.001;

/** The summary of a window of samples. */
export interface Reading {
  /** The mean without the lowest and the highest eighth: a few cache hits do not sway it. */
  readonly latencyMs: number;
  /** Latency of the quickest: an eighth was quicker. Time in a queue is added to theirs too. */
  readonly floorMs: number;
  /** Permits in use, on average: by Little's law, throughput times latency. */
  readonly inside: number;
  /** Standard error of the latency over the latency. */
  readonly error: number;
  /** Share of the work that did not end in time. */
  readonly lateShare: number;
}

/** Gathers samples until they say something, in fixed memory. */
export class ReadingWindow {
  readonly #latencies = new Float64Array(samplesMax);
  #count = 0;
  #countMin = samplesMin;
  #insideSum = 0;
  #late = 0;
  /** Samples left out since the size has changed; none at the start, where calls meet nobody. */
  #skipped = Infinity;
  /** The last samples took about the same time, so few quick ones come first. */
  #isEven = false;

  /** Begins anew, after the size has changed: a larger one shows after a whole round trip only. */
  open(isLarger: boolean): void {
    if (isLarger) this.#isEven = false;
    this.#count = 0;
    this.#insideSum = 0;
    this.#late = 0;
    this.#skipped = 0;
  }

  /** Takes one sample in; gives a reading when it completes one, and then goes on to the next. */
  add(sample: Sample): Reading | undefined {
    const { outcome, startedAt, endedAt, inside } = sample;
    if (this.#count === 0) {
      // The first to come back after a change are the quick ones, so one round trip is left out.
      if (this.#skipped < (this.#isEven ? evenShare : 1) * inside) {
        this.#skipped += 1;
        return undefined;
      }
      this.#countMin = samplesMin;
    }
    this.#latencies[this.#count] = Math.max(latencyMsMin, endedAt - startedAt);
    this.#count += 1;
    this.#insideSum += inside;
    if (outcome !== 'ok') this.#late += 1;
    return this.#count < this.#countMin ? undefined : this.#read();
  }

  #read(): Reading | undefined {
    const count = this.#count;
    const sorted = this.#latencies.subarray(0, count).sort();
    const eighth = count >> 3;
    const latencyMs = meanOf(sorted.subarray(eighth, count - eighth));
    const deviations = sorted.map((ms) => (ms - latencyMs) ** 2);
    const error = Math.sqrt(meanOf(deviations) / count) / latencyMs;
    if (count < samplesMax && error > errorMax) {
      this.#countMin = samplesMax;
      return undefined;
    }
    const floorMs = sorted[eighth] as number;
    const inside = this.#insideSum / count;
    const lateShare = this.#late / count;
    this.#isEven = error < errorMax / 4;
    this.#count = 0;
    this.#insideSum = 0;
    this.#late = 0;
    return { latencyMs, floorMs, inside, error, lateShare };
  }
}

function meanOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
