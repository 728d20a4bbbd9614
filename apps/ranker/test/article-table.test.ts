import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ArticleTable } from '../src/learn/article-table.ts';
import { Tastes } from '../src/learn/tastes.ts';
import { model, now, StoredTastes, VectorScene } from './vector-scene.ts';

describe('the table of articles', () => {
  it('keeps the newest articles, each once', () => {
    const scene = new VectorScene(1);
    const shelf = new ArticleTable({ model, sizeMax: 3 });
    for (const number of [0, 1, 2, 2, 3]) shelf.put(scene.rated(number));
    assert.equal(shelf.size, 3);
    const asked = [0, 1, 2, 3].map((number) => `article ${number}`);
    assert.deepEqual(shelf.find(asked).ids, ['article 1', 'article 2', 'article 3']);
    shelf.delete('article 2');
    shelf.delete('never there');
    assert.equal(shelf.size, 2);
  });

  it('grows, and keeps what it has', () => {
    const scene = new VectorScene(2);
    const table = new ArticleTable({ model, sizeMax: 5_000 });
    const first = scene.rated(0);
    for (let number = 0; number < 3_000; number += 1) {
      table.put({ ...first, id: `article ${number}`, source: `source ${number % 7}` });
    }
    assert.equal(table.size, 3_000);
    assert.deepEqual(table.mean('article 3'), first.document.mean);
    assert.equal(table.common.count, 3_000);
  });

  it('is ranked as its articles are scored one by one', async () => {
    const scene = new VectorScene(3);
    const stored = new StoredTastes();
    stored.all.set('reader', { rated: scene.all(60) });
    await using tastes = await Tastes.open({ model, load: stored.load, workers: 1 });
    const articles = Array.from({ length: 40 }, (_, number) => scene.rated(100 + number, 1));
    for (const each of articles) tastes.table.put(each);
    const asked = articles.map(({ id }) => id);
    const { ids, scores, widths, version } = await tastes.rank('reader', asked, { now });
    assert.deepEqual(ids, asked);
    for (const [at, each] of articles.entries()) {
      const one = await tastes.score('reader', each, { now });
      assert.equal(Math.fround(one.score), scores[at]);
      assert.equal(Math.fround(one.width), widths[at]);
      assert.equal(one.version, version);
    }
    // After a vote only the new rating is compared: it must come to the same.
    await tastes.rate('reader', [{ ...scene.rated(3), id: 'late', score: 2 }]);
    const again = await tastes.rank('reader', asked, { now });
    for (const [at, each] of articles.entries()) {
      const one = await tastes.score('reader', each, { now });
      assert.equal(Math.fround(one.score), again.scores[at]);
    }
  });

  it('leaves out what leaves while it is ranked', async () => {
    const scene = new VectorScene(4);
    const stored = new StoredTastes();
    stored.all.set('reader', { rated: scene.all(60) });
    await using tastes = await Tastes.open({ model, load: stored.load, workers: 1 });
    for (let number = 0; number < 20; number += 1) tastes.table.put(scene.rated(number));
    await tastes.current('reader');
    const asked = Array.from({ length: 20 }, (_, number) => `article ${number}`);
    const ranking = tastes.rank('reader', asked, { now });
    await Promise.resolve();
    await Promise.resolve();
    tastes.table.delete('article 7');
    tastes.table.put({ ...scene.rated(70), id: 'another' });
    const { ids } = await ranking;
    assert.equal(ids.includes('article 7'), false);
    assert.equal(ids.includes('another'), false);
    assert.equal(ids.length, 19);
  });
});
