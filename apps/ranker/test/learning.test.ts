import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { learnTaste, packArticles } from '../src/learn/learning.ts';
import { Arena } from '../src/learn/vector-index.ts';
import { model, VectorScene } from './vector-scene.ts';

describe('the arena', () => {
  it('multiplies as plain loops do', () => {
    const random = seededRandom(4);
    const arena = new Arena(4_000);
    // Neither queries nor rows come out even, whatever is taken at once.
    const [queries, rows] = [arena.take(48 * 6), arena.take(48 * 7)];
    const out = arena.take(6 * 7);
    for (const array of [queries, rows]) for (const at of array.keys()) array[at] = random() - 0.5;
    arena.products(queries, rows, 48, out);
    for (const [at, product] of out.entries()) {
      const [query, row] = [Math.floor(at / 7), at % 7].map((number) => number * 48) as [
        number,
        number,
      ];
      let plain = 0;
      for (let place = 0; place < 48; place += 1) {
        plain += (queries[query + place] as number) * (rows[row + place] as number);
      }
      assert.ok(Math.abs(product - plain) < 1e-5, `product ${at}`);
    }
    assert.throws(() => arena.products(queries, rows, 10, out), /vector: must be/);
    assert.throws(() => arena.take(1e6), /length: must be what the arena has room for/);
  });

  it('gives two vectors the same product alone and among others', () => {
    const random = seededRandom(5);
    const arena = new Arena(4_000);
    const [queries, rows] = [arena.take(64 * 5), arena.take(64 * 7)];
    const [together, alone] = [arena.take(5 * 7), arena.take(7)];
    for (const array of [queries, rows]) for (const at of array.keys()) array[at] = random() - 0.5;
    arena.products(queries, rows, 64, together);
    for (let query = 0; query < 5; query += 1) {
      arena.products(queries.subarray(query * 64, (query + 1) * 64), rows, 64, alone);
      assert.deepEqual(together.subarray(query * 7, (query + 1) * 7), alone);
    }
  });
});

describe('a training', () => {
  it('sees nothing where ratings are chance, and tells how far it is', async () => {
    const scene = new VectorScene(6);
    const rated = scene.all(60).map((each) => ({ ...each, score: 1 + 9 * scene.random() }));
    const packed = await packArticles(rated, model);
    const learning = learnTaste(packed, 'intensive');
    let step = learning.next();
    for (let last = 0; !step.done; step = learning.next()) {
      assert.ok(step.value >= last && step.value < 1);
      last = step.value;
    }
    const { errors } = step.value;
    assert.ok(errors.served < 1.15 * errors.constant, JSON.stringify(errors));
    assert.ok(errors.served > 0.85 * errors.constant, `it sees what is not there`);
  });
});
