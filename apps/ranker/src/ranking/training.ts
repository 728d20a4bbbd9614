import { TrainingQueue } from '../learn/training-queue.ts';
import type { RankingWorld } from './ranking-parts.ts';

/**
 * Trains in the background and stores the results; what the last process left is asked for again.
 * Tells `onChange` of each user whose scores have changed.
 */
export async function openTraining(
  { storage, tastes, clock }: Pick<RankingWorld, 'storage' | 'tastes' | 'clock'>,
  onChange: (userId: string) => void,
): Promise<TrainingQueue> {
  /** The number of the training that runs. */
  let number: number | undefined;
  const training = await TrainingQueue.open({
    tastes,
    clock,
    record: async (record, choice) => {
      number ??= await storage.trainings.begin(record);
      if (record.endedAt === undefined) return;
      const ended = number;
      number = undefined;
      const { user } = record;
      if (choice !== undefined) await storage.tastes.save(user, tastes.model, choice, clock.now());
      await storage.trainings.end(ended, record);
      if (choice !== undefined) onChange(user);
    },
  });
  for (const userId of await storage.trainings.interrupt()) training.add(userId, 'intensive');
  return training;
}
