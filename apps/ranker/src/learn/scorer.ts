import { type ArticleText, dot, type EmbeddedDocument, meanOf } from './document.ts';
import {
  ageFeature,
  lengthFeature,
  neighbourFeature,
  neighbourWeight,
  similarityUnknown,
} from './features.ts';
import { type Model, sideCount, sideNames, sourceFeature, wordValues } from './model.ts';
import {
  type ArticleColumns,
  eachSimilarity,
  emptyColumns,
  emptyNeighbours,
  insertNeighbour,
  type Neighbours,
  noRow,
  type RatedRows,
  rowMean,
  setRow,
} from './rows.ts';
import { clampScore, type Explanation, type Neighbour, type Reason, type Score } from './score.ts';
import { sentencesOf } from './sentences.ts';
import { wordsKept, wordsOf } from './words.ts';

/** One version of a reader's taste; all large numbers are in shared memory. */
export interface TasteState {
  readonly rows: RatedRows;
  readonly model: Model;
}

/** The parts of a score, in the order in which they are added up. */
const reasons: readonly Reason[] = [
  ...(['start', 'topic', 'words'] as const),
  ...sideNames,
  'limits',
];
const sideAt = 3;

/** A score with its reasons as a thread gives it, by the numbers of rated rows. */
export interface ScoreParts
  extends Omit<Explanation, 'neighbours'>,
    Pick<Score, 'score' | 'support' | 'width'> {
  readonly neighbours: readonly (Pick<Neighbour, 'similarity' | 'weight'> & {
    readonly row: number;
  })[];
}

const sentencesShown = 4;
const wordsShown = 8;

/** Compares a vector with the rated rows from `from` on, and keeps the nearest at `place`. */
export function findNearest(
  rows: RatedRows,
  mean: Float32Array,
  list: Neighbours,
  place: number,
  from = 0,
): void {
  const { count, scores } = rows;
  eachSimilarity(rows, mean, from, count, (row, similarity) => {
    if (Number.isNaN(scores[row])) return;
    insertNeighbour(list, place, row, similarity);
  });
}

/** Scores articles by one taste, one after another. */
export class Scorer {
  /** The points of the last article, by reason. */
  readonly points: Float64Array = new Float64Array(reasons.length);
  /** The last article's score before the limits. */
  raw = 0;
  /** The cosine of the last article to the nearest rated one, from 0 to 1. */
  support = 0;
  readonly #state: TasteState;
  readonly #values = new Float32Array(wordsKept);
  readonly #shift: number;
  readonly #unknown: number;

  constructor(state: TasteState) {
    this.#state = state;
    this.#shift = dot(state.model.topic, state.model.common.centre);
    this.#unknown = similarityUnknown(state.model.common);
  }

  /** The error, in points, within which 8 of 10 ratings of such articles are. */
  get width(): number {
    return this.#state.model.choice.width * spread(this.support);
  }

  /**
   * The score of the article in a row: the sum of its points, within 1 and 10. The list has its
   * nearest rated articles; `source` is -1 if no article of that source was rated.
   */
  score(
    columns: ArticleColumns,
    row: number,
    list: Neighbours,
    about: { readonly source: number; readonly now: number; readonly place?: number },
  ): number {
    const { points } = this;
    const { model, rows } = this.#state;
    const { source, now, place = row } = about;
    const mean = rowMean(columns, row);
    const isEmpty = mean[0] === 0 && mean.every((value) => value === 0);
    points[0] = model.start;
    // An article without text has no topic, which adds no points.
    points[1] = isEmpty ? 0 : dot(model.topic, mean) - this.#shift;
    points[2] = this.#wordPoints(columns, row);
    const known = { start: model.start, unknown: this.#unknown };
    const { feature, support } = neighbourFeature(list, place, rows.scores, known);
    this.support = support;
    const side = [
      sourceFeature(model.sources[2 * source] ?? 0, model.sources[2 * source + 1] ?? 0),
      feature,
      lengthFeature(columns.lengths[row] as number),
      ageFeature(columns.publishedAt[row] as number, now),
    ];
    for (let at = 0; at < sideCount; at += 1) {
      points[sideAt + at] = (side[at] as number) * (model.side[at] as number);
    }
    this.raw = model.start;
    for (let at = 1; at < sideAt + sideCount; at += 1) {
      // The slope, which is small while ratings are few, scales all reasons alike.
      points[at] = model.slope * (points[at] as number);
      this.raw += points[at] as number;
    }
    const score = clampScore(this.raw);
    points[sideAt + sideCount] = score - this.raw;
    return score;
  }

  /** The points of the last article's n-grams by bucket, those that count most first. */
  words(columns: ArticleColumns, row: number): ScoreParts['words'] {
    const from = row * wordsKept;
    const { words, slope } = this.#state.model;
    const all = [...this.#values].flatMap((value, at) => {
      const bucket = columns.keys[from + at] as number;
      const points = slope * value * (words[bucket] as number);
      return points === 0 ? [] : { bucket, points };
    });
    return all.sort(byWeight).slice(0, wordsShown);
  }

