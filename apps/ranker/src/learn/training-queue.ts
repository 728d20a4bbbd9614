import { Backlog, type BacklogStats, type Clock, Pool } from 'spillway';
import type { CrossValidatedErrors, Learned, TrainingKind } from './choice.ts';
import type { Evaluation } from './evaluation.ts';
import { type Choice, type Model, manyRatings } from './model.ts';
import { ratedOnly, threadLimits } from './rows.ts';
import type { Tastes } from './tastes.ts';

/** The state of a training. */
export type TrainingStatus = 'running' | 'completed' | 'cancelled' | 'failed';

/** One line of the training history. Times are milliseconds since 1970. */
export interface TrainingRecord {
  readonly user: string;
  readonly kind: TrainingKind;
  readonly status: TrainingStatus;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  /** The number of rated articles that it learned from. */
  readonly samples: number;
  /** From 0 to 1. */
  readonly progress: number;
  /** Errors by cross-validation, once they are known. */
  readonly errors: CrossValidatedErrors | undefined;
  /** The version of the taste that it published. */
  readonly version: number | undefined;
  /** The reason of a failure. */
  readonly error: string | undefined;
}

export interface TrainingQueueOptions {
  /** The tastes that are trained. */
  readonly tastes: Tastes;
  /**
   * Called when a training begins and when it ends, then with its choice; the training is over
   * when the promise resolves.
   */
  readonly record: (record: TrainingRecord, choice?: Choice) => Promise<void> | void;
  /** Milliseconds since 1970, for the records. */
  readonly clock: Clock;
}

interface Request {
  readonly user: string;
  readonly kind: TrainingKind;
}

interface Running {
  record: TrainingRecord;
  readonly abort: AbortController;
}

type Module = typeof import('./thread/trainer.ts');

/** The number of readers that may wait; one more is dropped. */
const waitingMax = 1_000;
const trainingMsMax = 3_600_000;
/** Readers that are remembered to have rated since their last intensive training. */
const changedMax = 10_000;

/**
 * Trains tastes in the background, one at a time, on a thread of its own. Asking returns at once;
 * what is asked for again before it begins is done once.
 */
export class TrainingQueue {
  readonly #options: TrainingQueueOptions;
  readonly #pool: Pool<Module>;
  readonly #backlog: Backlog<Request>;
  /** Readers whose request waits and is still wanted. */
  readonly #wanted = new Set<string>();
  /** Readers who have rated since their last intensive training. */
  readonly #changed = new Set<string>();
  /** Votes since the last training was asked for, by reader. */
  readonly #votes = new Map<string, number>();
  #running: Running | undefined;

  static async open(options: TrainingQueueOptions): Promise<TrainingQueue> {
    const module = new URL('./thread/trainer.ts', import.meta.url);
    const limits = { workers: 1, queueMax: 8, deadlineMs: trainingMsMax };
    const resourceLimits = threadLimits;
    const pool = await Pool.open<Module>({ module, ...limits, resourceLimits });
    return new TrainingQueue(options, pool);
  }

