import {
  featureCount,
  featurePenalties,
  featureWeights,
  profileOf,
  rowOf,
  startScore,
  trainingFeatures,
} from './features.ts';
import { type RatedRows, sharedFloats } from './rated-rows.ts';
import { simdStep } from './simd-code.ts';
import { Arena } from './vector-index.ts';

/** A reader's linear model: the score is the start and what each feature adds. */
export interface Ridge {
  readonly start: number;
  /** The mean of all rated vectors: topics are seen from here. */
  readonly centre: Float32Array;
  /** What each number of an article's vector is worth. */
  readonly topic: Float32Array;
  /** What each feature is worth. */
  readonly weights: Float32Array;
  readonly profile: Float32Array;
  readonly titleProfile: Float32Array;
  /** For each source the sum of its scores, then how many there are. */
  readonly sources: Float32Array;
}

/**
 * The weights with the least squared error, where leaving what was believed before costs: `penalty`
 * for each point of the topic, and for each feature its own. The equations have 390 rows whatever
 * the number of ratings, and the largest part of them, the sum of products, is kept up to date.
 */
export function fitRidge(rows: RatedRows, penalty: number): Ridge {
  const { dimension, count } = rows;
  const start = startScore(rows.scores);
  const centre = sharedFloats(dimension);
  for (let at = 0; at < rows.means.length; at += 1) {
    const column = at % dimension;
    centre[column] = (centre[column] as number) + (rows.means[at] as number) / count;
  }
  const features = trainingFeatures(rows, start);
  const { matrix, right } = normalEquations(rows, features, { start, centre, penalty });
  const solution = solverOf(dimension + featureCount).solve(matrix, right);
  const weights = sharedFloats(featureCount);
  weights.set(
    featureWeights.map((before, at) => {
      const learned = before + (solution[dimension + at] as number);
      // With two ratings each row's only neighbour has the other score, so the weight of neighbours
      // would turn negative: being like a liked article must never lower a score.
      return before > 0 ? Math.max(0, learned) : learned;
    }),
  );
  const topic = sharedFloats(dimension);
  topic.set(solution.subarray(0, dimension));
  const profile = share(profileOf(rows, rows.means, start));
  const titleProfile = share(profileOf(rows, rows.titles, start));
  return { start, centre, topic, weights, profile, titleProfile, sources: sourcesOf(rows) };
}

let solver: { readonly size: number; readonly solver: SymmetricSolver } | undefined;

/** Its memory is used again: a thread has vectors of one size only. */
function solverOf(size: number): SymmetricSolver {
  if (solver?.size !== size) solver = { size, solver: new SymmetricSolver(size) };
  return solver.solver;
}

function normalEquations(
  rows: RatedRows,
  features: Float64Array,
  about: { readonly start: number; readonly centre: Float32Array; readonly penalty: number },
) {
  const { dimension, count, moment } = rows;
  const { start, centre, penalty } = about;
  const size = dimension + featureCount;
  const matrix = new Float64Array(size * size);
  const right = new Float64Array(size);
  for (let row = 0; row < dimension; row += 1) {
    const shift = count * (centre[row] as number);
    for (let at = 0; at <= row; at += 1) {
      const product = moment[row * dimension + at] as number;
      matrix[row * size + at] = product - shift * (centre[at] as number);
    }
    matrix[row * size + row] = (matrix[row * size + row] as number) + penalty;
  }
  const before = (from: number) =>
    featureWeights.reduce((sum, weight, at) => sum + weight * (features[from + at] as number), 0);
  // The row as the equations see it: what sets its vector apart, then its features.
  const apart = new Float64Array(size);
  const values = apart.subarray(dimension);
  for (let row = 0; row < count; row += 1) {
    const from = row * featureCount;
    values.set(features.subarray(from, from + featureCount));
    const rest = (rows.scores[row] as number) - start - before(from);
    const mean = rowOf(rows.means, row, dimension);
    for (let at = 0; at < dimension; at += 1) {
      apart[at] = (mean[at] as number) - (centre[at] as number);
      right[at] = (right[at] as number) + (apart[at] as number) * rest;
    }
    for (let one = 0; one < featureCount; one += 1) {
      const line = (dimension + one) * size;
      const value = values[one] as number;
      right[dimension + one] = (right[dimension + one] as number) + value * rest;
      for (let at = 0; at < size; at += 1) {
        matrix[line + at] = (matrix[line + at] as number) + value * (apart[at] as number);
      }
    }
  }
  for (const [one, own] of featurePenalties.entries()) {
    const place = (dimension + one) * (size + 1);
    matrix[place] = (matrix[place] as number) + own;
  }
  return { matrix, right };
}

