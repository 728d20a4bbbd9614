import { readFileSync } from 'node:fs';
import { articleId, type StoredArticle } from '../storage/articles.ts';

type Sample = Pick<StoredArticle, 'url' | 'source' | 'title' | 'text'> & {
  readonly hoursAgo: number;
};

const file = new URL('../../samples/articles.json', import.meta.url);
const hourMs = 3_600_000;

/** Articles that come with the app, as if just found: to vote on without a network. */
export function sampleArticles(now: number): StoredArticle[] {
  const samples = JSON.parse(readFileSync(file, 'utf8')) as Sample[];
  return samples.map(({ url, source, title, hoursAgo, text }) => {
    const known = { id: articleId(url), url, givenUrl: url, source, title, text };
    return { ...known, publishedAt: now - hoursAgo * hourMs, fetchedAt: now, addedAt: now };
  });
}
