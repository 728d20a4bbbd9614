import { setPriority } from 'node:os';
import { systemClock, type WorkerContext } from 'spillway';
import { nextTurn } from 'spillway/internal';
import { Background } from './background.ts';
import { type Evaluation, evaluateTaste } from './evaluation.ts';
import { type Learned, type LearningPlan, type LearningProgress, learnTaste } from './learning.ts';
import type { PackedArticles } from './packed-articles.ts';

/** What a training says: how far it is, and at last what it found. */
export type TrainingNews = LearningProgress | Learned;

type Context = Pick<WorkerContext, 'aborted' | 'signal'>;

/** What every task is given: the articles, and who is in the foreground meanwhile. */
interface Given {
  readonly articles: PackedArticles;
  readonly inside: Int32Array;
}

/** Progress is told each time so much more is done, and after each epoch. */
const progressStep = 0.01;

export function setup(): void {
  // On Linux this is the priority of this thread alone: whoever waits for a score goes first.
  if (process.platform === 'linux') setPriority(19);
}

/** Learns a taste; makes way, or stops when it is told to, between two articles. */
export async function* train(
  { articles, inside, plan }: Given & { readonly plan: LearningPlan },
  context: Context,
): AsyncGenerator<TrainingNews> {
  const background = new Background(inside, systemClock);
  const learning = learnTaste(articles, plan);
  let told: LearningProgress = { progress: -1, epochs: 0 };
  for (;;) {
    const step = learning.next();
    if (step.done) {
      yield step.value;
      return;
    }
    background.makeWay();
    if (context.aborted) await stop(context);
    const isNews = step.value.progress - told.progress >= progressStep;
    if (!isNews && step.value.epochs === told.epochs) continue;
    told = step.value;
    yield told;
  }
}

/** Learns from the older articles and compares all ways of scoring on the newer ones. */
export async function evaluate(
  {
    articles,
    inside,
    plan,
  }: Given & { readonly plan: Omit<LearningPlan, 'kind'> & { readonly share: number } },
  context: Context,
): Promise<Evaluation> {
  const background = new Background(inside, systemClock);
  const evaluation = evaluateTaste(articles, plan);
  for (;;) {
    const step = evaluation.next();
    if (step.done) return step.value;
    background.makeWay();
    if (context.aborted) await stop(context);
  }
}

/** Its reason comes by a message, for which the thread's loop must turn. */
async function stop(context: Context): Promise<never> {
  await new Promise<void>((resolve) => nextTurn(resolve));
  context.signal.throwIfAborted();
  throw new Error('it was told to stop');
}
