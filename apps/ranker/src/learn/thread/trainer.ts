import { setPriority } from 'node:os';
import type { WorkerContext } from 'spillway';
import { nextTurn } from 'spillway/internal';
import { choose, type Learned, type TrainingTask } from '../choice.ts';
import { type Evaluation, type EvaluationTask, evaluateTaste } from '../evaluation.ts';
import { fit, type Model } from '../model.ts';

type Context = Pick<WorkerContext, 'aborted' | 'signal'>;

export function setup(): void {
  // On Linux this is the priority of this thread alone: threads that score go first.
  if (process.platform === 'linux') setPriority(19);
}

/** Learns a taste: yields the progress from 0 to 1, and the result and its weights at last. */
export async function* train(
  task: TrainingTask,
  context: Context,
): AsyncGenerator<number | (Learned & { readonly model: Model })> {
  const learning = choose(task);
  for (;;) {
    const step = learning.next();
    if (step.done) {
      const { rows, common, current, halfLifeMs } = task;
      const { choice = current } = step.value;
      yield { ...step.value, model: fit(rows, common, choice, { halfLifeMs }) };
      return;
    }
    yield step.value;
    await checkAborted(context);
  }
}

/** Learns from the older articles and compares all models on the newer ones. */
export async function evaluate(task: EvaluationTask, context: Context): Promise<Evaluation> {
  const evaluation = evaluateTaste(task);
  for (;;) {
    const step = evaluation.next();
    if (step.done) return step.value;
    await checkAborted(context);
  }
}

/** Throws the reason of an abort, which comes by a message: the thread's event loop must turn. */
async function checkAborted(context: Context): Promise<void> {
  if (!context.aborted) return;
  await new Promise<void>((resolve) => nextTurn(resolve));
  context.signal.throwIfAborted();
  throw new Error('the training was told to stop');
}
