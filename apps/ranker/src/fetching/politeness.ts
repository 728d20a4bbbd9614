import { Bucket, type Clock, Keyed, type KeyedStats, systemClock } from 'spillway';
import { checkInteger } from 'spillway/internal';
import { UnavailableError } from './unavailable.ts';

export interface PolitenessOptions {
  /** Requests to one host each second, above 0. @default 2 */
  readonly ratePerSecond?: number | undefined;
  /** Requests to one host that may start together. An integer from 1. @default 4 */
  readonly burst?: number | undefined;
  /** The number of requests that may wait for one host. An integer from 0. @default 16 */
  readonly queueMax?: number | undefined;
  /** The number of hosts remembered; more than can be waited for at once. @default 2_000 */
  readonly hostsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** A host that wants to be left alone for longer than this is not waited for. */
const pauseMsMax = 5_000;

/** Sees that no host is asked more often than is polite. */
export class Politeness {
  readonly #buckets: Keyed<Bucket>;

  constructor(options: PolitenessOptions = {}) {
    const { ratePerSecond = 2, burst = 4, queueMax = 16, hostsMax = 2_000 } = options;
    const { clock = systemClock } = options;
    checkInteger('hostsMax', hostsMax, 1);
    const make = () => new Bucket({ ratePerSecond, burst, queueMax, clock });
    this.#buckets = new Keyed({ make, keysMax: hostsMax, idleMs: 0, clock });
  }

  get stats(): KeyedStats {
    return this.#buckets.stats;
  }

  /** Waits until the host may be asked; rejects with `BUCKET_FULL` or the signal's reason. */
  async take(host: string, signal: AbortSignal | undefined): Promise<void> {
    const bucket = this.#buckets.for(host);
    const { pausedMs } = bucket.stats;
    if (pausedMs > pauseMsMax) {
      const seconds = Math.ceil(pausedMs / 1000);
      throw new UnavailableError('blocked', `${host} asked to be left alone for ${seconds} s more`);
    }
    await bucket.take(1, { signal });
  }

  /** To be told that a host wants fewer requests. */
  slow(host: string, retryAfterMs: number | undefined): void {
    this.#buckets.for(host).slow({ retryAfterMs });
  }
}
