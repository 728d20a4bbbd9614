// Adaptive limits of other libraries, written from their published descriptions for comparison:
// only the algorithms, with their default numbers.
import type { Limit, Sample } from 'spillway';

const sizeMax = 200;

function within(size: number, least = 1): number {
  return Math.min(sizeMax, Math.max(least, size));
}

/** Vegas of Netflix's concurrency-limits: estimates the queue from the best latency ever seen. */
export class Vegas implements Limit {
  readonly sizeMax: number = sizeMax;
  #size = 20;
  #bestMs = Infinity;
  #untilProbe = 30 * 20;

  get size(): number {
    return Math.floor(this.#size);
  }

  observe({ outcome, startedAt, endedAt, inside }: Sample): void {
    const ms = endedAt - startedAt;
    const log = Math.max(1, Math.log10(this.#size));
    this.#untilProbe -= 1;
    if (this.#untilProbe <= 0) {
      this.#untilProbe = 30 * this.#size;
      this.#bestMs = ms;
      return;
    }
    this.#bestMs = Math.min(this.#bestMs, ms);
    if (outcome !== 'ok') {
      this.#size = within(this.#size - log);
      return;
    }
    if (inside * 2 < this.#size) return;
    const queue = Math.ceil(this.#size * (1 - this.#bestMs / ms));
    if (queue <= log) this.#size = within(this.#size + 6 * log);
    else if (queue < 3 * log) this.#size = within(this.#size + log);
    else if (queue > 6 * log) this.#size = within(this.#size - log);
  }
}

/** Gradient2 of the same library: compares a long average of latency with that of one second. */
export class Gradient2 implements Limit {
  readonly sizeMax: number = sizeMax;
  #size = 20;
  #longMs = 0;
  #windows = 0;
  #windowAt = 0;
  #sum = 0;
  #count = 0;

  get size(): number {
    return Math.floor(this.#size);
  }

  observe({ outcome, startedAt, endedAt, inside }: Sample): void {
    if (outcome === 'ok') {
      this.#sum += endedAt - startedAt;
      this.#count += 1;
    }
    if (endedAt - this.#windowAt < 1_000 || this.#count < 10) return;
    const shortMs = this.#sum / this.#count;
    this.#windowAt = endedAt;
    this.#sum = 0;
    this.#count = 0;
    this.#windows += 1;
    this.#longMs += (shortMs - this.#longMs) / Math.min(this.#windows, 600);
    if (this.#longMs / shortMs > 2) this.#longMs *= 0.95;
    if (inside < this.#size / 2) return;
    const gradient = Math.max(0.5, Math.min(1, (1.5 * this.#longMs) / shortMs));
    const wanted = this.#size * gradient + 4;
    this.#size = within(this.#size * 0.8 + wanted * 0.2);
  }
}

/** Envoy's adaptive concurrency: goes down to 3 each minute to measure the ideal latency. */
export class Envoy implements Limit {
  readonly sizeMax: number = sizeMax;
  #size = 3;
  #sizeBefore = 3;
  #idealMs: number | undefined;
  #ideal: number[] = [];
  #measureAt = 0;
  #updateAt = 0;
  #epochAt = 0;
  #window: number[] = [];

  get size(): number {
    return Math.floor(this.#size);
  }

  observe({ outcome, startedAt, endedAt }: Sample): void {
    if (outcome !== 'ok') return;
    if (endedAt >= this.#measureAt) {
      if (startedAt < this.#epochAt) return;
      this.#ideal.push(endedAt - startedAt);
      if (this.#ideal.length < 50) return;
      this.#idealMs = p90(this.#ideal);
      this.#ideal = [];
      this.#measureAt = endedAt + 60_000;
      this.#size = this.#sizeBefore;
      return;
    }
    this.#window.push(endedAt - startedAt);
    if (endedAt < this.#updateAt || this.#idealMs === undefined) return;
    const gradient = Math.min(2, Math.max(0.5, (1.25 * this.#idealMs) / p90(this.#window)));
    this.#updateAt = endedAt + 100;
    this.#window = [];
    this.#size = within(this.#size * gradient + Math.sqrt(this.#size * gradient), 3);
    if (endedAt + 100 < this.#measureAt) return;
    this.#sizeBefore = this.#size;
    this.#size = 3;
    this.#epochAt = endedAt;
  }
}

function p90(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.9)] ?? 0;
}
