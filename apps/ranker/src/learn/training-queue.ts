import { Backlog, type BacklogStats, type Clock, Pool } from 'spillway';
import type { RatedArticle } from './document.ts';
import type { Evaluation } from './evaluation.ts';
import { type Learned, packArticles } from './learning.ts';
import type { Tastes } from './tastes.ts';
import { packTrained, type TrainingKind, type TrainingRecord } from './trained.ts';

/** Rated articles, all at once or one after another. */
export type RatedSource = Iterable<RatedArticle> | AsyncIterable<RatedArticle>;

export interface TrainingQueueOptions {
  /** Where what is found is published. */
  readonly tastes: Tastes;
  /** All ratings of a reader. */
  readonly rated: (user: string, signal: AbortSignal) => Promise<RatedSource> | RatedSource;
  /**
   * Told when a training begins and when it ends, then with what it found, in bytes for storing;
   * the training is over when it resolves.
   */
  readonly record: (record: TrainingRecord, trained?: Uint8Array) => Promise<void> | void;
  /** Milliseconds since 1970, for the records. */
  readonly clock: Clock;
  /** How many readers may wait; one more is dropped. From 1. @default 1000 */
  readonly waitingMax?: number | undefined;
  /** How long a training may take, in milliseconds. @default 3600000 */
  readonly trainingMsMax?: number | undefined;
}

interface Request {
  readonly user: string;
  readonly kind: TrainingKind;
}

interface Running {
  record: TrainingRecord;
  readonly abort: AbortController;
}

type Module = typeof import('./trainer-worker.ts');

/**
 * Trains tastes in the background, one at a time, on a thread of its own. Asking returns at once;
 * what is asked for again before it begins is done once.
 */
export class TrainingQueue implements AsyncDisposable {
  readonly #options: TrainingQueueOptions;
  readonly #pool: Pool<Module>;
  readonly #backlog: Backlog<Request>;
  /** Readers whose request waits and is still wanted. */
  readonly #wanted = new Set<string>();
  #running: Running | undefined;

  static async open(options: TrainingQueueOptions): Promise<TrainingQueue> {
    const { trainingMsMax = 3_600_000 } = options;
    const module = new URL('./trainer-worker.ts', import.meta.url);
    const limits = { workers: 1, queueMax: 8, deadlineMs: trainingMsMax };
    const pool = await Pool.open<Module>({ module, ...limits });
    return new TrainingQueue(options, pool);
  }

  private constructor(options: TrainingQueueOptions, pool: Pool<Module>) {
    const { waitingMax = 1_000 } = options;
    this.#options = options;
    this.#pool = pool;
    this.#backlog = new Backlog<Request>({
      queueMax: waitingMax,
      consume: (request, signal) => this.#train(request, signal),
      key: ({ user }) => user,
      merge: (waiting, incoming) => (waiting.kind === 'intensive' ? waiting : incoming),
      // It is told as failed; who wants it again asks again.
      attemptsMax: 1,
    });
  }

  get stats(): { readonly backlog: BacklogStats; readonly running: TrainingRecord | undefined } {
    return { backlog: this.#backlog.stats, running: this.running };
  }

  /** The training that runs now and how far it is. */
  get running(): TrainingRecord | undefined {
    return this.#running?.record;
  }

  /** Asks for a training; `merged` when one that waits already will do. */
  add(user: string, kind: TrainingKind): 'added' | 'merged' | 'dropped' {
    const outcome = this.#backlog.add({ user, kind });
    if (outcome !== 'dropped') this.#wanted.add(user);
    return outcome;
  }

  /** Ends the reader's training and what waits of theirs; false when there was none. */
  cancel(user: string): boolean {
    const isWaiting = this.#wanted.delete(user);
    const isRunning = this.#running?.record.user === user;
    if (isRunning) this.#running?.abort.abort(new Error('the training was cancelled'));
    return isRunning || isWaiting;
  }

  /** Resolves when nothing runs or waits. */
  idle(signal?: AbortSignal): Promise<void> {
    return this.#backlog.idle({ signal });
  }

  /** Compares all ways of scoring on the newest share of the ratings, which they have not seen. */
  async evaluate(rated: RatedSource, share = 0.3, signal?: AbortSignal): Promise<Evaluation> {
    const articles = await packArticles(rated, this.#options.tastes.model);
    return this.#pool.run('evaluate', { articles, share }, { signal });
  }

  /** Drops what waits and cancels what runs. */
  async close(): Promise<void> {
    this.#wanted.clear();
    this.#running?.abort.abort(new Error('the queue was closed'));
    await this.#backlog.close({ withinMs: 1_000 }).catch(() => {});
    await this.#pool.close({ withinMs: 1_000 });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #train({ user, kind }: Request, closing: AbortSignal): Promise<void> {
    if (!this.#wanted.delete(user)) return;
    const { clock, record } = this.#options;
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, closing]);
    const running: Running = { abort, record: newRecord({ user, kind }, clock.now()) };
    this.#running = running;
    let trained: Uint8Array | undefined;
    try {
      trained = await this.#learn(running, signal);
    } catch (error) {
      const status = signal.aborted ? 'cancelled' : 'failed';
      const message = error instanceof Error ? error.message : String(error);
      running.record = { ...running.record, status, error: message };
    }
    running.record = { ...running.record, endedAt: clock.now() };
    this.#running = undefined;
    await record(running.record, trained);
  }

  async #learn(running: Running, signal: AbortSignal): Promise<Uint8Array> {
    const { tastes, rated, record } = this.#options;
    const { user, kind } = running.record;
    const articles = await packArticles(await rated(user, signal), tastes.model);
    running.record = { ...running.record, samples: articles.scores.length };
    await record(running.record);
    let learned: Learned | undefined;
    for await (const news of this.#pool.stream('train', { articles, kind }, { signal })) {
      if (typeof news === 'object') learned = news;
      else running.record = { ...running.record, progress: news };
    }
    if (learned === undefined) throw new Error('the training ended without a result');
    const { trained, errors } = learned;
    // A taste that is not here is made with what is stored, once it is asked for.
    const isHere = tastes.has(user);
    const version = isHere ? await tastes.improve(user, trained, signal) : undefined;
    const outcome = { status: 'completed', progress: 1, errors, version } as const;
    running.record = { ...running.record, ...outcome };
    return packTrained(trained);
  }
}

function newRecord({ user, kind }: Request, startedAt: number): TrainingRecord {
  return {
    user,
    kind,
    status: 'running',
    startedAt,
    endedAt: undefined,
    samples: 0,
    progress: 0,
    errors: undefined,
    version: undefined,
    error: undefined,
  };
}
