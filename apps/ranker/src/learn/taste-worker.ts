import type { WorkerContext } from 'spillway';
import { ageFeature, lengthFeature } from './features.ts';
import {
  type AddedVectors,
  growRows,
  neighboursUsed,
  noRow,
  type RatedColumns,
  type RatedRows,
} from './rated-rows.ts';
import { fitRidge } from './ridge.ts';
import { queriesAtOnce } from './simd-code.ts';
import { type Candidate, TasteReader, type TasteState } from './taste-reader.ts';
import type { Trained } from './trained.ts';
import { VectorIndex } from './vector-index.ts';
import type { VectorTableList, VectorTableRows } from './vector-table.ts';

interface Resource {
  readonly reader: TasteReader;
  readonly index: VectorIndex;
}

type Context = Pick<WorkerContext<Resource>, 'resource'>;

/** One version of a reader's taste; no other version ever has its key. */
interface OpenTaste {
  readonly key: string;
  readonly state: TasteState;
}

export interface ScoreTask extends OpenTaste {
  readonly candidate: Candidate;
  readonly sentences: Float32Array;
}

/** A score as the worker gives it; rows are numbers of rated articles. */
export interface ScoreParts {
  readonly score: number;
  readonly support: number;
  readonly points: Float64Array;
  readonly neighbours: readonly {
    readonly row: number;
    readonly similarity: number;
    readonly weight: number;
  }[];
  readonly sentences: readonly { readonly index: number; readonly points: number }[];
  readonly source: readonly [sum: number, count: number];
}

export interface RankTask extends OpenTaste {
  readonly shelf: VectorTableRows;
  readonly list: Pick<VectorTableList, 'rows' | 'stamps'>;
  /** For each source of the shelf its number in the taste, or -1. */
  readonly sources: Int32Array;
  readonly now: number;
}

/** How many sentences are shown as the strongest. */
const sentencesShown = 3;

export function setup(): Resource {
  return { reader: new TasteReader(), index: new VectorIndex() };
}

/** The taste with these ratings: what is known of the rows grows, and ridge is fitted anew. */
export function update(
  task: {
    readonly rows: RatedRows;
    readonly added: AddedVectors;
    readonly columns: RatedColumns;
    readonly trained: Trained;
  },
  { resource }: Context,
): TasteState {
  const rows = growRows(task.rows, task.added, task.columns, resource.index);
  return { rows, ridge: fitRidge(rows, task.trained.penalty), trained: task.trained };
}

/** Scores one article and says why. */
export function score(task: ScoreTask, { resource }: Context): ScoreParts {
  const { reader } = resource;
  reader.open(task.state, task.key);
  const result = reader.score(task.candidate);
  const topics = reader.topicShares(task.sentences);
  const sentences = [...topics].map((points, index) => ({ index, points }));
  sentences.sort((one, other) => Math.abs(other.points) - Math.abs(one.points));
  return {
    score: result,
    support: task.state.rows.count > 0 ? reader.support : 0,
    points: reader.points,
    neighbours: neighboursOf(reader),
    sentences: sentences.slice(0, sentencesShown),
    source: reader.sourceRatings(task.candidate.source),
  };
}

/** Scores articles of the shelf; NaN for those that were changed or taken away meanwhile. */
export function rank(
  task: RankTask,
  { resource }: Context,
): { readonly scores: Float32Array; readonly support: Float32Array } {
  const { reader } = resource;
  const { shelf, list } = task;
  const { dimension } = shelf;
  const scores = new Float32Array(list.rows.length);
  const support = new Float32Array(list.rows.length);
  reader.open(task.state, task.key);
  const vectorOf = (all: Float32Array, row: number) =>
    all.subarray(row * dimension, (row + 1) * dimension);
  for (let from = 0; from < list.rows.length; from += queriesAtOnce) {
    const together = list.rows.subarray(from, from + queriesAtOnce);
    const means = Array.from(together, (row) => vectorOf(shelf.means, row));
    const similarities = reader.similarities(means);
    for (const [place, row] of together.entries()) {
      const at = from + place;
      const stamp = list.stamps[at] as number;
      const publishedAt = shelf.publishedAt[row] as number;
      const candidate = {
        mean: means[place] as Float32Array,
        title: vectorOf(shelf.titles, row),
        source: task.sources[shelf.sources[row] as number] ?? -1,
        length: lengthFeature(shelf.words[row] as number),
        age: ageFeature(Number.isNaN(publishedAt) ? undefined : publishedAt, task.now),
      };
      const found = reader.score(candidate, similarities[place]);
      const isWhole = Atomics.load(shelf.stamps, row) === stamp;
      scores[at] = isWhole ? found : Number.NaN;
      support[at] = reader.support;
    }
  }
  return { scores, support };
}

function neighboursOf(reader: TasteReader): ScoreParts['neighbours'] {
  const found: { row: number; similarity: number; weight: number }[] = [];
  for (let at = 0; at < neighboursUsed; at += 1) {
    const row = reader.nearest.rows[at] as number;
    if (row === noRow) break;
    const similarity = reader.nearest.similarities[at] as number;
    found.push({ row, similarity, weight: reader.word.share(similarity) });
  }
  return found;
}
