import type { Bucket, BucketStats } from 'spillway';
import { harvestingError } from './harvesting-error.ts';

/** A bucket that counts what is taken, and gives no more than so many tokens in all. */
export class QuotaBucket implements Pick<Bucket, 'take' | 'slow' | 'stats'> {
  readonly #bucket: Pick<Bucket, 'take' | 'slow' | 'stats'>;
  readonly #max: number;
  taken = 0;

  constructor(bucket: Pick<Bucket, 'take' | 'slow' | 'stats'>, max: number) {
    this.#bucket = bucket;
    this.#max = max;
  }

  get stats(): BucketStats {
    return this.#bucket.stats;
  }

  get isSpent(): boolean {
    return this.taken >= this.#max;
  }

  async take(n = 1, signal?: AbortSignal): Promise<void> {
    if (this.taken + n > this.#max) {
      throw harvestingError('BUDGET_SPENT', `${this.#max} requests were allowed, and made`);
    }
    this.taken += n;
    try {
      await this.#bucket.take(n, signal);
    } catch (error) {
      this.taken -= n;
      throw error;
    }
  }

  slow(told?: { readonly retryAfterMs?: number | undefined }): void {
    this.#bucket.slow(told);
  }
}
