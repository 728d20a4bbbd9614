import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fit, sideCount, untrained, wordValues } from '../src/learn/model.ts';
import { commonOf, comparedRows, placeRows } from '../src/learn/rows.ts';
import { bucketCount, wordsKept, wordsOf } from '../src/learn/words.ts';
import { ratedRows } from './fixtures/rated-rows.ts';
import { model, VectorScene } from './vector-scene.ts';

const halfLifeMs = 1e15;
const topics = ['queue thread compiler', 'bread oven flour', 'goal match stadium'];

/** Ratings with vectors and words. */
function scene(seed: number, count: number) {
  return new VectorScene(seed).all(count).map((each, at) => {
    const text = `number ${at} of a text about ${topics[at % 3]}`;
    const words = wordsOf({ title: topics[at % 3] ?? '', text });
    return { ...each, document: { ...each.document, words } };
  });
}

/** Gauss's way, on all columns, without anything that the code under test uses. */
function directSolve(matrix: number[][], right: number[]): number[] {
  const size = right.length;
  const rows = matrix.map((row, at) => [...row, right[at] as number]);
  for (let pivot = 0; pivot < size; pivot += 1) {
    for (let row = 0; row < size; row += 1) {
      if (row === pivot) continue;
      const own = rows[pivot] as number[];
      const line = rows[row] as number[];
      const factor = (line[pivot] as number) / (own[pivot] as number);
      for (let at = pivot; at <= size; at += 1)
        line[at] = (line[at] as number) - factor * (own[at] as number);
    }
  }
  return rows.map((row, at) => (row[size] as number) / (row[at] as number));
}

describe('the model of a taste', () => {
  it('finds the weights that a direct solve of the same equations finds', () => {
    const rows = ratedRows(scene(1, 40), model.dimension, new Map());
    const common = commonOf(rows);
    const choice = { ...untrained, topic: 0.7, words: 2 };
    const found = fit(rows, common, choice, { halfLifeMs });
    const values = new Float32Array(wordsKept);
    const used = new Set<number>();
    const dense = Array.from({ length: rows.count }, (_, row) => {
      wordValues(rows, row, common, values);
      const words = new Map<number, number>();
      for (const [at, value] of values.entries()) {
        const key = rows.keys[row * wordsKept + at] as number;
        if (value !== 0) words.set(key, value);
        if (value !== 0) used.add(key);
      }
      const from = row * model.dimension;
      const vector = rows.means.subarray(from, from + model.dimension);
      return { words, topic: vector.map((value, at) => value - (common.centre[at] as number)) };
    });
    // The side features are not open to view: their part is taken from what was said.
    const keys = [...used];
    const size = model.dimension + keys.length;
    const lines = dense.map(({ topic, words }) => [
      ...topic,
      ...keys.map((key) => words.get(key) ?? 0),
    ]);
    const weights = [...found.topic, ...keys.map((key) => found.words[key] as number)];
    const penalties = [
      ...new Array<number>(model.dimension).fill(0.7),
      ...new Array<number>(keys.length).fill(2),
    ];
    // At the minimum each weight times its penalty is what its column has left to say.
    const rest = penalties.map((penalty, at) => penalty * (weights[at] as number));
    const matrix = lines.map((one) =>
      lines.map((other) => one.reduce((sum, value, at) => sum + value * (other[at] as number), 0)),
    );
    const asked = lines.map((line) =>
      line.reduce((sum, v, at) => sum + v * (rest[at] as number), 0),
    );
    const left = directSolve(
      matrix.map((row, at) => row.map((value, col) => value + (at === col ? 1e-9 : 0))),
      asked,
    );
    for (let at = 0; at < size; at += 1) {
      const said = lines.reduce(
        (sum, line, row) => sum + (line[at] as number) * (left[row] as number),
        0,
      );
      assert.ok(Math.abs(said - (rest[at] as number)) < 0.02, `${at}: ${said} ${rest[at]}`);
    }
    assert.equal(found.words.length, bucketCount);
  });

  it('grows by one rating at a time to what all at once make', () => {
    const rated = scene(2, 40);
    const whole = ratedRows(rated, model.dimension, new Map());
    const sources = new Map<string, number>();
    let grown = ratedRows(rated.slice(0, 3), model.dimension, sources);
    for (let row = 3; row < rated.length; row += 1) {
      const each = rated[row] ?? assert.fail();
      const source = sources.get(each.source) ?? sources.size;
      sources.set(each.source, source);
      const { score, ratedAt } = each;
      const edit = { row, score, ratedAt, added: { ...each, source } };
      grown = comparedRows(placeRows(grown, [edit], model.dimension));
    }
    assert.deepEqual([...grown.nearest], [...whole.nearest]);
    const common = commonOf(whole);
    const one = fit(grown, common, untrained, { halfLifeMs });
    const other = fit(whole, common, untrained, { halfLifeMs });
    assert.deepEqual([...one.topic], [...other.topic]);
  });

  it('leaves out a rating that was taken back', () => {
    const rated = scene(3, 30);
    const all = ratedRows(rated, model.dimension, new Map());
    const common = commonOf(all);
    const taken = placeRows(all, [{ row: 29, score: Number.NaN, ratedAt: 0 }], model.dimension);
    const without = ratedRows(rated.slice(0, 29), model.dimension, new Map());
    const one = fit(taken, common, untrained, { halfLifeMs });
    const other = fit(without, common, untrained, { halfLifeMs });
    assert.equal(one.start, other.start);
    for (const [at, value] of one.topic.entries()) {
      assert.ok(Math.abs(value - (other.topic[at] as number)) < 1e-3);
    }
  });

  it('believes only its start when nothing is rated, and newer ratings more than old ones', () => {
    const nothing = ratedRows([], model.dimension, new Map());
    const empty = fit(nothing, commonOf(nothing), untrained, { halfLifeMs });
    assert.equal(empty.start, 5.5);
    assert.ok(empty.topic.every((value) => value === 0));
    assert.equal(empty.side.length, sideCount);
    const rated = scene(4, 20).map((each, at) => {
      return { ...each, score: at < 10 ? 2 : 9, ratedAt: at < 10 ? 0 : 1_000 };
    });
    const rows = ratedRows(rated, model.dimension, new Map());
    const even = fit(rows, commonOf(rows), untrained, { halfLifeMs });
    const recent = fit(rows, commonOf(rows), untrained, { halfLifeMs: 200 });
    assert.ok(recent.start > even.start + 1.5, `${recent.start} ${even.start}`);
  });
});
