import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RatedArticle } from '../src/learn/document.ts';
import {
  featureCount,
  featurePenalties,
  featureWeights,
  trainingFeatures,
} from '../src/learn/features.ts';
import { foldOf, packArticles } from '../src/learn/learning.ts';
import { growRows, noRows, type RatedRows } from '../src/learn/rated-rows.ts';
import { fitRidge } from '../src/learn/ridge.ts';
import { VectorIndex } from '../src/learn/vector-index.ts';
import { model, VectorScene } from './vector-scene.ts';

async function rowsOf(rated: RatedArticle[], known: RatedRows = noRows(model.dimension)) {
  const all = await packArticles(rated, model);
  const from = known.count * model.dimension;
  const added = { means: all.means.subarray(from), titles: all.titles.subarray(from) };
  return growRows(known, added, all, new VectorIndex());
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

describe('ridge regression', () => {
  it('finds what a direct solve of the same equations finds', async () => {
    const rated = new VectorScene(1).all(60);
    const rows = await rowsOf(rated);
    const penalty = 0.7;
    const { start, centre, topic, weights } = fitRidge(rows, penalty);
    const features = trainingFeatures(rows, start);
    const lines = rated.map(({ document }, row) => [
      ...document.mean.map((value, at) => value - (centre[at] as number)),
      ...features.subarray(row * featureCount, (row + 1) * featureCount),
    ]);
    const before = [...new Array<number>(model.dimension).fill(0), ...featureWeights];
    const penalties = [...new Array<number>(model.dimension).fill(penalty), ...featurePenalties];
    const rest = rated.map(({ score }, row) => {
      const line = lines[row] as number[];
      return (
        score - start - line.reduce((sum, value, at) => sum + value * (before[at] as number), 0)
      );
    });
    const column = (at: number) => lines.map((line) => line[at] as number);
    const times = (one: number[], other: number[]) =>
      one.reduce((sum, value, at) => sum + value * (other[at] as number), 0);
    const matrix = before.map((_, one) =>
      before.map((__, other) => {
        const product = times(column(one), column(other));
        return product + (one === other ? (penalties[one] as number) : 0);
      }),
    );
    const solution = directSolve(
      matrix,
      before.map((_, at) => times(column(at), rest)),
    );
    const found = [...topic, ...weights];
    for (const [at, value] of solution.entries()) {
      const expected = value + (before[at] as number);
      assert.ok(
        Math.abs((found[at] as number) - expected) < 1e-3,
        `${at}: ${found[at]} ${expected}`,
      );
    }
  });

  it('grows by one rating at a time to what all at once make', async () => {
    const rated = new VectorScene(2).all(40);
    const whole = await rowsOf(rated);
    let grown = await rowsOf(rated.slice(0, 3));
    for (let count = 4; count <= rated.length; count += 1) {
      grown = await rowsOf(rated.slice(0, count), grown);
    }
    assert.deepEqual([...grown.nearest], [...whole.nearest]);
    const [one, other] = [fitRidge(grown, 1), fitRidge(whole, 1)];
    for (const [at, value] of one.topic.entries()) {
      assert.ok(Math.abs(value - (other.topic[at] as number)) < 1e-4);
    }
  });

  it('shows no rating its own score: a row is the same whatever it was given', async () => {
    const rated = new VectorScene(3).all(50);
    const [row, start] = [17, 5.5];
    const own = rated[row] as RatedArticle;
    const changed = rated.with(row, { ...own, score: 11 - own.score });
    const featuresOf = async (articles: RatedArticle[]) =>
      trainingFeatures(await rowsOf(articles), start);
    const [one, other] = [await featuresOf(rated), await featuresOf(changed)];
    const line = (all: Float64Array, at: number) => [
      ...all.subarray(at * featureCount, (at + 1) * featureCount),
    ];
    const fold = foldOf(own.id);
    for (const [at, { id }] of rated.entries()) {
      if (foldOf(id) === fold) assert.deepEqual(line(one, at), line(other, at));
      else assert.notDeepEqual(line(one, at), line(other, at));
    }
  });

  it('believes what it believed before when it has learned nothing', () => {
    const { start, topic, weights } = fitRidge(noRows(model.dimension), 1);
    assert.equal(start, 5.5);
    assert.ok(topic.every((value) => value === 0));
    assert.deepEqual([...weights], [...Float32Array.from(featureWeights)]);
  });
});
