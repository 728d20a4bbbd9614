import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { systemClock } from 'spillway';
import { rankLines } from '../src/server/rank-lines.ts';
import { NewsSite, storyOf } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { WordEmbedder } from './fixtures/word-embedder.ts';

const tech = storyOf('kernel', 'compiler', 'database', 'thread');
const gossip = storyOf('star', 'singer', 'wedding', 'dress');

describe('the API of the ranker', () => {
  const stack = new AsyncDisposableStack();
  const embedder = new WordEmbedder();
  let news: NewsSite;
  let site: RankerSite;
  let ends = 0;
  const shutdown = () => {
    ends += 1;
  };

  before(async () => {
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open({ embedder, shutdown }));
  });

  after(() => stack.disposeAsync());

  /** A user with a taste of their own, for each test. */
  const newUser = async (name: string): Promise<string> => {
    return (await site.ranker.storage.users.add(name)).key;
  };
  const rank = (url: string, key = site.key) =>
    site.ask(`/rank?url=${encodeURIComponent(url)}`, { key });

  it('scores an article, learns from a correction at once, and explains itself', async () => {
    const key = await newUser('learner');
    const [one, two] = [news.article('/t1', 'T', tech), news.article('/g1', 'G', gossip)];
    const first = await rank(one, key);
    assert.deepEqual([first.status, first.json.rank, first.json.source], [200, 5.5, 'ok']);
    const corrected = await site.ask('/correct_rank', { key, body: { url: one, score: 10 } });
    assert.equal(corrected.json.status, 'accepted');
    assert.equal(corrected.json.predicted, 5.5);
    const wrong = await site.ask('/correct_rank', { key, body: { url: two, score: 1 } });
    assert.ok(wrong.json.version > corrected.json.version);
    const text = storyOf('compiler', 'thread', 'kernel');
    const near = await site.ask('/rank', { key, body: { text, title: 'New', explain: true } });
    const far = await site.ask('/rank', { key, body: { text: storyOf('singer', 'dress') } });
    // After two ratings a score goes little way from the mean: it shall be right on average.
    assert.ok(near.json.rank > 5.8 && near.json.rank > far.json.rank, near.text);
    // A quick training may have published one more meanwhile.
    assert.ok(near.json.version >= wrong.json.version);
    const { explanation } = near.json;
    assert.equal(explanation.nearest[0].url, one);
    assert.match(explanation.sentences[0].text, /met again\.$/);
    assert.ok(explanation.words.some(({ word }: { word: string }) => word === 'compiler'));
    const sum = explanation.contributions.reduce(
      (so: number, { points }: { points: number }) => so + points,
      0,
    );
    assert.ok(Math.abs(sum - near.json.rank) < 0.01, 'the reasons add up to the score');
  });

  it('fetches and embeds an article once, whatever its address is decorated with', async () => {
    const url = news.article('/once', 'Once', tech);
    const decorated = `${url}?utm_source=mail#top`;
    const before = embedder.count;
    const answers = await Promise.all([rank(url), rank(url), rank(decorated)]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1);
    assert.equal((await rank(url)).json.url, url);
    assert.deepEqual([news.asked.get('/once'), embedder.count - before], [1, 1]);
  });

  it('fetches an article once, also for who looked for it before it was stored', async () => {
    const { articles } = site.ranker.storage;
    const { resolve } = articles;
    const isStored = Promise.withResolvers<void>();
    let looks = 0;
    articles.resolve = async (id, signal) => {
      const found = await resolve.call(articles, id, signal);
      looks += 1;
      if (looks === 2) await isStored.promise;
      return found;
    };
    const url = news.article('/late', 'Late', tech);
    const [first, second] = [rank(url), rank(url)];
    await first;
    isStored.resolve();
    assert.equal((await second).status, 200);
    articles.resolve = resolve;
    assert.equal(news.asked.get('/late'), 1);
  });

  it('lets nobody in without a key, and keeps tastes apart', async () => {
    for (const key of [undefined, 'rk_wrong', '']) {
      const answer = await site.ask('/stats', { key });
      assert.deepEqual([answer.status, answer.json.error.code], [401, 'KEY_NEEDED']);
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
    }
    const [one, other] = [await newUser('one'), await newUser('other')];
    const url = news.article('/apart', 'Apart', tech);
    await site.ask('/correct_rank', { key: one, body: { url, score: 9 } });
    await site.ask('/correct_rank', { key: other, body: { url, score: 2 } });
    assert.equal((await rank(url, one)).json.rank, 9);
    assert.equal((await rank(url, other)).json.rank, 2);
    const set = await site.ask('/training_set', { key: other });
    assert.deepEqual(set.json, { items: [{ url, score: 2 }], count: 1 });
  });

  it('answers many articles as lines, in order, and tells failures in their line', async () => {
    const key = await newUser('batcher');
    const urls = [1, 2, 3].map((at) => news.article(`/b${at}`, `B${at}`, tech));
    const items = [
      { url: urls[0] },
      { url: 'http://10.0.0.1/' },
      { text: gossip },
      { url: urls[2] },
    ];
    const asJson = await site.ask('/rank', { key, body: { items } });
    const lines = items.map((item) => JSON.stringify(item)).join('\n');
    const type = 'application/x-ndjson';
    const asLines = await site.ask('/rank', { key, body: lines, type });
    for (const { status, headers, text } of [asJson, asLines]) {
      assert.deepEqual([status, headers.get('content-type')], [200, type]);
      const told = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.deepEqual(
        told.map(({ index }) => index),
        [0, 1, 2, 3],
      );
      assert.deepEqual(
        told.map((line) => line.rank),
        [5.5, null, 5.5, 5.5],
      );
      assert.match(told[1].error.message, /private_address/);
    }
  });

  it('works no further ahead than a slow reader of a batch reads', async () => {
    const { ranking, lanes } = site.ranker;
    const items = Array.from({ length: 100 }, (_, at) => ({ text: `${tech} number ${at}` }));
    const before = embedder.count;
    const { signal } = new AbortController();
    const limits = { clock: systemClock, settings: { rankMs: 10_000 }, signal };
    const lines = rankLines({ ...limits, ranking, userId: site.userId, items });
    await lines.next();
    while (embedder.count - before < 8) await site.ask('/training_set');
    // While it answers other requests it has time to run ahead, if nothing stops it.
    for (let count = 0; count < 5; count += 1) await site.ask('/training_set');
    assert.equal(embedder.count - before, 8);
    await lines.return(undefined);
    const leave = new AbortController();
    const response = await fetch(`${site.url}/rank`, {
      method: 'POST',
      headers: { authorization: `Bearer ${site.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ items }),
      signal: leave.signal,
    });
    await response.body?.getReader().read();
    leave.abort();
    while (lanes.batches.stats.inside > 0) await site.ask('/training_set');
  });

  it('keeps ratings in bulk, fetches their texts later, and forgets none', async () => {
    const key = await newUser('bulk');
    const good = news.article('/bulk', 'Bulk', tech);
    const items = [
      { url: good, score: 9 },
      { url: `${news.url}/gone`, score: 2 },
    ];
    const kept = await site.ask('/train_bulk', { key, body: { items } });
    assert.deepEqual([kept.status, kept.json.count], [202, 2]);
    const fetched = await site.ask('/fetch_training', { key, method: 'POST' });
    assert.deepEqual([fetched.json.fetched, fetched.json.failed], [1, 1]);
    assert.equal((await rank(good, key)).json.rank, 9);
    const { json: stats } = await site.ask('/stats', { key });
    assert.deepEqual(
      [stats.training_samples, stats.with_embeddings, stats.avg_target_score],
      [2, 1, 5.5],
    );
    assert.deepEqual([stats.high_quality_count, stats.low_quality_count], [1, 1]);
    assert.equal((await site.ask('/training_set', { key })).json.count, 2);
  });

  it('lists articles by score, takes votes and says why', async () => {
    const key = await newUser('voter');
    const body = { text: tech, title: 'Compilers' };
    const { json: rated } = await site.ask('/correct_rank', { key, body: { ...body, score: 8 } });
    await site.ask('/correct_rank', { key, body: { text: gossip, title: 'Stars', score: 3 } });
    const { json: list } = await site.ask('/articles', { key });
    const titles = list.articles.map(({ title }: { title: string }) => title);
    assert.deepEqual(titles, ['Compilers', 'Stars']);
    const vote = await site.ask('/votes', { key, body: { article: rated.id, score: 1 } });
    assert.deepEqual([vote.status, vote.json.predicted > 6, vote.json.rank], [200, true, 1]);
    const { json: now } = await site.ask('/articles?search=STARS', { key });
    // A training in the background may have published another since.
    assert.ok(now.articles.length === 1 && now.version >= vote.json.version);
    const why = await site.ask(`/articles/${rated.id}/explanation`, { key });
    assert.ok(why.json.version >= now.version);
    assert.equal((await site.ask('/articles/none/explanation', { key })).status, 404);
    const unknown = { article: 'none', score: 5 };
    assert.equal((await site.ask('/votes', { key, body: unknown })).status, 404);
    const takeBack = () => site.ask(`/votes/${rated.id}`, { key, method: 'DELETE' });
    assert.equal((await takeBack()).status, 200);
    const after = await site.ask('/rank', { key, body });
    assert.ok(after.json.rank > 1.1 && after.json.version > vote.json.version, after.text);
    assert.equal((await site.ask('/training_set', { key })).json.count, 1);
    assert.equal((await takeBack()).status, 404);
  });

  it('takes out what was put in: feeds, rules and ratings', async () => {
    const [key, other] = [await newUser('giver'), await newUser('taker')];
    const rss = '<rss version="2.0"><channel><title>A &amp; B</title></channel></rss>';
    const url = news.page('/feed', (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(rss);
    });
    const made = await site.ask('/feeds', { key, body: { url, folder: 'News' } });
    assert.deepEqual([made.status, made.json], [201, { url, title: 'A & B' }]);
    const rule = { kind: 'boost', field: 'words', value: 'peat', points: 2 };
    assert.equal((await site.ask('/rules', { key, body: rule })).status, 201);
    await site.ask('/correct_rank', { key, body: { text: tech, title: 'T', score: 7 } });
    const opml = await site.ask('/feeds/opml', { key });
    assert.match(opml.text, /A &amp; B/);
    const sent = { key: other, body: opml.text, type: 'text/xml' };
    assert.deepEqual((await site.ask('/feeds/opml', sent)).json, { feeds: 1, leftOut: 0 });
    const exported = await site.ask('/export', { key });
    assert.match(exported.headers.get('content-disposition') ?? '', /ranker-giver\.ndjson/);
    const type = 'application/x-ndjson';
    const taken = await site.ask('/import', { key: other, body: exported.text, type });
    assert.deepEqual(taken.json, { ratings: 1, feeds: 1, rules: 1 });
    const again = await site.ask('/import', { key: other, body: exported.text, type });
    assert.deepEqual(again.json, { ratings: 1, feeds: 1, rules: 0 });
    const same = await site.ask('/export', { key: other });
    assert.equal(same.text.replace('taker', 'giver'), exported.text);
    const { json } = await site.ask('/feeds', { key: other });
    const removed = await site.ask(`/feeds/${json.feeds[0].id}`, { key: other, method: 'DELETE' });
    assert.equal(removed.status, 200);
    assert.deepEqual((await site.ask('/feeds', { key: other })).json.feeds, []);
  });

  it('makes users and ends for the operator only', async () => {
    const routes = ['/-/users', '/-/users/made/key', '/-/shutdown', '/shutdown'];
    for (const path of routes) {
      assert.equal((await site.ask(path, { method: 'POST' })).status, 404, path);
    }
    const made = await site.askOperator('/-/users', { body: { name: 'made' } });
    assert.equal(made.status, 201);
    assert.equal((await site.ask('/stats', { key: made.json.key })).status, 200);
    const twice = await site.askOperator('/-/users', { body: { name: 'made' } });
    assert.deepEqual([twice.status, twice.json.error.code], [409, 'NAME_TAKEN']);
    assert.equal(ends, 0);
    const ended = await site.askOperator('/-/shutdown', { method: 'POST' });
    assert.equal(ended.status, 200);
    while (ends === 0) await site.ask('/training_set');
    assert.equal(ends, 1);
  });
});