function sourcesOf(rows: RatedRows): Float32Array {
  const known = rows.sources.reduce((most, source) => Math.max(most, source + 1), 0);
  const sums = sharedFloats(2 * known);
  for (const [row, source] of rows.sources.entries()) {
    sums[2 * source] = (sums[2 * source] as number) + (rows.scores[row] as number);
    sums[2 * source + 1] = (sums[2 * source + 1] as number) + 1;
  }
  return sums;
}

function share(vector: Float32Array): Float32Array {
  const shared = sharedFloats(vector.length);
  shared.set(vector);
  return shared;
}

/** It is done when so little of the right side is left: a ten-thousandth of a point of score. */
const tolerance = 1e-6;
const roundsMax = 1_000;

/**
 * Solves `matrix` x = `right` for symmetric positive definite matrices of one size, of which the
 * lower half is given row by row. By conjugate gradients: what ridge regression asks is so well
 * conditioned that some 60 products do, a twentieth of what a factorisation takes (2026-11).
 */
export class SymmetricSolver {
  readonly #size: number;
  readonly #width: number;
  readonly #arena: Arena;
  readonly #matrix: Float32Array;
  readonly #direction: Float32Array;
  readonly #product: Float32Array;

  constructor(size: number) {
    this.#size = size;
    this.#width = Math.ceil(size / simdStep) * simdStep;
    this.#arena = new Arena((size + 2) * (this.#width + simdStep));
    this.#matrix = this.#arena.take(size * this.#width);
    this.#direction = this.#arena.take(this.#width);
    this.#product = this.#arena.take(size);
  }

  solve(matrix: Float64Array, right: Float64Array): Float64Array {
    this.#load(matrix);
    const size = this.#size;
    const solution = new Float64Array(size);
    const rest = right.slice();
    // Features have scales of their own; measured in each one's own scale they are alike.
    const scaled = rest.map((value, at) => value / (matrix[at * (size + 1)] as number));
    this.#direction.set(scaled);
    let left = product(rest, scaled);
    const enough = left * tolerance * tolerance;
    for (let round = 0; round < roundsMax && left > enough; round += 1) {
      this.#arena.products(this.#direction, this.#matrix, this.#width, this.#product);
      const step = left / product(this.#direction, this.#product);
      for (let at = 0; at < size; at += 1) {
        solution[at] = (solution[at] as number) + step * (this.#direction[at] as number);
        rest[at] = (rest[at] as number) - step * (this.#product[at] as number);
        scaled[at] = (rest[at] as number) / (matrix[at * (size + 1)] as number);
      }
      const before = left;
      left = product(rest, scaled);
      for (let at = 0; at < size; at += 1) {
        this.#direction[at] =
          (scaled[at] as number) + (left / before) * (this.#direction[at] as number);
      }
    }
    return solution;
  }

  #load(matrix: Float64Array): void {
    for (let row = 0; row < this.#size; row += 1) {
      for (let at = 0; at <= row; at += 1) {
        const value = matrix[row * this.#size + at] as number;
        this.#matrix[row * this.#width + at] = value;
        this.#matrix[at * this.#width + row] = value;
      }
    }
  }
}

function product(one: Float32Array | Float64Array, other: Float32Array | Float64Array): number {
  let sum = 0;
  for (let at = 0; at < other.length; at += 1) sum += (one[at] as number) * (other[at] as number);
  return sum;
}
