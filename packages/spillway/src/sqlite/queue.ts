import type { Clock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { Ring } from '../wait/ring.ts';
import { Waiter } from '../wait/wait-queue.ts';

/** Work that waits for a thread. */
export class SqliteJob<Work, T> extends Waiter<T> {
  readonly work: Work;
  enteredAt = 0;
  /** True once a thread may have seen it. */
  hasBegun = false;

  constructor(work: Work, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.work = work;
  }
}

/** Jobs in the order they came; whoever waits too long, or finds no room, is refused. */
export class SqliteQueue<Work, T> {
  readonly #options: { readonly max: number; readonly waitMsMax: number; readonly clock: Clock };
  readonly #jobs = new Ring<SqliteJob<Work, T>>();
  #timer: Disposable | undefined = undefined;

  constructor(options: {
    readonly max: number;
    readonly waitMsMax: number;
    readonly clock: Clock;
  }) {
    this.#options = options;
  }

  get size(): number {
    return this.#jobs.size;
  }

  get first(): Work | undefined {
    return this.#jobs.first?.work;
  }

  push(work: Work, signal: AbortSignal | undefined): SqliteJob<Work, T> {
    const { max, clock } = this.#options;
    signal?.throwIfAborted();
    if (this.#jobs.size >= max) {
      const message = `${max} wait for the database already; nothing was changed`;
      throw new SpillwayError('DATABASE_BUSY', message);
    }
    const job = new SqliteJob<Work, T>(work, signal, this.#settle);
    job.enteredAt = clock.now();
    this.#jobs.push(job);
    this.#settle();
    return job;
  }

  shift(): SqliteJob<Work, T> | undefined {
    const job = this.#jobs.shift();
    if (job !== undefined) job.hasBegun = true;
    this.#settle();
    return job;
  }

  /** One timer is enough: all may wait equally long, so the oldest is always the next to go. */
  readonly #settle = (): void => {
    if (this.#jobs.size === 0) {
      this.#timer?.[Symbol.dispose]();
      this.#timer = undefined;
    } else if (this.#timer === undefined) {
      const { clock, waitMsMax } = this.#options;
      const oldest = this.#jobs.first as SqliteJob<Work, T>;
      const restMs = Math.max(0, oldest.enteredAt + waitMsMax - clock.now());
      this.#timer = clock.after(restMs, this.#expire);
    }
  };

  readonly #expire = (): void => {
    this.#timer = undefined;
    const { clock, waitMsMax } = this.#options;
    const now = clock.now();
    const late: SqliteJob<Work, T>[] = [];
    for (const job of this.#jobs) {
      if (job.enteredAt + waitMsMax > now) break;
      late.push(job);
    }
    for (const job of late) this.#jobs.remove(job);
    this.#settle();
    const message = `waited ${waitMsMax} ms for the database; nothing was changed`;
    for (const job of late) job.refuse(new SpillwayError('DATABASE_BUSY', message));
  };
}
