import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { emptyDocument, type RatedArticle } from '../src/learn/document.ts';
import { compareRows, emptyNeighbours, neighboursKept } from '../src/learn/rows.ts';
import type { Score } from '../src/learn/score.ts';
import type { TasteState } from '../src/learn/scorer.ts';
import { Tastes } from '../src/learn/tastes.ts';
import { model, now, StoredTastes, VectorScene } from './vector-scene.ts';

describe('tastes', () => {
  let tastes: Tastes;
  const stored = new StoredTastes();
  before(async () => {
    const { load } = stored;
    tastes = await Tastes.open({ model, load, workers: 2, ratedMax: 100, articlesMax: 400 });
  });
  const versionOf = async (user: string) => (await tastes.current(user)).version;
  /** Begins with these ratings; gives the first version. */
  const begin = (user: string, rated: readonly RatedArticle[]) => {
    stored.all.set(user, { rated });
    return versionOf(user);
  };
  after(() => tastes.close());

  const sumOf = ({ explanation }: Score) =>
    explanation.contributions.reduce((sum, { points }) => sum + points, 0);

  it('know nothing of a reader without ratings: 5.5, and say so', async () => {
    await begin('nobody', []);
    const { score, support, explanation } = await tastes.score('nobody', article(1, 0), { now });
    assert.deepEqual([score, support], [5.5, 0]);
    assert.deepEqual(explanation.neighbours, []);
  });

  it('learn from the first rating on', async () => {
    const scene = new VectorScene(1);
    await begin('new', []);
    const [liked, disliked] = [scene.rated(0), scene.rated(5)];
    await tastes.rate('new', [liked, disliked]);
    const of = async (number: number) =>
      (await tastes.score('new', scene.rated(number), { now })).score;
    const [like, dislike] = [await of(6), await of(11)];
    assert.ok(like > 5.5 && like > dislike + 0.5, `${like} and ${dislike}`);
    assert.ok(Math.abs((await tastes.score('new', liked, { now })).score - 10) < 0.01);
    assert.ok(Math.abs((await tastes.score('new', disliked, { now })).score - 1) < 0.01);
  });

  it('show a rating in the next score, a change of mind and a rating taken back too', async () => {
    const scene = new VectorScene(2);
    const rated = scene.all(40, 1.5);
    const own = rated[3] as RatedArticle;
    const first = await begin('quick', rated);
    const asked = async () => tastes.score('quick', own, { now });
    const same = async () => (await asked()).score;
    assert.ok(Math.abs((await same()) - own.score) < 0.01);
    const version = await tastes.rate('quick', [{ ...own, score: 1.5 }]);
    assert.ok(version > first);
    assert.ok(Math.abs((await same()) - 1.5) < 0.01);
    assert.equal((await asked()).version, version);
    await tastes.change('quick', { removed: [own.id] });
    assert.ok(!(await asked()).explanation.neighbours.some(({ id }) => id === own.id));
  });

  it('explain a score so that its parts add up to it', async () => {
    const scene = new VectorScene(3);
    await begin('why', scene.all(60));
    for (const number of [0, 3, 5]) {
      const result = await tastes.score('why', { ...scene.rated(number), id: 'fresh' }, { now });
      assert.ok(Math.abs(sumOf(result) - result.score) < 1e-9);
      const { neighbours, sentences, source } = result.explanation;
      assert.equal(neighbours.length, 8);
      const similarities = neighbours.map(({ similarity }) => similarity);
      assert.deepEqual(
        similarities,
        [...similarities].sort((one, other) => other - one),
      );
      assert.ok(neighbours.every(({ id, score }) => id.startsWith('article ') && score >= 1));
      assert.equal(sentences.length, 0);
      assert.equal(source.ratings, 15);
    }
  });

  it('score an article without any text, and one whose source is all that is known', async () => {
    const scene = new VectorScene(4);
    const rated = scene.all(60).map((each) => {
      return { ...each, source: each.score > 5.5 ? 'good' : 'bad' };
    });
    await begin('empty', rated);
    const about = { id: 'empty', publishedAt: undefined, document: emptyDocument(model) };
    const of = async (source: string) =>
      (await tastes.score('empty', { ...about, source }, { now })).score;
    const [good, unknown, bad] = [await of('good'), await of('unknown'), await of('bad')];
    assert.ok(good > unknown && unknown > bad, `${good} ${unknown} ${bad}`);
  });

  it('refuse scores out of range and vectors of another model, and change nothing', async () => {
    const scene = new VectorScene(5);
    const version = await begin('strict', scene.all(5));
    const one = scene.rated(9);
    for (const score of [0, 50, Number.NaN]) {
      await assert.rejects(
        async () => tastes.rate('strict', [{ ...one, score }]),
        /score: must be a number/,
      );
    }
    const foreign = { ...one.document, model: { ...model, precision: 'other' } };
    await assert.rejects(
      async () => tastes.rate('strict', [{ ...one, document: foreign }]),
      /document: must/,
    );
    assert.equal(await versionOf('strict'), version);
  });

  it('forget the oldest ratings when there are too many', async () => {
    const scene = new VectorScene(6);
    await begin('many', scene.all(100));
    await tastes.rate('many', [scene.rated(100)]);
    const nearest = async (number: number) => {
      const again = { ...new VectorScene(6).all(101)[number], id: 'again' } as RatedArticle;
      return (await tastes.score('many', again, { now })).explanation.neighbours[0];
    };
    assert.notEqual((await nearest(0))?.id, 'article 0');
    assert.equal((await nearest(60))?.id, 'article 60');
  });

  it('go on from a stored version with what training had chosen', async () => {
    const scene = new VectorScene(7);
    const rated = scene.all(30);
    await begin('again', rated);
    const before = await versionOf('again');
    const choice = { topic: Infinity, words: Infinity, slope: 0, width: 2 };
    const { state } = await tastes.current('again');
    const model = { ...(state as TasteState).model, choice };
    const version = await tastes.change('again', { model });
    const fresh = { ...scene.rated(0, 2), id: 'fresh' };
    const { score, width, explanation } = await tastes.score('again', fresh, { now });
    const [start] = explanation.contributions;
    assert.equal(score, start?.points, 'the mean of the reader');
    assert.ok(width < 2.4);
    tastes.forget('again');
    stored.all.set('again', { rated, choice });
    const again = await tastes.score('again', fresh, { now });
    assert.deepEqual([again.score, again.width], [score, width]);
    assert.ok(version > before && again.version > version);
  });

  it('score at once when many ratings are loaded, which are compared meanwhile', async () => {
    const rated = new VectorScene(10).all(700);
    stored.all.set('large', { rated });
    const { load } = stored;
    await using large = await Tastes.open({ model, load, workers: 1 });
    const asked = { ...new VectorScene(11).rated(2), id: 'asked' };
    const { version, explanation } = await large.score('large', asked, { now });
    assert.equal(explanation.neighbours.length, 8, 'an article is compared with all ratings');
    const pointsOf = ({ explanation }: Score) =>
      explanation.contributions.find(({ reason }) => reason === 'neighbours')?.points;
    const compared = await large.compared('large');
    assert.ok(compared.version > version);
    const { rows } = compared.state as TasteState;
    assert.equal(rows.compared, 700);
    const together = { ...rows, ...emptyNeighbours(700, neighboursKept) };
    compareRows(together, 0, 700);
    assert.deepEqual(rows.nearest, together.nearest);
    const after = await large.score('large', asked, { now });
    assert.notEqual(pointsOf(after), 0, 'neighbours have a say once they are known');
    assert.ok(Math.abs(sumOf(after) - after.score) < 1e-9);
  });

  it('never mix versions: every score is what its version alone makes', async () => {
    const scene = new VectorScene(8);
    const rated = scene.all(60);
    const asked = { ...scene.rated(2, 1.5), id: 'asked' };
    tastes.table.put(asked);
    await begin('mixed', rated);
    const byVersion = new Map<number, Set<number>>();
    const note = (version: number, score: number) => {
      const seen = byVersion.get(version) ?? new Set();
      byVersion.set(version, seen.add(Math.fround(score)));
    };
    let isOver = false;
    const readers = Array.from({ length: 4 }, async (_, at) => {
      while (!isOver) {
        if (at % 2 === 0) {
          const { version, score } = await tastes.score('mixed', asked, { now });
          note(version, score);
        } else {
          const { version, scores, ids } = await tastes.rank('mixed', ['asked'], { now });
          note(version, scores[ids.indexOf('asked')] as number);
        }
      }
    });
    for (let round = 0; round < 30; round += 1) {
      const flipped = rated.map((each) => ({
        ...each,
        score: round % 2 ? each.score : 11 - each.score,
      }));
      const version = await tastes.rate('mixed', flipped);
      while (!byVersion.has(version)) await new Promise((resolve) => setImmediate(resolve));
    }
    isOver = true;
    await Promise.all(readers);
    tastes.table.delete('asked');
    assert.ok(byVersion.size >= 30, `only ${byVersion.size} versions were seen`);
    for (const [version, scores] of byVersion) {
      assert.equal(scores.size, 1, `version ${version} gave ${[...scores]}`);
    }
    assert.equal(new Set([...byVersion.values()].flatMap((scores) => [...scores])).size, 2);
  });

  it('make many ratings at once into few versions, and lose none', async () => {
    const scene = new VectorScene(9);
    const first = await begin('burst', []);
    const rated = scene.all(50);
    const versions = await Promise.all(rated.map((each) => tastes.rate('burst', [each])));
    assert.ok((versions.at(-1) as number) - first <= 3);
    for (const each of rated) {
      const { explanation } = await tastes.score('burst', each, { now });
      assert.equal(explanation.neighbours[0]?.id, each.id);
    }
  });
});

function article(seed: number, number: number): RatedArticle {
  return new VectorScene(seed).rated(number);
}
