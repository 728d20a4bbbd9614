import type { Clock } from 'spillway';
import { rankerError } from '../errors.ts';
import type { TrainingKind } from '../learn/choice.ts';
import type { Evaluation } from '../learn/evaluation.ts';
import type { Choice } from '../learn/model.ts';
import { TrainingQueue, type TrainingRecord } from '../learn/training-queue.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { UserTastes } from './user-tastes.ts';

export interface TrainingOptions {
  readonly storage: RankerStorage;
  readonly tastes: UserTastes;
  readonly clock: Clock;
  /** Told of each user whose scores have changed. */
  readonly onChange: (userId: string) => void;
}

/** Ratings that an evaluation needs: fewer say nothing. */
const evaluatedMin = 10;
/** Users that are remembered to have rated since their last intensive training. */
const changedMax = 10_000;

/** Trains tastes in the background, and keeps what came of it. */
export class Training implements AsyncDisposable {
  readonly #options: TrainingOptions;
  readonly #queue: TrainingQueue;
  readonly #changed = new Set<string>();
  /** Votes since the last training was asked for, by user. */
  readonly #votes = new Map<string, number>();
  /** Of the training that runs. */
  #number: number | undefined;

  /** Asks again for trainings that were cut off by the end of the last process. */
  static async open(options: TrainingOptions): Promise<Training> {
    const { storage, tastes } = options;
    const training: { current?: Training } = {};
    const queue = await TrainingQueue.open({
      ...{ ...options, tastes: tastes.tastes },
      record: async (record, choice) => training.current?.record(record, choice),
    });
    training.current = new Training(options, queue);
    for (const userId of await storage.trainings.interrupt()) queue.add(userId, 'intensive');
    return training.current;
  }

  private constructor(options: TrainingOptions, queue: TrainingQueue) {
    this.#options = options;
    this.#queue = queue;
  }

  get stats(): TrainingQueue['stats'] & { readonly changed: number } {
    return { ...this.#queue.stats, changed: this.#changed.size };
  }

  /** Returns at once; what is asked for again before it begins is done once. */
  request(userId: string, kind: TrainingKind): void {
    if (this.#changed.size < changedMax) this.#changed.add(userId);
    this.#queue.add(userId, kind);
  }

  /** Asks for a quick training when a hundredth of a user's ratings is new, at least one. */
  requestAfterVote(userId: string, ratings: number): void {
    const votes = (this.#votes.get(userId) ?? 0) + 1;
    const isDue = votes >= ratings / 100;
    if (isDue) this.request(userId, 'quick');
    if (isDue || this.#votes.size >= changedMax) this.#votes.delete(userId);
    else this.#votes.set(userId, votes);
  }

  /** Asks for an intensive training of all who have rated since their last one. */
  requestChanged(): void {
    for (const userId of this.#changed) this.#queue.add(userId, 'intensive');
    this.#changed.clear();
  }

  /** Says whether there was anything to cancel. */
  cancel(userId: string): boolean {
    return this.#queue.cancel(userId);
  }

  /** The user's training that runs now, and how far it is. */
  progress(userId: string): TrainingRecord | undefined {
    const { running } = this.#queue;
    return running?.user === userId ? running : undefined;
  }

  /** Measures each model on the newest ratings, of which it has not learned. */
  async evaluate(userId: string, signal: AbortSignal): Promise<Evaluation> {
    const evaluation = await this.#queue.evaluate(userId, undefined, signal);
    const { trained = 0, tested = 0 } = evaluation ?? {};
    if (evaluation !== undefined && trained + tested >= evaluatedMin) return evaluation;
    const message = `an evaluation needs ${evaluatedMin} rated articles with their texts`;
    throw rankerError('NOTHING_RATED', `${message}, there are ${trained + tested}`);
  }

  /** Resolves when nothing runs or waits. */
  idle(signal?: AbortSignal): Promise<void> {
    return this.#queue.idle(signal);
  }

  /** Cancels the running training: its ratings are stored, and it can be done again. */
  close(): Promise<void> {
    return this.#queue.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async record(record: TrainingRecord, choice: Choice | undefined): Promise<void> {
    const { storage, tastes, clock, onChange } = this.#options;
    const { user } = record;
    this.#number ??= await storage.trainings.begin(record);
    if (record.endedAt === undefined) return;
    const number = this.#number;
    this.#number = undefined;
    if (choice !== undefined) await storage.tastes.save(user, tastes.model, choice, clock.now());
    await storage.trainings.end(number, record);
    if (record.kind === 'intensive' && record.status === 'completed') this.#changed.delete(user);
    if (choice !== undefined) onChange(user);
  }
}
