import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Tastes } from '../src/learn/tastes.ts';
import { VectorTable } from '../src/learn/vector-table.ts';
import { model, now, VectorScene } from './vector-scene.ts';

describe('the shelf', () => {
  it('keeps the newest articles, each once', () => {
    const scene = new VectorScene(1);
    const shelf = new VectorTable({ model, sizeMax: 3 });
    for (const number of [0, 1, 2, 2, 3]) shelf.put(scene.rated(number));
    assert.equal(shelf.size, 3);
    assert.deepEqual(shelf.list().ids, ['article 1', 'article 2', 'article 3']);
    shelf.delete('article 2');
    shelf.delete('never there');
    assert.equal(shelf.size, 2);
  });

  it('forgets sources of which it has nothing left', () => {
    const scene = new VectorScene(2);
    const shelf = new VectorTable({ model, sizeMax: 4 });
    for (let number = 0; number < 50; number += 1) {
      shelf.put({ ...scene.rated(number), source: `source ${number}` });
    }
    assert.ok(shelf.sources.size <= 8);
    for (const row of shelf.list().rows) {
      const name = [...shelf.sources.keys()][shelf.rows.sources[row] as number];
      assert.match(String(name), /^source 4[6-9]$/);
    }
  });

  it('is ranked as its articles are scored one by one', async () => {
    const scene = new VectorScene(3);
    await using tastes = await Tastes.open({ model, workers: 1 });
    await tastes.load('reader', { rated: scene.all(60) });
    const stored = Array.from({ length: 40 }, (_, number) => scene.rated(100 + number, 1));
    for (const each of stored) tastes.shelf.put(each);
    const { ids, scores, support, version } = await tastes.rank('reader', { now });
    assert.deepEqual(
      ids,
      stored.map(({ id }) => id),
    );
    for (const [at, each] of stored.entries()) {
      const one = await tastes.score('reader', each, { now });
      assert.equal(Math.fround(one.score), scores[at]);
      assert.equal(Math.fround(one.support), support[at]);
      assert.equal(one.version, version);
    }
  });

  it('leaves out what leaves while it is ranked', async () => {
    const scene = new VectorScene(4);
    await using tastes = await Tastes.open({ model, workers: 1 });
    await tastes.load('reader', { rated: scene.all(60) });
    for (let number = 0; number < 20; number += 1) tastes.shelf.put(scene.rated(number));
    const ranking = tastes.rank('reader', { now });
    tastes.shelf.delete('article 7');
    tastes.shelf.put({ ...scene.rated(70), id: 'another' });
    const { ids } = await ranking;
    assert.equal(ids.includes('article 7'), false);
    assert.equal(ids.includes('another'), false);
    assert.equal(ids.length, 19);
  });
});
