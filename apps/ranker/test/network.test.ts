import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { Arena, learnTaste, Network, packArticles, type RatedArticle } from 'spillway-ranker';
import { model, now, VectorScene } from './vector-scene.ts';

const shape = { dimension: 32, attention: 16, hidden: 16 };

describe('the arena', () => {
  it('multiplies and adds as plain loops do', () => {
    const random = seededRandom(4);
    const arena = new Arena(4_000);
    const [query, rows] = [arena.take(48), arena.take(48 * 7)];
    const [out, sum] = [arena.take(7), arena.take(48)];
    for (const array of [query, rows, sum])
      for (const at of array.keys()) array[at] = random() - 0.5;
    const before = sum.slice();
    arena.dots(query, rows, out);
    arena.addTo(sum, query, 0.7);
    for (const [row, product] of out.entries()) {
      const plain = query.reduce(
        (total, value, at) => total + value * (rows[row * 48 + at] as number),
        0,
      );
      assert.ok(Math.abs(product - plain) < 1e-5);
    }
    for (const [at, value] of sum.entries()) {
      assert.ok(Math.abs(value - (before[at] as number) - 0.7 * (query[at] as number)) < 1e-6);
    }
    assert.throws(() => arena.dots(query.subarray(0, 10), rows, out), /vector: must be/);
    assert.throws(() => arena.take(1e6), /length: must be what the arena has room for/);
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
