import { setPriority } from 'node:os';
import { nextTurn, type WorkerContext } from 'spillway';
import { type Evaluation, evaluateTaste } from './evaluation.ts';
import { type Learned, type LearningPlan, type LearningProgress, learnTaste } from './learning.ts';
import type { PackedArticles } from './packed-articles.ts';

/** What a training says: how far it is, and at last what it found. */
export type TrainingNews = LearningProgress | Learned;

type Context = Pick<WorkerContext, 'aborted' | 'signal'>;

/** Progress is told each time so much more is done. */
const progressStep = 0.01;

export function setup(): void {
  // On Linux this is the priority of this thread alone: whoever waits for a score goes first.
  if (process.platform === 'linux') setPriority(19);
}

/** Learns a taste; stops between two batches when it is told to. */
export async function* train(
  { articles, plan }: { readonly articles: PackedArticles; readonly plan: LearningPlan },
  context: Context,
): AsyncGenerator<TrainingNews> {
  const learning = learnTaste(articles, plan);
  let told = -1;
  for (;;) {
    const step = learning.next();
    if (step.done) {
      yield step.value;
      return;
    }
    await stopIfTold(context);
    if (step.value.progress - told < progressStep) continue;
    told = step.value.progress;
    yield step.value;
  }
}

/** Learns from the older articles and compares all ways of scoring on the newer ones. */
export async function evaluate(
  {
    articles,
    plan,
  }: {
    readonly articles: PackedArticles;
    readonly plan: Omit<LearningPlan, 'kind'> & { readonly share: number };
  },
  context: Context,
): Promise<Evaluation> {
  const evaluation = evaluateTaste(articles, plan);
  for (;;) {
    const step = evaluation.next();
    if (step.done) return step.value;
    await stopIfTold(context);
  }
}

/** Its reason comes by a message, for which the thread's loop must turn. */
async function stopIfTold(context: Context): Promise<void> {
  if (!context.aborted) return;
  await new Promise<void>((resolve) => nextTurn(resolve));
  context.signal.throwIfAborted();
  throw new Error('it was told to stop');
}
