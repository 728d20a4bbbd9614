import { candidate, LearnedRows, type LearningPlan, learnTaste } from './learning.ts';
import { networkInput, type PackedArticles } from './packed-articles.ts';
import { TasteReader } from './taste-reader.ts';

/** How good one way of scoring is, on articles rated after all that it learned from. */
export interface Quality {
  /** The chance that an article liked more than most stands above one liked less. */
  readonly auc: number;
  /** How good the ten at the top are, from 0 to 1. */
  readonly ndcg10: number;
  /** The correlation of ranks, from -1 to 1. */
  readonly spearman: number;
  /** The mean distance to the reader's score, in points. */
  readonly mae: number;
}

/** What came of an evaluation on a split by time. */
export interface Evaluation {
  readonly trained: number;
  readonly tested: number;
  readonly constant: Quality;
  readonly neighbours: Quality;
  readonly ridge: Quality;
  readonly network: Quality;
  /** As it would be served: blended and calibrated. */
  readonly served: Quality;
}

/** Learns from the older articles and asks for the newer ones; gives its progress meanwhile. */
export function* evaluateTaste(
  packed: PackedArticles,
  plan: Omit<LearningPlan, 'kind'> & { readonly share: number },
): Generator<number, Evaluation> {
  const { ratedAt, scores } = packed;
  const byTime = [...scores.keys()].sort(
    (one, other) => (ratedAt[one] as number) - (ratedAt[other] as number),
  );
  const split = Math.round(byTime.length * (1 - plan.share));
  const [older, newer] = [byTime.slice(0, split), byTime.slice(split)];
  const picking = LearnedRows.of(packed, older);
  let picked = picking.next();
  for (; !picked.done; picked = picking.next()) yield 0;
  const model = picked.value;
  const learning = learnTaste(packed, { ...plan, kind: 'intensive' }, older);
  let step = learning.next();
  for (; !step.done; step = learning.next()) yield step.value.progress * 0.8;
  const { trained } = step.value;
  const whole = model.train({ ...plan, kind: 'intensive' }, { fold: 0, epochs: 0 });
  let run = whole.next();
  for (; !run.done; run = whole.next()) yield 0.8 + run.value.progress * 0.2;
  const network = model.networkOf(plan.shape, run.value.parameters);
  const serving = trained.blend > 0 && trained.network ? trained.network : undefined;
  const served = serving && model.networkOf(plan.shape, serving);
  const reader = new TasteReader();
  const state = model.state(trained);
  reader.open(state, 'older');
  const says = newer.map((row) => {
    const asked = candidate(packed, row);
    const ridge = reader.ridge(asked);
    const neighbours = state.ridge.start + reader.word.feature;
    const input = networkInput(packed, row);
    const all = reader.score(asked, served?.predict(input) ?? Number.NaN);
    const constant = state.ridge.start;
    return { constant, neighbours, ridge, network: network.predict(input), served: all };
  });
  const truth = newer.map((row) => scores[row] as number);
  const of = (name: keyof (typeof says)[number]) =>
    quality(
      says.map((each) => each[name]),
      truth,
    );
  return {
    trained: older.length,
    tested: newer.length,
    constant: of('constant'),
    neighbours: of('neighbours'),
    ridge: of('ridge'),
    network: of('network'),
    served: of('served'),
  };
}

/** Compares what was said with what is true. */
export function quality(says: readonly number[], truth: readonly number[]): Quality {
  const off = says.map((value, at) => Math.abs(value - (truth[at] as number)));
  return {
    auc: auc(says, truth),
    ndcg10: ndcg(says, truth, 10),
    spearman: correlation(ranks(says), ranks(truth)),
    mae: off.reduce((sum, value) => sum + value, 0) / off.length,
  };
}

/** Liked is above the median; a pair that is said to be equal counts half. NaN without pairs. */
function auc(says: readonly number[], truth: readonly number[]): number {
  const sorted = [...truth].sort((one, other) => one - other);
  const middle = sorted[sorted.length >> 1] as number;
  const half = (isLiked: boolean) =>
    says.filter((_, at) => (truth[at] as number) >= middle === isLiked);
  const [liked, others] = [half(true), half(false)];
  let won = 0;
  for (const one of liked) {
    for (const other of others) won += one > other ? 1 : Number(one === other) / 2;
  }
  return won / (liked.length * others.length);
}

/** The gain of the top against that of the best order; what is said to be equal shares its gain. */
function ndcg(says: readonly number[], truth: readonly number[], top: number): number {
  const gain = (by: readonly number[]) => {
    const order = [...by.keys()].sort((one, other) => (by[other] as number) - (by[one] as number));
    let sum = 0;
    for (let place = 0; place < Math.min(top, order.length); place += 1) {
      const said = by[order[place] as number] as number;
      const equals = order.filter((at) => by[at] === said);
      const scores = equals.map((at) => (truth[at] as number) - 1);
      const mean = scores.reduce((total, score) => total + score, 0) / scores.length;
      sum += mean / Math.log2(place + 2);
    }
    return sum;
  };
  const best = gain(truth);
  return best === 0 ? 1 : gain(says) / best;
}

/** The place of each value among all; equal ones share the mean of their places. */
function ranks(values: readonly number[]): number[] {
  const sorted = [...values].sort((one, other) => one - other);
  return values.map((value) => (sorted.indexOf(value) + sorted.lastIndexOf(value)) / 2);
}

/** From -1 to 1; 0 when one side says the same of all. */
function correlation(one: readonly number[], other: readonly number[]): number {
  const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const [a, b] = [mean(one), mean(other)];
  let [both, left, right] = [0, 0, 0];
  for (const [at, value] of one.entries()) {
    const [x, y] = [value - a, (other[at] as number) - b];
    both += x * y;
    left += x * x;
    right += y * y;
  }
  return left === 0 || right === 0 ? 0 : both / Math.sqrt(left * right);
}
