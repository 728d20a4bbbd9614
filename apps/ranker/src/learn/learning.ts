import { type Calibration, calibrate, fitCalibration, type Said } from './calibration.ts';
import { profileOf, startScore } from './features.ts';
import { Network, type NetworkShape } from './network.ts';
import { networkInput, type PackedArticles } from './packed-articles.ts';
import { foldCount, growing, noRows, type RatedRows, sharedFloats } from './rated-rows.ts';
import { fitRidge } from './ridge.ts';
import { clampScore } from './score.ts';
import { type Candidate, TasteReader, type TasteState } from './taste-reader.ts';
import { sentencesIn, trainNetwork } from './train-network.ts';
import { type Trained, untrained } from './trained.ts';
import type { CrossValidatedErrors, TrainingKind } from './training.ts';
import { VectorIndex } from './vector-index.ts';

export interface LearningPlan {
  readonly kind: TrainingKind;
  /** How often the network may see all articles, in each fold. */
  readonly epochsMax: number;
  readonly shape: NetworkShape;
  /** What serves now: a quick training keeps its network. */
  readonly before?: Trained | undefined;
}

export interface Learned {
  readonly trained: Trained;
  readonly errors: CrossValidatedErrors;
  readonly epochs: number;
}

/** What is done so far. */
export interface LearningProgress {
  /** From 0 to 1. */
  readonly progress: number;
  readonly epochs: number;
}

/** What each way of scoring said of articles that it had not seen. */
interface Unseen {
  readonly constant: Float64Array;
  readonly neighbours: Float64Array;
  readonly ridges: readonly Float64Array[];
  readonly network: Float64Array;
}

const penalties = [0.3, 1, 3, 10] as const;
const blends = [0, 0.25, 0.5, 0.75, 1] as const;
/** With fewer articles there is nothing to choose by. */
const samplesMin = 10;
/** The network must earn its place: an error lower by this share. */
const gainMin = 0.02;

/** Chooses penalty, blend and calibration by cross-validation, and trains the network if asked. */
export function* learnTaste(
  packed: PackedArticles,
  plan: LearningPlan,
  all: readonly number[] = [...packed.scores.keys()],
): Generator<LearningProgress, Learned> {
  const folds = new Set(all.map((row) => packed.folds[row]));
  const isEnough = all.length >= samplesMin && folds.size > 1;
  if (!isEnough) return { trained: untrained, errors: unknownErrors, epochs: 0 };
  const parts = foldCount + 1;
  let epochs = 0;
  const unseen = emptyUnseen(packed.scores.length);
  for (let fold = 0; fold < foldCount; fold += 1) {
    const rows = all.filter((row) => packed.folds[row] !== fold);
    const asked = all.filter((row) => packed.folds[row] === fold);
    const begun = { progress: fold / parts, epochs };
    yield begun;
    if (asked.length === 0) continue;
    const model = yield* withBreaks(LearnedRows.of(packed, rows), begun);
    yield* withBreaks(model.answer(asked, unseen), begun);
    if (plan.kind === 'quick') continue;
    epochs += yield* networkAnswers(model, plan, asked, unseen.network, { fold, epochs });
  }
  const { trained, errors } = choose(packed, all, unseen);
  const { before } = plan;
  if (plan.kind === 'quick' && before?.network) {
    // Its calibration was fitted to what the two say together, so it is kept as well.
    return { trained: { ...before, penalty: trained.penalty }, errors, epochs };
  }
  if (trained.blend === 0) return { trained, errors, epochs };
  const last = { progress: foldCount / parts, epochs };
  const model = yield* withBreaks(LearnedRows.of(packed, all), last);
  const { parameters, run } = yield* model.train(plan, { fold: foldCount, epochs });
  const { shape } = plan;
  const network = { network: parameters, shape, profile: model.profile };
  return { trained: { ...trained, ...network }, errors, epochs: epochs + run };
}

/** Does the work and gives the same at each of its breaks. */
function* withBreaks<Break, Result>(
  work: Generator<void, Result>,
  given: Break,
): Generator<Break, Result> {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    yield given;
  }
}

function* networkAnswers(
  model: LearnedRows,
  plan: LearningPlan,
  asked: readonly number[],
  answers: Float64Array,
  before: { readonly fold: number; readonly epochs: number },
): Generator<LearningProgress, number> {
  const { parameters, run } = yield* model.train(plan, before);
  const network = model.networkOf(plan.shape, parameters);
  const progress = (before.fold + 1) / (foldCount + 1);
  for (const row of asked) {
    answers[row] = network.predict(networkInput(model.packed, row));
    yield { progress, epochs: before.epochs + run };
  }
  return run;
}

/** Some of the articles, and what can be learned from them alone. */
export class LearnedRows {
  readonly packed: PackedArticles;
  readonly #rows: readonly number[];
  readonly #rated: RatedRows;
  readonly #reader = new TasteReader();

  /** Takes some time, with breaks. */
  static *of(packed: PackedArticles, rows: readonly number[]): Generator<void, LearnedRows> {
    return new LearnedRows(packed, rows, yield* picking(packed, rows));
  }

  private constructor(packed: PackedArticles, rows: readonly number[], rated: RatedRows) {
    this.packed = packed;
    this.#rows = rows;
    this.#rated = rated;
  }

  /** What constant, neighbours and ridge regression with each penalty say of these articles. */
  *answer(asked: readonly number[], answers: Omit<Unseen, 'network'>): Generator<void> {
    for (const [at, penalty] of penalties.entries()) {
      const state = this.state({ ...untrained, penalty });
      this.#reader.open(state, 'these');
      for (const row of asked) {
        yield;
        (answers.ridges[at] as Float64Array)[row] = this.#reader.ridge(candidate(this.packed, row));
        answers.constant[row] = state.ridge.start;
        answers.neighbours[row] = state.ridge.start + this.#reader.word.feature;
      }
    }
  }

