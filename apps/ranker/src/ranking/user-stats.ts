import type { Accuracy } from '../storage/ratings.ts';
import type { LoggedTraining } from '../storage/trainings.ts';
import type { RankingWorld } from './ranking-parts.ts';

const weekMs = 7 * 86_400_000;
const liked = 8;
const disliked = 3;

/** One training in the form that answers have. */
export interface TrainingAnswer {
  readonly started_at: string;
  readonly completed_at: string | null;
  readonly type: string;
  readonly samples: number;
  /** Always 0; news-score's clients expect the field. */
  readonly epochs: 0;
  readonly final_loss: number | null;
  readonly best_loss: number | null;
  readonly status: string;
}

/** Numbers about a user's ratings, predictions and trainings. */
export interface StatsAnswer {
  readonly last_training: TrainingAnswer | null;
  readonly [number: string]: unknown;
}

/**
 * Counts a user's ratings, measures the predictions and tells the last training. Predictions of
 * articles that were rated before have seen the answer.
 */
export async function userStats(
  { storage, tastes, clock }: Pick<RankingWorld, 'storage' | 'tastes' | 'clock'>,
  userId: string,
  firstOnly: boolean,
): Promise<StatsAnswer> {
  const { ratings, trainings, vectors } = storage;
  const filter = { userId, firstOnly };
  const [list, all, recent, [last], total, embedded] = await Promise.all([
    ratings.list(userId),
    ratings.accuracy(filter),
    ratings.accuracy({ ...filter, since: clock.now() - weekMs }),
    trainings.list(userId, 1),
    trainings.count(userId),
    vectors.countRated(userId, tastes.model),
  ]);
  const scores = list.map(({ score }) => score);
  const sum = scores.reduce((so, one) => so + one, 0);
  const { count, ...means } = accuracyAnswer(all);
  return {
    training_samples: scores.length,
    with_embeddings: embedded,
    avg_target_score: scores.length === 0 ? null : sum / scores.length,
    high_quality_count: scores.filter((score) => score >= liked).length,
    low_quality_count: scores.filter((score) => score <= disliked).length,
    accuracy: { total_corrections: count, ...means, recent_7d: accuracyAnswer(recent) },
    last_training: last === undefined ? null : trainingAnswer(last),
    total_trainings: total,
  };
}

function accuracyAnswer({ count, meanDelta, meanAbsoluteDelta }: Accuracy) {
  return { count, avg_delta: meanDelta ?? null, avg_abs_delta: meanAbsoluteDelta ?? null };
}

/** Losses are mean errors by cross-validation, in points of score. */
export function trainingAnswer(training: LoggedTraining): TrainingAnswer {
  const { kind, startedAt, endedAt, samples, status, errors } = training;
  return {
    started_at: new Date(startedAt).toISOString(),
    completed_at: endedAt === undefined ? null : new Date(endedAt).toISOString(),
    type: kind,
    samples,
    epochs: 0,
    final_loss: errors?.served ?? null,
    best_loss: errors === undefined ? null : Math.min(errors.served, errors.constant),
    status,
  };
}
