import type { Arena } from './arena.ts';

/** The numbers of one attention level, or of their gradients. */
export interface AttentionNumbers {
  /** From a row to what is compared with the query. */
  readonly map: Float32Array;
  readonly bias: Float32Array;
  /** From the reader's profile to the query. */
  readonly queryMap: Float32Array;
  readonly queryBias: Float32Array;
  /** The query when there is no profile. */
  readonly query: Float32Array;
}

/** Pools rows into one: each counts as much as it answers the query. Remembers for the way back. */
export class Attention {
  readonly shares: Float32Array;
  readonly #arena: Arena;
  readonly #numbers: AttentionNumbers;
  readonly #gradients: AttentionNumbers;
  readonly #query: Float32Array;
  readonly #queryGradient: Float32Array;
  /** What each row is compared with the query as; on the way back, the gradients of that. */
  readonly #keys: Float32Array;
  /** The gradients of the answers that the rows gave. */
  readonly #gains: Float32Array;
  readonly #size: number;
  readonly #dimension: number;

  constructor(
    arena: Arena,
    numbers: AttentionNumbers,
    gradients: AttentionNumbers,
    rowsMax: number,
  ) {
    this.#arena = arena;
    this.#numbers = numbers;
    this.#gradients = gradients;
    this.#size = numbers.bias.length;
    this.#dimension = numbers.map.length / this.#size;
    this.#query = arena.take(this.#size);
    this.#queryGradient = arena.take(this.#size);
    this.#keys = arena.take(rowsMax * this.#size);
    this.#gains = arena.take(rowsMax);
    this.shares = arena.take(rowsMax);
  }

  /** Makes the query of a reader; it stays until the next. */
  ask(profile: Float32Array | undefined): void {
    const { queryMap, queryBias, query } = this.#numbers;
    this.#queryGradient.fill(0);
    if (profile === undefined) {
      this.#query.set(query);
      return;
    }
    this.#arena.products(profile, queryMap, this.#dimension, this.#query);
    this.#arena.addTo(this.#query, queryBias, 1);
  }

  /** Passes on what the query has learned since it was made. */
  learnQuery(profile: Float32Array | undefined): void {
    const { queryMap, queryBias, query } = this.#gradients;
    const gradient = this.#queryGradient;
    this.#arena.addTo(profile === undefined ? query : queryBias, gradient, 1);
    if (profile === undefined) return;
    this.#arena.addProducts(queryMap, profile, this.#dimension, gradient);
  }

  /** Adds to `pooled` the rows from one number up to another, each times its share. */
  forward(rows: Float32Array, from: number, to: number, pooled: Float32Array): void {
    const { shares } = this;
    const asked = this.#some(rows, from, to);
    const keys = this.#keys.subarray(from * this.#size, to * this.#size);
    this.#arena.products(asked, this.#numbers.map, this.#dimension, keys);
    let most = -Infinity;
    for (let row = from; row < to; row += 1) {
      const key = this.#keyOf(row);
      let answer = 0;
      for (let at = 0; at < this.#size; at += 1) {
        const value = Math.tanh((key[at] as number) + (this.#numbers.bias[at] as number));
        key[at] = value;
        answer += value * (this.#query[at] as number);
      }
      shares[row] = answer;
      most = Math.max(most, answer);
    }
    let sum = 0;
    for (let row = from; row < to; row += 1) {
      shares[row] = Math.exp((shares[row] as number) - most);
      sum += shares[row] as number;
    }
    for (let row = from; row < to; row += 1) shares[row] = (shares[row] as number) / sum;
    this.#arena.addProducts(pooled, asked, this.#dimension, shares.subarray(from, to));
  }

  /** Adds the gradients of what `forward` did; those of the rows too, if they are wanted. */
  backward(
    rows: Float32Array,
    from: number,
    to: number,
    pooledGradient: Float32Array,
    rowGradients: Float32Array | undefined,
  ): void {
    const { shares } = this;
    const width = this.#dimension;
    const asked = this.#some(rows, from, to);
    const gains = this.#gains.subarray(from, to);
    this.#arena.products(pooledGradient, asked, width, gains);
    const mean = gains.reduce((sum, gain, at) => sum + gain * (shares[from + at] as number), 0);
    for (const [at, gain] of gains.entries()) {
      gains[at] = (shares[from + at] as number) * (gain - mean);
    }
    const keys = this.#keys.subarray(from * this.#size, to * this.#size);
    this.#arena.addProducts(this.#queryGradient, keys, this.#size, gains);
    for (let row = from; row < to; row += 1) {
      const key = this.#keyOf(row);
      const answerGradient = gains[row - from] as number;
      for (let at = 0; at < this.#size; at += 1) {
        const value = key[at] as number;
        key[at] = answerGradient * (this.#query[at] as number) * (1 - value * value);
      }
      this.#arena.addTo(this.#gradients.bias, key, 1);
      if (rowGradients === undefined) continue;
      const target = this.#some(rowGradients, row, row + 1);
      this.#arena.addTo(target, pooledGradient, shares[row] as number);
      this.#arena.addProducts(target, this.#numbers.map, width, key);
    }
    this.#arena.addProducts(this.#gradients.map, asked, width, keys);
  }

  /** The rows from one number up to another. */
  #some(rows: Float32Array, from: number, to: number): Float32Array {
    return rows.subarray(from * this.#dimension, to * this.#dimension);
  }

  #keyOf(row: number): Float32Array {
    return this.#keys.subarray(row * this.#size, (row + 1) * this.#size);
  }
}
