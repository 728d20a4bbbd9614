import type { Clock, Part } from 'spillway';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { EmbeddingBacklog } from './embedding-backlog.ts';
import type { Training } from './training.ts';

export interface HousekeepingOptions {
  readonly storage: RankerStorage;
  readonly training: Training;
  readonly embedding: EmbeddingBacklog;
  readonly clock: Clock;
  /** The time that unrated articles are kept, in milliseconds. */
  readonly keepMs: number;
  /** The interval of intensive training of changed tastes, in milliseconds. */
  readonly retrainMs: number;
  readonly onFailure: (job: string, error: unknown) => void;
}

const hourMs = 3_600_000;

/** Periodic work: deletes old articles, and trains the tastes that changed. */
export class Housekeeping implements Part {
  readonly name = 'housekeeping';
  readonly #options: HousekeepingOptions;
  readonly #timers = new Map<string, Disposable>();
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
  }

  start(): void {
    const { storage, training, embedding, clock, keepMs, retrainMs } = this.#options;
    this.#every('prune', hourMs, () => storage.articles.prune(clock.now() - keepMs));
    this.#every('retrain', retrainMs, async () => training.requestChanged());
    this.#every('embed', hourMs, async () => embedding.wake());
  }

  async close(): Promise<void> {
    for (const timer of this.#timers.values()) timer[Symbol.dispose]();
    this.#timers.clear();
    await this.#running;
  }

  #every(job: string, ms: number, work: () => Promise<unknown>): void {
    const again = () => {
      this.#timers.set(job, this.#options.clock.after(ms, run));
    };
    const run = () => {
      again();
      // One after another: none of them is in a hurry.
      this.#running = this.#running.then(work).catch((error: unknown) => {
        this.#options.onFailure(job, error);
      });
    };
    again();
  }
}
