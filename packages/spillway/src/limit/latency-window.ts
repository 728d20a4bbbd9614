import type { Sample } from './limit.ts';

const samplesMin = 32;
const samplesMax = 400;
/** Relative error at which a reading is good enough; noisier traffic is read for longer. */
const errorMax = 0.05;
/** Work that takes no time at all is not infinitely fast. */
const latencyMsMin = 0.001;

/** The reading of a window of samples. */
export interface Reading {
  /** The mean of the middle half: cache hits, stragglers and two kinds of call do not sway it. */
  readonly latencyMs: number;
  /** Permits in use, on average: by Little's law, throughput times latency. */
  readonly inside: number;
  /** The middle half took the same time within 1 %, as calls do that all run into a time-out. */
  readonly isFlat: boolean;
}

/** Gathers samples until they say something, in fixed memory. */
export class LatencyWindow {
  readonly #latencies = new Float64Array(samplesMax);
  #count = 0;
  #countMin = samplesMin;
  #insideSum = 0;
  #skipped = 0;

  /** Begins anew, after the size has changed. */
  open(): void {
    this.#count = 0;
    this.#insideSum = 0;
    this.#skipped = 0;
  }

  /** Takes one sample in; gives a reading when it completes one, and then goes on to the next. */
  add(sample: Sample): Reading | undefined {
    const { startedAt, endedAt, inside } = sample;
    if (this.#count === 0) {
      // The first to come back after a change are the quick ones, so one round trip is left out.
      if (this.#skipped < inside) {
        this.#skipped += 1;
        return undefined;
      }
      this.#countMin = Math.min(samplesMax, Math.max(samplesMin, Math.ceil(inside)));
    }
    this.#latencies[this.#count] = Math.max(latencyMsMin, endedAt - startedAt);
    this.#count += 1;
    this.#insideSum += inside;
    return this.#count < this.#countMin ? undefined : this.#read();
  }

  #read(): Reading | undefined {
    const count = this.#count;
    const sorted = this.#latencies.subarray(0, count).sort();
    const quarter = count >> 2;
    const middle = sorted.subarray(quarter, count - quarter);
    const latencyMs = middle.reduce((sum, ms) => sum + ms, 0) / middle.length;
    const lowest = middle[0] as number;
    const spread = (middle.at(-1) as number) - lowest;
    // For a bell curve the standard error of this mean is 0.8 times the spread over root n.
    if (count < samplesMax && (0.8 * spread) / Math.sqrt(count) > errorMax * latencyMs) {
      this.#countMin = Math.min(samplesMax, Math.ceil(count * 1.5));
      return undefined;
    }
    const inside = this.#insideSum / count;
    this.#count = 0;
    this.#insideSum = 0;
    return { latencyMs, inside, isFlat: spread <= lowest * 0.01 };
  }
}
