import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { articleId } from '../src/storage/articles.ts';
import { openStorage, storedArticle, temporaryFolder } from './fixtures/stored-ranker.ts';

const kinds: Readonly<Record<string, (stack: AsyncDisposableStack) => Promise<string>>> = {
  SQLite: async (stack) => `sqlite:${join(await temporaryFolder(stack), 'ranker.db')}`,
  Postgres: postgresUrl,
};

for (const [kind, urlOf] of Object.entries(kinds)) {
  describe(`a reader with more articles than a list has, on ${kind}`, () => {
    it('marks all as read, or all of a feed, and takes it back', async () => {
      await using stack = new AsyncDisposableStack();
      const storage = await openStorage(await urlOf(stack), stack);
      const userId = (await storage.users.add('ada')).user.id;
      const urls = ['https://one.example/feed', 'https://two.example/feed'];
      const feeds = urls.map((url) => ({ url, title: url, folder: '' }));
      await storage.feeds.subscribe(userId, feeds, 1);
      const [one, two] = await storage.feeds.list(userId);
      assert.ok(one !== undefined && two !== undefined);
      const both = storedArticle('https://all-read.example/both');
      for (const [at, feed] of [one, two].entries()) {
        const own = [1, 2].map((n) => storedArticle(`https://all-read.example/${at}/${n}`));
        const site = { title: feed.title, siteUrl: undefined, etag: undefined };
        const fetched = {
          feedId: feed.id,
          fetchedAt: 2,
          nextAt: 9,
          ...site,
          lastModified: undefined,
        };
        await storage.feeds.save({ ...fetched, outcome: 'new', articles: [...own, both] });
      }
      const rated = articleId('https://all-read.example/0/1');
      const correction = { userId, articleId: rated, score: 5, predicted: undefined, at: 3 };
      await storage.ratings.record([correction]);
      const mine = storedArticle('https://all-read.example/mine');
      await storage.userArticles.add(userId, [mine], 3);
      const unread = async () => (await storage.feeds.list(userId)).map((feed) => feed.unread);
      assert.deepEqual(await unread(), [2, 3]);
      assert.equal(await storage.userArticles.markAllRead(userId, one.id, 10.5), 2);
      assert.deepEqual(await unread(), [0, 2]);
      assert.equal(await storage.userArticles.markAllRead(userId, undefined, 11.5), 3);
      assert.deepEqual(await unread(), [0, 0]);
      const [found] = await storage.userArticles.list({ userId, ids: [mine.id], limit: 1 });
      assert.ok(found?.isRead);
      await storage.userArticles.markUnread(userId, { at: 11.5 });
      assert.deepEqual(await unread(), [0, 2]);
    });
  });
}