  /** The taste that serves with this. */
  state(trained: Trained): TasteState {
    return { rows: this.#rated, ridge: fitRidge(this.#rated, trained.penalty), trained };
  }

  *train(
    plan: LearningPlan,
    { fold, epochs }: { readonly fold: number; readonly epochs: number },
  ): Generator<LearningProgress, { readonly parameters: Float32Array; readonly run: number }> {
    const { shape, epochsMax } = plan;
    const training = trainNetwork(this.packed, {
      ...{ shape, epochsMax, rows: this.#rows, profile: this.profile, seed: fold + 1 },
    });
    for (;;) {
      const step = training.next();
      if (step.done) return { parameters: step.value.parameters, run: step.value.epochs };
      const progress = (fold + step.value / epochsMax) / (foldCount + 1);
      yield { progress, epochs: epochs + step.value };
    }
  }

  /** The network with these numbers, asked by the profile of these articles. */
  networkOf(shape: NetworkShape, parameters: Float32Array): Network {
    const network = new Network(shape, sentencesIn(this.packed));
    network.parameters.set(parameters);
    network.ask(this.profile);
    return network;
  }

  get profile(): Float32Array {
    const { dimension, means, scores } = this.#rated;
    const profile = sharedFloats(dimension);
    profile.set(profileOf(this.#rated, means, startScore(scores)));
    return profile;
  }
}

/** The article as a taste sees it. */
export function candidate(packed: PackedArticles, row: number): Candidate {
  const { dimension } = packed;
  return {
    mean: packed.means.subarray(row * dimension, (row + 1) * dimension),
    title: packed.titles.subarray(row * dimension, (row + 1) * dimension),
    source: packed.sources[row] as number,
    length: packed.lengths[row] as number,
    age: packed.ages[row] as number,
  };
}

function choose(packed: PackedArticles, all: readonly number[], unseen: Unseen) {
  const scoreAt = (row: number) => packed.scores[row] as number;
  const error = (says: (row: number) => number, cost: (off: number) => number) =>
    all.reduce((sum, row) => sum + cost(says(row) - scoreAt(row)), 0) / all.length;
  const square = (off: number) => off * off;
  const said = (by: Float64Array) => (row: number) => by[row] as number;
  const squared = unseen.ridges.map((ridge) => error(said(ridge), square));
  const best = squared.indexOf(Math.min(...squared));
  const ridge = said(unseen.ridges[best] as Float64Array);
  const network = said(unseen.network);
  const mixed = (share: number) => (row: number) =>
    share === 0 ? ridge(row) : (1 - share) * ridge(row) + share * network(row);
  // Without a network its errors are NaN, and nothing is less than that.
  const isBest = (own: number, others: readonly number[]) =>
    others.every((other) => !(other < own));
  const blendErrors = blends.map((share) => error(mixed(share), square));
  const least = blendErrors.findIndex((own) => own >= 0 && isBest(own, blendErrors));
  const isBetter = (blendErrors[least] as number) < (blendErrors[0] as number) * (1 - gainMin);
  const blend = isBetter ? (blends[least] as number) : 0;
  const raw = mixed(blend);
  const samplesOf = (rows: readonly number[]): Said[] =>
    rows.map((row) => ({ raw: raw(row), score: scoreAt(row) }));
  const calibration = fitCalibration(samplesOf(all));
  const trained = { ...untrained, penalty: penalties[best] as number, blend, calibration };
  const fits = Array.from({ length: foldCount }, (_, fold) =>
    fitCalibration(samplesOf(all.filter((row) => packed.folds[row] !== fold))),
  );
  const served = (row: number) =>
    clampScore(calibrate(fits[packed.folds[row] as number] as Calibration, raw(row)));
  const errors: CrossValidatedErrors = {
    constant: error(said(unseen.constant), Math.abs),
    neighbours: error(said(unseen.neighbours), Math.abs),
    ridge: error(ridge, Math.abs),
    network: error(network, Math.abs),
    served: error(served, Math.abs),
  };
  return { trained, errors };
}

function picking(packed: PackedArticles, rows: readonly number[]): Generator<void, RatedRows> {
  const { dimension } = packed;
  const vectors = (all: Float32Array) => {
    const some = new Float32Array(rows.length * dimension);
    for (const [at, row] of rows.entries()) {
      some.set(all.subarray(row * dimension, (row + 1) * dimension), at * dimension);
    }
    return some;
  };
  const floats = (all: Float32Array) => Float32Array.from(rows, (row) => all[row] as number);
  const added = { means: vectors(packed.means), titles: vectors(packed.titles) };
  const columns = {
    scores: floats(packed.scores),
    lengths: floats(packed.lengths),
    ages: floats(packed.ages),
    sources: Uint32Array.from(rows, (row) => packed.sources[row] as number),
    folds: Uint8Array.from(rows, (row) => packed.folds[row] as number),
  };
  return growing(noRows(dimension), added, columns, new VectorIndex());
}

function emptyUnseen(count: number): Unseen {
  const nothing = () => new Float64Array(count).fill(Number.NaN);
  const ridges = penalties.map(nothing);
  return { constant: nothing(), neighbours: nothing(), ridges, network: nothing() };
}

const unknownErrors: CrossValidatedErrors = {
  constant: Number.NaN,
  neighbours: Number.NaN,
  ridge: Number.NaN,
  network: Number.NaN,
  served: Number.NaN,
};
