import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { articleId, articleInsert, type StoredArticle } from '../src/storage/articles.ts';
import type { RankerStorage } from '../src/storage/ranker-storage.ts';
import type { Correction } from '../src/storage/ratings.ts';
import {
  openStorage,
  smallDocument,
  smallModel,
  storageKinds,
  storedArticle,
} from './fixtures/stored-ranker.ts';

for (const [kind, urlOf] of Object.entries(storageKinds)) {
  describe(`the storage of ratings and trainings, on ${kind}`, () => {
    const stack = new AsyncDisposableStack();
    let storage: RankerStorage;

    before(async () => {
      storage = await openStorage(await urlOf(stack), stack);
    });

    after(() => stack.disposeAsync());

    /** A user of each test's own. */
    const newUser = async (name: string): Promise<string> => {
      return (await storage.users.add(name)).user.id;
    };

    it("gives a user's newest ratings with vectors, oldest first, each with its feed", async () => {
      const [userId, otherId] = [await newUser('rater'), await newUser('other-rater')];
      const site = { siteUrl: undefined, etag: undefined, lastModified: undefined };
      const url = 'https://example.org/rated-feed';
      await storage.feeds.subscribe(userId, [{ url, title: '', folder: '' }], 1);
      const feedId = articleId(url);
      // More than one page of them, rated in another order than that of their ids.
      const all = Array.from({ length: 520 }, (_, at) =>
        storedArticle(`https://example.org/rated/${at}`, { publishedAt: at }),
      );
      // Never due: other tests take what is.
      const times = { fetchedAt: 2, nextAt: Number.MAX_SAFE_INTEGER };
      const [first] = all as [StoredArticle];
      await storage.feeds.save({
        ...{ feedId, outcome: 'new', title: '', articles: [first], ...times, ...site },
      });
      const inserts = all.map((one) => articleInsert(storage.database.kysely, one));
      await storage.database.batch([
        ...inserts,
        ...all.slice(0, -1).flatMap(({ id }) => storage.vectors.inserts(id, smallDocument(1), 1)),
      ]);
      const rated = all.map(({ id }, at) => {
        return { userId, articleId: id, score: 1 + (at % 10), predicted: undefined, at: 600 - at };
      });
      await storage.ratings.record(rated);
      await storage.ratings.record([{ ...(rated[1] as Correction), userId: otherId, score: 10 }]);
      const found = await storage.vectors.rated(userId, smallModel, 5_000);
      // The last has no vectors.
      const ids = all.slice(0, -1).map(({ id }) => id);
      assert.deepEqual(
        found.map(({ id }) => id),
        ids.toReversed(),
      );
      const { document, ...newest } = found.at(-1) as (typeof found)[number];
      const facts = { source: feedId, publishedAt: 0, score: 1, ratedAt: 600 };
      assert.deepEqual(newest, { id: first.id, ...facts });
      assert.deepEqual(document.mean, smallDocument(1).mean);
      assert.equal(found.at(-2)?.source, 'example.org');
      const few = await storage.vectors.rated(userId, smallModel, 3);
      assert.deepEqual(
        few.map(({ id }) => id),
        ids.slice(0, 3).toReversed(),
      );
      const other = { ...smallModel, precision: 'int8' };
      assert.deepEqual(await storage.vectors.rated(userId, other, 10), []);
      assert.equal((await storage.vectors.rated(otherId, smallModel, 10))[0]?.score, 10);
    });

    it('keeps every correction, the last rating, and whether it was the first', async () => {
      const userId = await newUser('bob');
      const [one, two] = [articleId('one'), articleId('two')];
      await storage.ratings.record([
        { userId, articleId: one, score: 9, predicted: 5.5, at: 1_000 },
        { userId, articleId: two, score: 2, predicted: undefined, at: 2_000 },
      ]);
      await storage.ratings.record([{ userId, articleId: one, score: 8, predicted: 9, at: 3_000 }]);
      const list = await storage.ratings.list(userId);
      assert.deepEqual(
        list.map(({ articleId: id, score }) => [id, score]),
        [
          [two, 2],
          [one, 8],
        ],
      );
      const corrections = await storage.database.kysely
        .selectFrom('corrections')
        .select(['score', 'is_first'])
        .where('user_id', '=', userId)
        .orderBy('id')
        .execute();
      assert.deepEqual(
        corrections.map((row) => [row.score, row.is_first]),
        [
          [9, 1],
          [2, 1],
          [8, 0],
        ],
      );
      const first = { count: 1, meanDelta: 3.5, meanAbsoluteDelta: 3.5 };
      assert.deepEqual(await storage.ratings.accuracy({ userId }), first);
      const all = { count: 2, meanDelta: 1.25, meanAbsoluteDelta: 2.25 };
      assert.deepEqual(await storage.ratings.accuracy({ userId, firstOnly: false }), all);
      const none = { count: 0, meanDelta: undefined, meanAbsoluteDelta: undefined };
      assert.deepEqual(await storage.ratings.accuracy({ userId, since: 4_000 }), none);
    });

    it('never gives a number of a version twice, and keeps no taste that is damaged', async () => {
      const userId = await newUser('carol');
      const numbers = await Promise.all([1, 2, 3].map(() => storage.tastes.reserve(userId, 100)));
      assert.deepEqual(
        numbers.toSorted((a, b) => a - b),
        [100, 200, 300],
      );
      const choice = { topic: Infinity, words: 0.5, slope: undefined, width: 2 };
      await storage.tastes.save(userId, smallModel, choice, 1);
      assert.deepEqual(await storage.tastes.find(userId, smallModel), choice);
      const other = { ...smallModel, precision: 'int8' };
      assert.equal(await storage.tastes.find(userId, other), undefined);
      await storage.database.kysely
        .updateTable('tastes')
        .set({ data: Uint8Array.of(1, 2) })
        .where('user_id', '=', userId)
        .execute();
      assert.equal(await storage.tastes.find(userId, smallModel), undefined);
    });

    it('says of a training that was cut off that it was', async () => {
      const user = await newUser('dora');
      const begun = { user, kind: 'quick', status: 'running', startedAt: 1, samples: 3 } as const;
      const unknown = { endedAt: undefined, progress: 0, errors: undefined } as const;
      const training = { ...begun, ...unknown, version: undefined, error: undefined };
      const done = await storage.trainings.begin(training);
      const errors = { constant: 2, topic: 1.5, words: 1, served: 0.9 };
      const end = { ...training, status: 'completed', endedAt: 9, errors, version: 4 } as const;
      await storage.trainings.end(done, end);
      await storage.trainings.begin(training);
      assert.deepEqual(await storage.trainings.interrupt(), [user]);
      const list = await storage.trainings.list(user, 10);
      assert.deepEqual(
        list.map(({ status }) => status),
        ['interrupted', 'completed'],
      );
      assert.deepEqual(list[1]?.errors, errors);
      assert.equal(await storage.trainings.count(user), 2);
    });
  });
}