  private constructor(options: TrainingQueueOptions, pool: Pool<Module>) {
    this.#options = options;
    this.#pool = pool;
    this.#backlog = new Backlog<Request>({
      queueMax: waitingMax,
      consume: (request, signal) => this.#train(request, signal),
      key: ({ user }) => user,
      merge: (waiting, incoming) => (waiting.kind === 'intensive' ? waiting : incoming),
      // It is recorded as failed, and runs again only if it is asked for again.
      attemptsMax: 1,
    });
  }

  get stats(): {
    readonly backlog: BacklogStats;
    readonly running: TrainingRecord | undefined;
    readonly changed: number;
  } {
    const { running } = this;
    return { backlog: this.#backlog.stats, running, changed: this.#changed.size };
  }

  /** The training that runs now and how far it is. */
  get running(): TrainingRecord | undefined {
    return this.#running?.record;
  }

  /** Asks for a training; `merged` when one that waits already does the same. */
  add(user: string, kind: TrainingKind): 'added' | 'merged' | 'dropped' {
    const outcome = this.#backlog.add({ user, kind });
    if (outcome !== 'dropped') this.#wanted.add(user);
    if (this.#changed.size < changedMax) this.#changed.add(user);
    return outcome;
  }

  /** Asks for a quick training when a hundredth of the reader's ratings is new, at least one. */
  addAfterVote(user: string, ratings: number): void {
    const votes = (this.#votes.get(user) ?? 0) + 1;
    const isDue = votes >= ratings / 100;
    if (isDue) this.add(user, 'quick');
    if (isDue || this.#votes.size >= changedMax) this.#votes.delete(user);
    else this.#votes.set(user, votes);
  }

  /** Asks for an intensive training of all who have rated since their last one. */
  addChanged(): void {
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const user of changed) this.add(user, 'intensive');
  }

  /** Cancels the reader's running and waiting trainings; false when there was none. */
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
  async evaluate(user: string, share = 0.3, signal?: AbortSignal): Promise<Evaluation | undefined> {
    const { tastes } = this.#options;
    const { state } = await tastes.compared(user, signal);
    if (state === undefined) return undefined;
    const { halfLifeMs } = tastes;
    const task = { rows: state.rows, common: state.model.common, halfLifeMs, share };
    return this.#pool.run('evaluate', task, { signal });
  }

  /** Drops what waits and cancels what runs. */
  async close(): Promise<void> {
    this.#wanted.clear();
    this.#running?.abort.abort(new Error('the queue was closed'));
    await this.#backlog.close({ withinMs: 1_000 }).catch(() => {});
    await this.#pool.close({ withinMs: 1_000 });
  }

  async #train({ user, kind }: Request, closing: AbortSignal): Promise<void> {
    if (!this.#wanted.delete(user)) return;
    const { clock, record } = this.#options;
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, closing]);
    const running: Running = { abort, record: newRecord({ user, kind }, clock.now()) };
    this.#running = running;
    let choice: Choice | undefined;
    try {
      choice = await this.#learn(running, signal);
    } catch (error) {
      const status = signal.aborted ? 'cancelled' : 'failed';
      const message = error instanceof Error ? error.message : String(error);
      running.record = { ...running.record, status, error: message };
    }
    running.record = { ...running.record, endedAt: clock.now() };
    this.#running = undefined;
    await record(running.record, choice);
  }

  async #learn(running: Running, signal: AbortSignal): Promise<Choice | undefined> {
    const { tastes, record } = this.#options;
    const { user, kind } = running.record;
    const { state, choice: current } = await tastes.compared(user, signal);
    const samples = state === undefined ? 0 : ratedOnly(state.rows).length;
    running.record = { ...running.record, samples };
    await record(running.record);
    const done = { status: 'completed', progress: 1 } as const;
    running.record = state === undefined ? { ...running.record, ...done } : running.record;
    if (state === undefined) return undefined;
    const { halfLifeMs, table } = tastes;
    // A taste that was loaded first of all has seen few articles besides its own.
    const isKnown = table.common.count >= state.model.common.count;
    const common = isKnown ? table.common : state.model.common;
    const task = { rows: state.rows, common, kind, current, halfLifeMs };
    let learned: (Learned & { readonly model: Model }) | undefined;
    for await (const news of this.#pool.stream('train', task, { signal })) {
      if (typeof news === 'object') learned = news;
      else running.record = { ...running.record, progress: news };
    }
    if (learned === undefined) throw new Error('the training ended without a result');
    const { choice, errors, model } = learned;
    // With many ratings a vote waits for the next training to be in the weights.
    const isNew = choice !== undefined || samples >= manyRatings;
    const version = isNew ? await tastes.change(user, { model }, signal) : undefined;
    running.record = { ...running.record, ...done, errors, version };
    if (kind === 'intensive') this.#changed.delete(user);
    return choice;
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
