import { SpillwayError } from '../base/errors.ts';
import type { Filled } from '../base/options.ts';
import { Deadlines } from '../wait/deadlines.ts';
import { Ring } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';
import type { SqliteFileOptions } from './file.ts';

type QueueOptions = Pick<Filled<SqliteFileOptions>, 'queueMax' | 'deadlineMs' | 'clock'>;

/** Work that waits for a thread. */
export class SqliteJob<Work, T> extends Waiter<T> {
  readonly work: Work;
  readonly dueAt: number;
  /** True once a thread may have seen the work. */
  hasBegun = false;

  constructor(work: Work, dueAt: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.work = work;
    this.dueAt = dueAt;
  }
}

/** Jobs in the order of their arrival; a job that waits too long, or finds no room, is refused. */
export class SqliteQueue<Work, T> {
  readonly #options: QueueOptions;
  readonly #jobs = new Ring<SqliteJob<Work, T>>();
  readonly #deadlines: Deadlines;

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock, this.#expire);
  }

  get size(): number {
    return this.#jobs.size;
  }

  get first(): SqliteJob<Work, T> | undefined {
    return this.#jobs.first;
  }

  push(work: Work, signal: AbortSignal | undefined): SqliteJob<Work, T> {
    const { queueMax, deadlineMs, clock } = this.#options;
    signal?.throwIfAborted();
    if (this.#jobs.size >= queueMax) {
      const message = `${queueMax} wait for the database already; nothing was changed`;
      throw new SpillwayError('DATABASE_BUSY', message);
    }
    const dueAt = clock.now() + deadlineMs;
    const job = new SqliteJob<Work, T>(work, dueAt, signal, this.#left);
    this.#jobs.push(job);
    this.#deadlines.watch(dueAt);
    return job;
  }

  shift(): SqliteJob<Work, T> | undefined {
    const job = this.#jobs.shift();
    if (job !== undefined) job.hasBegun = true;
    this.#left();
    return job;
  }

  refuseAll(reason: unknown): void {
    for (const job of this.#jobs) job.giveUp(reason);
  }

  readonly #left = (): void => {
    if (this.#jobs.size === 0) this.#deadlines.clear();
  };

  readonly #expire = (now: number): number => {
    const message = `waited ${this.#options.deadlineMs} ms for the database; nothing was changed`;
    for (const job of this.#jobs) {
      if (job.dueAt > now) break;
      job.giveUp(new SpillwayError('DATABASE_BUSY', message));
    }
    return this.#jobs.first?.dueAt ?? Infinity;
  };
}
