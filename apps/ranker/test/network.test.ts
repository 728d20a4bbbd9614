import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { Arena } from '../src/learn/arena.ts';
import type { RatedArticle } from '../src/learn/document.ts';
import { learnTaste } from '../src/learn/learning.ts';
import { Network } from '../src/learn/network.ts';
import { packArticles } from '../src/learn/packed-articles.ts';
import { model, now, VectorScene } from './vector-scene.ts';

const shape = { dimension: 32, attention: 16, hidden: 16 };

describe('the arena', () => {
  it('multiplies and adds as plain loops do', () => {
    const random = seededRandom(4);
    const arena = new Arena(4_000);
    // Neither queries nor rows come out even, whatever is taken at once.
    const [queries, rows] = [arena.take(48 * 6), arena.take(48 * 7)];
    const [out, sums] = [arena.take(6 * 7), arena.take(48 * 6)];
    for (const array of [queries, rows, sums])
      for (const at of array.keys()) array[at] = random() - 0.5;
    const before = sums.slice();
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
    arena.addTo(sums, queries, 0.7);
    const factors = out.slice(0, 6 * 7);
    arena.addProducts(sums, rows, 48, out);
    for (const [at, value] of sums.entries()) {
      let plain = (before[at] as number) + 0.7 * (queries[at] as number);
      for (let row = 0; row < 7; row += 1) {
        const factor = factors[row * 6 + Math.floor(at / 48)] as number;
        plain += factor * (rows[row * 48 + (at % 48)] as number);
      }
      assert.ok(Math.abs(value - plain) < 1e-5, `sum ${at}`);
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

describe('the network', () => {
  it('says 5.5 of everything when it is fresh, of an empty article too', () => {
    const network = new Network(shape, 8);
    const scene = new VectorScene(1);
    network.reset(seededRandom(1));
    network.ask(scene.direction());
    assert.equal(network.predict(scene.rated(0).document), 5.5);
    assert.equal(
      network.predict({ sentences: new Float32Array(0), chunks: new Uint32Array(0) }),
      5.5,
    );
  });

  for (const name of ['with a profile', 'without a profile']) {
    it(`has the gradients that small changes show, ${name}`, () => {
      const scene = new VectorScene(2);
      const random = seededRandom(9);
      const network = new Network(shape, 8);
      network.reset(random);
      for (const at of network.parameters.keys()) {
        network.parameters[at] = (network.parameters[at] as number) + 0.3 * (random() - 0.5);
      }
      const profile = name === 'with a profile' ? scene.direction() : new Float32Array(32);
      const { document } = scene.rated(1, 2);
      const dropout = new Float32Array(16).map((_, at) => (at % 5 === 0 ? 0 : 1.25));
      network.gradients.fill(0);
      network.ask(profile);
      network.learn(document, 2, dropout);
      network.learnQueries();
      const loss = () => {
        network.ask(profile);
        return (network.predict(document, dropout) - 2) ** 2 / 2;
      };
      const gradients = network.gradients.slice();
      const norm = Math.hypot(...gradients);
      const step = 1e-2;
      let checked = 0;
      for (let at = 0; at < gradients.length; at += 3) {
        const value = network.parameters[at] as number;
        network.parameters[at] = value + step;
        const above = loss();
        network.parameters[at] = value - step;
        const slope = (above - loss()) / (2 * step);
        network.parameters[at] = value;
        const off = Math.abs(slope - (gradients[at] as number));
        assert.ok(off < 0.02 * Math.abs(slope) + 1e-4 * norm, `number ${at}: ${off}`);
        checked += Math.abs(slope) > 5e-4 * norm ? 1 : 0;
      }
      assert.ok(checked > 30, `only ${checked} gradients were not about zero`);
    });
  }

  it('serves when it is better: two sentences that are liked alone and not together', async () => {
    const scene = new VectorScene(5);
    const [one, other] = [scene.direction(), scene.direction()];
    const rated = Array.from({ length: 240 }, (_, number): RatedArticle => {
      const [hasOne, hasOther] = [number % 2 === 0, number % 4 < 2];
      const sentences = [one, other].filter((__, at) => (at === 0 ? hasOne : hasOther));
      while (sentences.length < 4) sentences.push(scene.direction());
      const document = scene.document(sentences.sort(() => scene.random() - 0.5));
      const score = hasOne === hasOther ? 2 : 9;
      return { id: `${number}`, source: 'host', publishedAt: now, document, score, ratedAt: now };
    });
    const packed = await packArticles(rated, model);
    const learning = learnTaste(packed, { kind: 'intensive', epochsMax: 60, shape });
    let step = learning.next();
    for (let last = 0; !step.done; step = learning.next()) {
      assert.ok(step.value.progress >= last && step.value.progress < 1);
      last = step.value.progress;
    }
    const { errors, trained } = step.value;
    assert.ok(errors.network < errors.ridge, JSON.stringify(errors));
    assert.ok(errors.served < 0.8 * errors.ridge, JSON.stringify(errors));
    assert.ok(trained.blend > 0 && trained.network !== undefined);
  });

  it('stays away where ratings are chance, and so does calibration', async () => {
    const scene = new VectorScene(6);
    const rated = scene.all(60).map((each) => ({ ...each, score: 1 + 9 * scene.random() }));
    const packed = await packArticles(rated, model);
    const learning = learnTaste(packed, { kind: 'intensive', epochsMax: 20, shape });
    let step = learning.next();
    while (!step.done) step = learning.next();
    const { errors, trained } = step.value;
    assert.ok(errors.served < 1.15 * errors.constant, JSON.stringify(errors));
    assert.ok(errors.served > 0.85 * errors.constant, `it sees what is not there`);
    assert.ok(trained.blend <= 1);
  });
});
