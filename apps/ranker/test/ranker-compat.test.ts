import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { NewsSite, storyOf } from './fixtures/news-site.ts';
import { type AskOptions, RankerSite, type SiteAnswer } from './fixtures/ranker-site.ts';

describe('a ranker that answers as news-score does', () => {
  const stack = new AsyncDisposableStack();
  let news: NewsSite;
  let site: RankerSite;

  before(async () => {
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open({ compat: true, compatPort: 0, shutdown: () => {} }));
  });

  after(() => stack.disposeAsync());

  const ask = (path: string, options: AskOptions = {}): Promise<SiteAnswer> =>
    site.ask(path, { key: undefined, base: site.ranker.compat?.url ?? '', ...options });
  const rank = (url: string) => ask(`/rank?url=${encodeURIComponent(url)}`);

  it('needs no key, has its shapes, and tells failures inside a 200', async () => {
    const url = news.article('/a', 'A', storyOf('kernel', 'thread'));
    assert.deepEqual((await rank(url)).json, { url, rank: 5.5, source: 'ok' });
    const gone = `${news.url}/gone`;
    const unavailable = await rank(gone);
    assert.equal(unavailable.status, 200);
    assert.deepEqual(unavailable.json, { url: gone, rank: 0, source: 'unavailable' });
    assert.deepEqual((await rank('nonsense')).json.source, 'unavailable');
    const { status, json } = await ask('/rank');
    assert.deepEqual([status, json.detail[0].loc], [422, ['query', 'url']]);
    const short = await ask('/rank?url=');
    assert.deepEqual([short.status, short.json.detail[0].type], [422, 'string_too_short']);
  });

  it('takes corrections, in bulk too, and leaves out items that lack a field', async () => {
    const url = news.article('/b', 'B', storyOf('kernel', 'thread'));
    const accepted = await ask('/correct_rank', { body: { url, score: 9 } });
    assert.deepEqual([accepted.status, accepted.json.status], [200, 'accepted']);
    assert.deepEqual(Object.keys(accepted.json), ['status', 'message']);
    const skipped = await ask('/correct_rank', { body: { url: `${news.url}/no`, score: 9 } });
    assert.deepEqual([skipped.status, skipped.json.status], [200, 'skipped']);
    const wrong = await ask('/correct_rank', { body: { url, score: 50 } });
    assert.deepEqual([wrong.status, wrong.json.status], [200, 'error']);
    const told = async (body: unknown) => {
      const { status, json } = await ask('/correct_rank', { body });
      return [status, json.detail[0].type, json.detail[0].loc.join('.')];
    };
    assert.deepEqual(await told({ score: 9 }), [422, 'missing', 'body.url']);
    assert.deepEqual(await told({ url }), [422, 'missing', 'body.score']);
    assert.deepEqual(await told({ url, score: [] }), [422, 'float_type', 'body.score']);
    assert.deepEqual(await told('{'), [422, 'json_invalid', 'body.0']);
    const text = await ask('/correct_rank', { body: { url, score: '9' } });
    assert.equal(text.json.status, 'accepted', 'a number may be a text');
    assert.equal((await rank(url)).json.rank, 9);
    const items = [{ url: `${news.url}/c`, score: 2 }, { url: 'x' }, { score: 3 }, null];
    items.push({ url: 'x:y', score: 3 });
    const bulk = await ask('/train_bulk', { body: { items } });
    assert.deepEqual([bulk.json.status, bulk.json.count], ['accepted', 1]);
    const fetched = await ask('/fetch_training', { method: 'POST' });
    assert.deepEqual([fetched.json.fetched, fetched.json.failed], [0, 1]);
    const retrained = await ask('/retrain', { method: 'POST' });
    assert.deepEqual([retrained.status, retrained.json.training_samples], [200, 2]);
    const set = await ask('/training_set');
    assert.equal(set.json.count, 2);
    assert.deepEqual(Object.keys(set.json.items[0]), ['url', 'score']);
  });

  it('has all numbers of its stats', async () => {
    const { json } = await ask('/stats');
    assert.deepEqual(Object.keys(json), [
      'training_samples',
      'with_embeddings',
      'avg_target_score',
      'high_quality_count',
      'low_quality_count',
      'accuracy',
      'last_training',
      'total_trainings',
    ]);
    assert.deepEqual(Object.keys(json.accuracy), [
      'total_corrections',
      'avg_delta',
      'avg_abs_delta',
      'recent_7d',
    ]);
    assert.equal(json.last_training.type, 'continuous');
    assert.match(json.last_training.status, /^(running|completed|interrupted)$/);
  });

  it('is not ended by whoever can reach it', async () => {
    assert.equal((await ask('/shutdown', { method: 'POST' })).status, 404);
  });
});