  #wordPoints(columns: ArticleColumns, row: number): number {
    const { common, words } = this.#state.model;
    wordValues(columns, row, common, this.#values);
    const from = row * wordsKept;
    let sum = 0;
    for (let at = 0; at < wordsKept; at += 1) {
      const value = this.#values[at] as number;
      if (value !== 0) sum += value * (words[columns.keys[from + at] as number] as number);
    }
    return sum;
  }
}

/** The factor on `width`: 1.15 for an article like no rated one, 0.8 for a copy of one. */
export function spread(support: number): number {
  return 1.15 - 0.35 * support;
}

function byWeight(one: { readonly points: number }, other: { readonly points: number }): number {
  return Math.abs(other.points) - Math.abs(one.points);
}

/** An article to be explained: its vectors, and its text to see what each sentence says. */
export interface Explained {
  readonly document: EmbeddedDocument;
  readonly article: ArticleText;
  readonly publishedAt: number | undefined;
  readonly source: number;
  readonly now: number;
}

/** Scores one article and says why: a sentence has the points that its deletion would take. */
export function explain(state: TasteState, asked: Explained): ScoreParts {
  const { document, article, source, now } = asked;
  const { rows, model } = state;
  const scorer = new Scorer(state);
  const columns = emptyColumns(1, rows.dimension);
  const scoreOf = (changed: EmbeddedDocument, list: Neighbours) => {
    setRow(columns, 0, { document: changed, publishedAt: asked.publishedAt }, 0);
    findNearest(rows, changed.mean, list, 0);
    return scorer.score(columns, 0, list, { source, now });
  };
  const texts = sentencesOf(article.text, document.sentences.length / rows.dimension);
  const without = texts.map((sentence, index) => {
    const words = wordsOf({ ...article, text: article.text.replace(sentence, ' ') });
    const mean = meanOf(document.title, document.sentences, index);
    scoreOf({ ...document, mean, words }, emptyNeighbours(1));
    return scorer.raw;
  });
  const list = emptyNeighbours(1);
  const score = scoreOf(document, list);
  const sentences = without.map((raw, index) => ({ index, points: scorer.raw - raw }));
  const nearest = [...list.nearest].flatMap((row, at) =>
    row === noRow ? [] : { row, similarity: list.similarities[at] as number },
  );
  const unknown = similarityUnknown(model.common);
  const weightOf = (similarity: number) => neighbourWeight(similarity, unknown);
  const total = nearest.reduce((sum, { similarity }) => sum + weightOf(similarity), 1);
  const weight = model.sources[2 * source + 1] ?? 0;
  const above = weight > 0 ? (model.sources[2 * source] as number) / weight : 0;
  const ratings = rows.scores.reduce(
    (sum, one, row) => sum + Number(rows.sources[row] === source && !Number.isNaN(one)),
    0,
  );
  return {
    score,
    support: scorer.support,
    width: scorer.width,
    contributions: reasons.map((reason, at) => ({ reason, points: scorer.points[at] as number })),
    words: scorer.words(columns, 0),
    sentences: sentences.sort(byWeight).slice(0, sentencesShown),
    neighbours: nearest.map(({ row, similarity }) => {
      return { row, similarity, weight: weightOf(similarity) / total };
    }),
    source: { score: model.start + above, ratings },
  };
}
