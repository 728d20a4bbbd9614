import type { Clock } from 'spillway';
import type { Evaluation } from '../learn/evaluation.ts';
import type { TrainingKind, TrainingRecord } from '../learn/training.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { UserTastes } from './user-tastes.ts';

export interface TrainingOptions {
  readonly storage: RankerStorage;
  readonly tastes: UserTastes;
  readonly clock: Clock;
  readonly onFailure: (job: string, error: unknown) => void;
  /** Told of each user whose scores have changed. */
  readonly onChange: (userId: string) => void;
}

export class Training {
  readonly #options: TrainingOptions;
  static async open(options: TrainingOptions): Promise<Training> {
    return new Training(options);
  }
  private constructor(options: TrainingOptions) {
    this.#options = options;
  }
  request(_userId: string, _kind: TrainingKind): void {
    void this.#options;
  }
  requestChanged(): void {}
  cancel(_userId: string): boolean {
    return false;
  }
  progress(_userId: string): TrainingRecord | undefined {
    return undefined;
  }
  async evaluate(_userId: string, _signal: AbortSignal): Promise<Evaluation | undefined> {
    return undefined;
  }
  async close(): Promise<void> {}
}
