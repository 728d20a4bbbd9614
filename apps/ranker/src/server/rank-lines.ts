import { deadline } from 'spillway';
import { failureOf } from 'spillway-http';
import type { Item } from '../ranking/library.ts';
import { rankAnswer } from './answers.ts';
import type { RankerContext } from './context.ts';

/** Many articles of one user. */
interface RankBatch extends Pick<RankerContext, 'ranking' | 'clock'> {
  readonly settings: Pick<RankerContext['settings'], 'rankMs'>;
  readonly userId: string;
  readonly items: readonly Item[];
  readonly signal: AbortSignal;
}

/** Articles of a batch that are worked on ahead of the reader of the lines. */
const aheadMax = 8;

/** A line of JSON for each article, in order; a failure is an error in its own line. */
export async function* rankLines(batch: RankBatch): AsyncGenerator<string> {
  const ended = new AbortController();
  const signal = AbortSignal.any([batch.signal, ended.signal]);
  const ahead: Promise<string>[] = [];
  let next = 0;
  try {
    while (next < batch.items.length || ahead.length > 0) {
      while (ahead.length < aheadMax && next < batch.items.length) {
        ahead.push(lineOf(batch, next, signal));
        next += 1;
      }
      yield (await ahead.shift()) as string;
    }
  } finally {
    // If the client has left, articles that were begun ahead are cancelled.
    ended.abort();
  }
}

async function lineOf(batch: RankBatch, at: number, parent: AbortSignal): Promise<string> {
  const { ranking, userId, items, clock, settings } = batch;
  const item = items[at] as Item;
  const named = 'url' in item ? { url: item.url } : {};
  using limit = deadline(clock, settings.rankMs, parent);
  try {
    const ranked = await ranking.rank(userId, item, { signal: limit.signal });
    return `${JSON.stringify({ index: at, ...rankAnswer(ranked) })}\n`;
  } catch (error) {
    const { code, message } = failureOf(error);
    return `${JSON.stringify({ index: at, ...named, rank: null, error: { code, message } })}\n`;
  }
}
