import { readFileSync } from 'node:fs';
import type { Clock } from 'spillway';
import { articleId, type StoredArticle } from '../storage/articles.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';

interface Sample {
  readonly url: string;
  readonly title: string;
  readonly text: string;
}

const file = new URL('../../samples/articles.json', import.meta.url);

/** Gives a user three articles that come with the app, to vote on without a network. */
export async function addSamples(
  storage: RankerStorage,
  userId: string,
  clock: Clock,
): Promise<void> {
  const now = clock.now();
  const samples = JSON.parse(readFileSync(file, 'utf8')) as Sample[];
  const articles = samples.map(({ url, title, text }): StoredArticle => {
    const known = { id: articleId(url), url, givenUrl: url, title, text, source: 'samples' };
    const unknown = { publishedAt: undefined, etag: undefined, lastModified: undefined };
    return { ...known, ...unknown, fetchedAt: now, addedAt: now, unavailable: undefined };
  });
  await storage.shelves.add(userId, articles, now);
}
