import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { articleId } from '../src/storage/articles.ts';
import type { RankerStorage } from '../src/storage/ranker-storage.ts';
import {
  openStorage,
  smallDocument,
  smallModel,
  storageKinds,
  storedArticle,
} from './fixtures/stored-ranker.ts';

for (const [kind, urlOf] of Object.entries(storageKinds)) {
  describe(`the ranker's storage, on ${kind}`, () => {
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

    it('knows a user by the key alone, of which it keeps only a hash', async () => {
      const { user, key } = await storage.users.add('ada');
      assert.deepEqual(await storage.users.byKey(key), user);
      assert.equal(await storage.users.byKey(`${key}x`), undefined);
      const rows = await storage.database.kysely.selectFrom('users').selectAll().execute();
      assert.doesNotMatch(JSON.stringify(rows), new RegExp(key));
      await assert.rejects(storage.users.add('ada'), { code: 'NAME_TAKEN' });
      await assert.rejects(storage.users.add('a b'), { code: 'NAME_INVALID' });
      const renewed = await storage.users.renewKey('ada');
      assert.equal(await storage.users.byKey(key), undefined);
      assert.deepEqual(await storage.users.byKey(renewed), user);
    });

    it('keeps one article for a URL, and lets go of the vectors of an older text', async () => {
      const article = storedArticle('https://example.org/one', { text: 'a\0b\ud800', etag: '"1"' });
      await storage.articles.save(article);
      await storage.vectors.save(article.id, smallDocument(1), 5);
      assert.deepEqual(await storage.articles.find(article.id), { ...article, text: 'ab\ufffd' });
      assert.deepEqual(await storage.vectors.document(article.id, smallModel), smallDocument(1));
      await storage.articles.save({ ...article, text: 'new' });
      assert.equal((await storage.articles.find(article.id))?.text, 'new');
      assert.equal(await storage.vectors.document(article.id, smallModel), undefined);
      assert.equal(articleId(article.url), article.id);
    });

    it('never gives vectors of another model, nor damaged ones', async () => {
      const article = storedArticle('https://example.org/two');
      await storage.articles.save(article);
      await storage.vectors.save(article.id, smallDocument(2), 5);
      const other = { ...smallModel, precision: 'int8' };
      assert.equal(await storage.vectors.document(article.id, other), undefined);
      assert.ok((await storage.vectors.missing(other, { limit: 10 })).includes(article.id));
      assert.ok(!(await storage.vectors.missing(smallModel, { limit: 10 })).includes(article.id));
      const among = { limit: 10, ids: [article.id, 'nobody'] };
      assert.deepEqual(await storage.vectors.missing(other, among), [article.id]);
      assert.deepEqual(await storage.vectors.missing(smallModel, among), []);
      const { mean } = smallDocument(2);
      const summaries = await storage.vectors.summaries([article.id, 'none'], smallModel);
      assert.deepEqual(
        [...summaries].map(([id, one]) => [id, one.mean]),
        [[article.id, mean]],
      );
      await storage.database.kysely
        .updateTable('sentences')
        .set({ data: new Uint8Array(32) })
        .where('article_id', '=', article.id)
        .execute();
      assert.equal(await storage.vectors.document(article.id, smallModel), undefined);
      await storage.database.kysely
        .updateTable('vectors')
        .set({ data: new Uint8Array(31) })
        .where('article_id', '=', article.id)
        .execute();
      const none = await storage.vectors.summaries([article.id], smallModel);
      assert.equal(none.size, 0, 'one damaged article spoils no list');
    });

    it('gives a due feed to one taker only, and keeps what came of it in one step', async () => {
      const userId = await newUser('eve');
      const feed = { url: 'https://example.org/feed', title: 'Feed', folder: 'News' };
      await storage.feeds.subscribe(userId, [feed, feed], 100);
      const claim = { nowMs: 200, untilMs: 500, limit: 5 };
      const claims = await Promise.all([storage.feeds.claim(claim), storage.feeds.claim(claim)]);
      assert.equal(claims.flat().length, 1);
      const [due] = claims.flat();
      assert.ok(due !== undefined);
      const article = storedArticle('https://example.org/from-feed', { publishedAt: 150 });
      await storage.feeds.save({
        ...{ feedId: due.id, fetchedAt: 210, nextAt: 900, outcome: 'new', title: 'Its name' },
        ...{ siteUrl: undefined, etag: '"e"', lastModified: undefined, articles: [article] },
      });
      const [listed] = await storage.feeds.list(userId);
      assert.deepEqual([listed?.title, listed?.folder, listed?.articles], ['Its name', 'News', 1]);
      const list = await storage.userArticles.list({ userId, limit: 10 });
      assert.deepEqual(
        list.map(({ id }) => id),
        [article.id],
      );
      assert.deepEqual(await storage.feeds.claim(claim), []);
      const [later] = await storage.feeds.claim({ ...claim, nowMs: 950, untilMs: 2_000 });
      assert.deepEqual([later?.etag, later?.publishedAt], ['"e"', [150]]);
      const failed = { feedId: due.id, fetchedAt: 960, nextAt: 990, outcome: 'failed' } as const;
      await storage.feeds.save({ ...failed, failure: 'timeout' });
      assert.deepEqual(
        (await storage.feeds.list(userId)).map(({ failure, failures }) => [failure, failures]),
        [['timeout', 1]],
      );
      const ahead = { ...claim, nowMs: 1e12, untilMs: 1e12 + 500 };
      assert.equal((await storage.feeds.claim(ahead)).length, 1);
      const [back] = await storage.feeds.claim({ ...claim, nowMs: 9_000 });
      assert.equal(back?.id, due.id, 'the clock was ahead and has come back');
      await storage.feeds.unsubscribe(userId, due.id);
      assert.deepEqual(await storage.feeds.claim({ ...claim, nowMs: 19_000 }), []);
    });

    it('gives the feed with credentials a place of its own, and takes them with it', async () => {
      const { feeds, rules } = storage;
      const [one, two] = [await newUser('owner'), await newUser('other')];
      const feed = { url: 'https://example.org/own', title: 'Own', folder: '' };
      await feeds.subscribe(one, [feed], 10);
      await feeds.subscribe(two, [feed], 10);
      const shared = String((await feeds.list(one))[0]?.id);
      await rules.add(one, { kind: 'mute', field: 'feed', value: shared, points: 0 }, 10);
      const credentials = { header: 'X-Token', value: 'secret' };
      const unknown = { code: 'RECORD_UNKNOWN' };
      await assert.rejects(feeds.setCredentials(two, 'nothing', credentials, 20), unknown);
      await feeds.setCredentials(one, shared, credentials, 20);
      const [own] = await feeds.list(one);
      assert.deepEqual([own?.url, own?.title, own?.isPrivate], [feed.url, 'Own', true]);
      assert.notEqual(own?.id, shared);
      assert.equal((await rules.list(one))[0]?.value, own?.id);
      assert.deepEqual(
        (await feeds.list(two)).map(({ id }) => id),
        [shared],
      );
      const due = await feeds.claim({ nowMs: 30, untilMs: 9e15, limit: 5 });
      const sent = new Map(due.map((each) => [each.id, each.credentials?.value]));
      assert.deepEqual([sent.get(String(own?.id)), sent.get(shared)], ['secret', undefined]);
      const edit = { title: 'Mine', folder: 'Here', isFullText: true };
      await feeds.edit(two, shared, edit);
      assert.equal(await feeds.isFullText({ feedId: shared }), true);
      await assert.rejects(feeds.edit(two, 'nothing', edit), unknown);
      await feeds.unsubscribe(one, String(own?.id));
      const kept = storage.database.kysely.selectFrom('feed_credentials').selectAll();
      assert.deepEqual(await kept.execute(), []);
      await feeds.unsubscribe(two, shared);
    });

    it('keeps pictures and tags, and tells each user of their own feed', async () => {
      const [one, two] = [await newUser('reads-b'), await newUser('reads-a')];
      const images = [{ url: 'https://example.org/x.png', alt: 'X', at: 3 }];
      const article = storedArticle('https://example.org/both', { images, tags: ['a', 'b c'] });
      for (const [userId, url] of [
        [one, 'https://example.org/feed-1'],
        [two, 'https://example.org/feed-2'],
      ] as const) {
        await storage.feeds.subscribe(userId, [{ url, title: url, folder: '' }], 10);
        const [feed] = await storage.feeds.list(userId);
        await storage.feeds.save({
          ...{ feedId: String(feed?.id), fetchedAt: 1, nextAt: 9e15, outcome: 'new', title: url },
          ...{ siteUrl: undefined, etag: undefined, lastModified: undefined, articles: [article] },
        });
      }
      for (const userId of [one, two]) {
        const [feed] = await storage.feeds.list(userId);
        const [found] = await storage.userArticles.list({ userId, limit: 1 });
        assert.deepEqual([found?.feedId, found?.tags], [feed?.id, ['a', 'b c']]);
        await storage.feeds.unsubscribe(userId, String(feed?.id));
      }
      assert.deepEqual((await storage.articles.find(article.id))?.images, images);
    });

    it('finds articles of a user by all words, and knows what was read and rated', async () => {
      const userId = await newUser('frank');
      const titles = ['Alpha 100% beta', 'alpha gamma', 'Снег: МОСКВА ждёт', 'Ärger in Ölstadt'];
      const articles = titles.map((title, at) =>
        storedArticle(`https://example.org/s${at}`, { title, addedAt: at }),
      );
      await storage.userArticles.add(userId, articles, 5);
      await storage.userArticles.add(
        await newUser('greta'),
        [storedArticle('https://example.org/x')],
        5,
      );
      const found = (words: readonly string[]) =>
        storage.userArticles.list({ userId, words, limit: 10 });
      assert.deepEqual(
        (await found(['alpha'])).map(({ title }) => title),
        ['alpha gamma', 'Alpha 100% beta'],
      );
      assert.equal((await found(['alpha', 'beta'])).length, 1);
      assert.equal((await found(['0% b'])).length, 1);
      assert.equal((await found(['l%a'])).length, 0);
      for (const words of [['москва', 'снег'], ['ждёт'], ['ärger'], ['ölstadt']]) {
        assert.equal((await found(words)).length, 1, words.join());
      }
      const id = articles[0]?.id as string;
      await storage.userArticles.markRead(userId, [id], 6);
      await storage.ratings.record([{ userId, articleId: id, score: 10, predicted: 4, at: 7 }]);
      const [seen] = await found(['beta']);
      assert.deepEqual([seen?.isRead, seen?.vote], [true, 10]);
    });

    it('finds words by their beginning and in any language, as the texts are now', async () => {
      const userId = await newUser('hana');
      const article = storedArticle('https://example.org/lang', {
        ...{ title: 'Databases at scale', text: '東京都で雪が降った。 Zürich waits.' },
      });
      const other = storedArticle('https://example.org/other', { title: 'Data', text: 'Other.' });
      await storage.userArticles.add(userId, [article, other], 5);
      const found = async (...words: string[]) => {
        const list = await storage.userArticles.list({ userId, words, limit: 10 });
        return list.map(({ id }) => id);
      };
      for (const words of [['database'], ['東京'], ['zürich', 'scale'], ['雪が', 'waits']]) {
        assert.deepEqual(await found(...words), [article.id], words.join());
      }
      assert.deepEqual(await found('dat'), [], 'three letters are a whole word');
      await storage.articles.save({ ...article, title: 'Queues', text: 'Nothing else.' });
      assert.deepEqual(await found('databases'), []);
      assert.deepEqual(await found('queues', 'nothing'), [article.id]);
      await storage.articles.prune(50);
      assert.deepEqual(await found('queues'), []);
      await storage.userArticles.add(userId, [article], 60);
      assert.deepEqual(await found('databases', 'scale'), [article.id]);
    });

    it('keeps read what was read, though the article went and comes again', async () => {
      const userId = await newUser('ivan');
      const article = storedArticle('https://slow.test/one', { isFromFeed: true });
      await storage.userArticles.add(userId, [article], 1);
      await storage.userArticles.markRead(userId, [article.id], 6);
      await storage.articles.prune(50);
      assert.equal(await storage.articles.find(article.id), undefined);
      await storage.userArticles.add(userId, [article], 60);
      const [again] = await storage.userArticles.list({ userId, limit: 5 });
      assert.equal(again?.isRead, true);
    });

    it('changes an entry that its feed has otherwise now, and makes its vectors anew', async () => {
      const userId = await newUser('jane');
      await storage.feeds.subscribe(
        userId,
        [{ url: 'https://j.test/f', title: 'J', folder: '' }],
        1,
      );
      const [feed] = await storage.feeds.list(userId);
      const first = storedArticle('https://j.test/one', { isFromFeed: true, title: 'First' });
      const fetched = { feedId: feed?.id ?? '', fetchedAt: 2, nextAt: 9, outcome: 'new' } as const;
      const about = { title: 'J', siteUrl: undefined, etag: undefined, lastModified: undefined };
      await storage.feeds.save({ ...fetched, ...about, articles: [first] });
      await storage.vectors.save(first.id, smallDocument(3), 5);
      await storage.feeds.save({ ...fetched, ...about, articles: [first] });
      assert.ok(await storage.vectors.document(first.id, smallModel));
      await storage.feeds.save({ ...fetched, ...about, articles: [{ ...first, title: 'Second' }] });
      assert.equal((await storage.articles.find(first.id))?.title, 'Second');
      assert.equal(await storage.vectors.document(first.id, smallModel), undefined);
      const sourceFor = async (user: string) =>
        (await storage.articles.facts(user, [first.id])).get(first.id)?.source;
      assert.equal(await sourceFor(userId), feed?.id);
      // Feeds of others are nothing to this reader.
      assert.equal(await sourceFor(await newUser('jane-again')), first.source);
    });

    it('lets no feed of another site change what another feed has brought', async () => {
      const userId = await newUser('mallory');
      const urls = ['https://planet.test/f', 'https://evil.test/f', 'https://paper.test/f'];
      const feeds = urls.map((url) => ({ url, title: url, folder: '' }));
      await storage.feeds.subscribe(userId, feeds, 1);
      const known = await storage.feeds.list(userId);
      const about = { title: '', siteUrl: undefined, etag: undefined, lastModified: undefined };
      const bring = async (feedUrl: string, title: string, at: number) => {
        const feedId = known.find(({ url }) => url === feedUrl)?.id ?? '';
        const one = storedArticle('https://paper.test/one', { isFromFeed: true, title });
        const fetched = { feedId, fetchedAt: at, nextAt: 9, outcome: 'new', feedUrl } as const;
        await storage.feeds.save({ ...fetched, ...about, articles: [one] });
        return (await storage.articles.find(one.id))?.title;
      };
      const [planet, evil, paper] = urls as [string, string, string];
      assert.equal(await bring(planet, 'As the planet has it', 2), 'As the planet has it');
      assert.equal(await bring(planet, 'Corrected', 3), 'Corrected');
      assert.equal(await bring(evil, 'Forged', 4), 'Corrected');
      assert.equal(await bring(evil, 'Forged again', 5), 'Corrected');
      assert.equal(await bring(paper, 'As the paper has it', 6), 'As the paper has it');
      assert.equal(await bring(planet, 'As the planet had it', 7), 'As the paper has it');
    });

    it('drops old articles that nobody rated', async () => {
      const userId = await newUser('henry');
      const [rated, old] = ['rated', 'old'].map((name) => storedArticle(`https://o.test/${name}`));
      assert.ok(rated !== undefined && old !== undefined);
      await storage.userArticles.add(userId, [rated, old], 1);
      await storage.ratings.record([
        { userId, articleId: rated.id, score: 5, predicted: undefined, at: 1 },
      ]);
      assert.ok((await storage.articles.prune(50)) > 0);
      assert.deepEqual(
        (await storage.articles.list([rated.id, old.id])).map(({ id }) => id),
        [rated.id],
      );
    });
  });
}
