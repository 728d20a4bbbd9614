import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ArticleTable } from '../src/learn/article-table.ts';
import type { RatedArticle } from '../src/learn/document.ts';
import { placeRows, rowMean } from '../src/learn/rows.ts';
import { Tastes } from '../src/learn/tastes.ts';
import { ratedRows } from './fixtures/rated-rows.ts';
import { model, now, StoredTastes, VectorScene } from './vector-scene.ts';

describe('the table of articles', () => {
  it('keeps the newest articles, each once', () => {
    const scene = new VectorScene(1);
    const table = new ArticleTable({ model, sizeMax: 3 });
    for (const number of [0, 1, 2, 2, 3]) table.put(scene.rated(number));
    assert.equal(table.size, 3);
    const asked = [0, 1, 2, 3].map((number) => `article ${number}`);
    assert.deepEqual(table.find(asked).ids, ['article 1', 'article 2', 'article 3']);
    table.delete('article 2');
    table.delete('never there');
    assert.equal(table.size, 2);
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

  it('is ranked at once where there is much to compare, and exactly soon after', async () => {
    const scene = new VectorScene(5);
    const stored = new StoredTastes();
    stored.all.set('reader', { rated: scene.all(300) });
    const compared = Promise.withResolvers<string>();
    const onCompared = compared.resolve;
    await using tastes = await Tastes.open({ model, load: stored.load, workers: 1, onCompared });
    const articles = Array.from({ length: 400 }, (_, number) => scene.rated(1_000 + number, 1));
    for (const each of articles) tastes.table.put(each);
    const asked = articles.map(({ id }) => id);
    const first = await tastes.rank('reader', asked, { now });
    assert.equal(first.ids.length, 400);
    assert.equal(await compared.promise, 'reader');
    const { scores } = await tastes.rank('reader', asked, { now });
    for (const at of [0, 150, 399]) {
      const one = await tastes.score('reader', articles[at] as (typeof articles)[0], { now });
      assert.equal(Math.fround(one.score), scores[at]);
    }
    const differ = asked.filter((_, at) => first.scores[at] !== scores[at]);
    assert.ok(differ.length > 300, `${differ.length} were scored without neighbours at first`);
  });
});

describe('rated rows', () => {
  it('share memory with the version before, of which two may be made', () => {
    const scene = new VectorScene(6);
    const before = ratedRows(scene.all(20), model.dimension, new Map());
    const edit = (article: RatedArticle) => {
      const added = { ...article, source: 0 };
      return placeRows(before, [{ row: 20, score: 7, ratedAt: now, added }], model.dimension);
    };
    const articles = [scene.rated(30), scene.rated(31)] as const;
    const [one, other] = [edit(articles[0]), edit(articles[1])];
    assert.equal(one.means.buffer, before.means.buffer);
    assert.notEqual(other.means.buffer, before.means.buffer);
    for (const [at, rows] of [one, other].entries()) {
      assert.deepEqual(rowMean(rows, 20), articles[at]?.document.mean);
      assert.deepEqual(rowMean(rows, 19), rowMean(before, 19));
    }
    assert.equal(before.count, 20);
  });
});
