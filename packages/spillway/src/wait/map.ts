import { untilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { anything, integer, maybe, settle } from '../base/options.ts';
import { mayGrant, nextTurn } from './turn-budget.ts';

export interface MapOptions {
  /** Tasks that run at once. An integer from 1. */
  readonly limit: number;
  /** Aborts all tasks; the call rejects at once with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs the task for each item, up to `limit` at once, and gives the results in order of the items.
 * After the first error no other task begins, and the signal of the others aborts.
 * `await map(urls, (url, signal) => fetch(url, { signal }), { limit: 8 })`
 */
export async function map<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  task: (item: Item, signal: AbortSignal, index: number) => Promise<Result>,
  options: MapOptions,
): Promise<Result[]> {
  const { limit, signal } = settle('map', options, { limit: integer(1), signal: maybe(anything) });
  signal?.throwIfAborted();
  using end = deadline(systemClock, Infinity, signal);
  const source = iteratorOf(items);
  const results: Result[] = [];
  let count = 0;
  const work = async (others: number): Promise<void> => {
    let next: Promise<void> | undefined;
    for (let item = await source.next(); !item.done; item = await source.next()) {
      const index = count;
      count += 1;
      // Tasks that end at once would keep timers, and so the signal, from ever running.
      if (!mayGrant(systemClock.now())) await new Promise<void>(nextTurn);
      end.signal.throwIfAborted();
      // A worker with an item starts the next one: there are no more workers than items.
      if (others > 0) next ??= work(others - 1).catch((error) => end.abort(error));
      results[index] = await task(item.value, end.signal, index);
    }
    await next;
  };
  try {
    await untilAborted(work(limit - 1), end.signal);
    return results;
  } catch (error) {
    end.abort(error);
    void closeQuietly(source);
    throw error;
  }
}

function iteratorOf<T>(items: Iterable<T> | AsyncIterable<T>): Iterator<T> | AsyncIterator<T> {
  const known: Partial<Iterable<T> & AsyncIterable<T>> = Object(items);
  const iterator = known[Symbol.asyncIterator]?.() ?? known[Symbol.iterator]?.();
  check(iterator !== undefined, 'map: items', 'an iterable, as an array is', items);
  return iterator;
}

/** Closes the source in the background: a generator closes only when its present wait ends. */
async function closeQuietly(source: Iterator<unknown> | AsyncIterator<unknown>): Promise<void> {
  try {
    await source.return?.();
  } catch {
    // The caller has got the first error, which matters more.
  }
}
