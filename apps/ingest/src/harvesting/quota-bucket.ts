import type { BucketStats, RunOptions, SharedBucket } from 'spillway';
import { harvestingError } from './harvesting-error.ts';

/** The bucket of a process, or one that it shares with others. */
type AnyBucket = Pick<SharedBucket, 'take' | 'slow'> & { readonly stats: BucketStats<string> };

/** A bucket that counts what is taken, and gives no more than so many tokens in all. */
export class QuotaBucket implements AnyBucket {
  readonly #bucket: AnyBucket;
  readonly #max: number;
  taken = 0;

  constructor(bucket: AnyBucket, max: number) {
    this.#bucket = bucket;
    this.#max = max;
  }

  get stats(): BucketStats<string> {
    return this.#bucket.stats;
  }

  get isSpent(): boolean {
    return this.taken >= this.#max;
  }

  async take(n = 1, options?: RunOptions): Promise<void> {
    if (this.taken + n > this.#max) {
      throw harvestingError('BUDGET_SPENT', `${this.#max} requests were allowed, and made`);
    }
    this.taken += n;
    try {
      await this.#bucket.take(n, options);
    } catch (error) {
      this.taken -= n;
      throw error;
    }
  }

  slow(told?: { readonly retryAfterMs?: number | undefined }): void {
    this.#bucket.slow(told);
  }
}
