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
  /** What each row is compared with the query as. */
  readonly #keys: Float32Array;
  readonly #key: Float32Array;
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
    this.#key = arena.take(this.#size);
    this.#keys = arena.take(rowsMax * this.#size);
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
    this.#arena.dots(profile, queryMap, this.#query);
    this.#arena.addTo(this.#query, queryBias, 1);
  }

  /** Passes on what the query has learned since it was made. */
  learnQuery(profile: Float32Array | undefined): void {
    const { queryMap, queryBias, query } = this.#gradients;
    const gradient = this.#queryGradient;
    this.#arena.addTo(profile === undefined ? query : queryBias, gradient, 1);
    if (profile !== undefined) this.#addProduct(queryMap, gradient, profile);
  }

  /** Adds to `pooled` the rows from one number up to another, each times its share. */
  forward(rows: Float32Array, from: number, to: number, pooled: Float32Array): void {
    const shares = this.shares;
    let most = -Infinity;
    for (let row = from; row < to; row += 1) {
      const key = this.#keyOf(row);
      this.#arena.dots(this.#rowOf(rows, row), this.#numbers.map, key);
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
    for (let row = from; row < to; row += 1) {
      shares[row] = (shares[row] as number) / sum;
      this.#arena.addTo(pooled, this.#rowOf(rows, row), shares[row] as number);
    }
  }

  /** Adds the gradients of what `forward` did; those of the rows too, if they are wanted. */
  backward(
    rows: Float32Array,
    from: number,
    to: number,
    pooledGradient: Float32Array,
    rowGradients: Float32Array | undefined,
  ): void {
    const product = this.#key.subarray(0, 1);
    const gains = new Float64Array(to - from);
    let mean = 0;
    for (let row = from; row < to; row += 1) {
      this.#arena.dots(this.#rowOf(rows, row), pooledGradient, product);
      gains[row - from] = product[0] as number;
      mean += (this.shares[row] as number) * (product[0] as number);
    }
    for (let row = from; row < to; row += 1) {
      const share = this.shares[row] as number;
      const answerGradient = share * ((gains[row - from] as number) - mean);
      const key = this.#keyOf(row);
      this.#arena.addTo(this.#queryGradient, key, answerGradient);
      for (let at = 0; at < this.#size; at += 1) {
        const value = key[at] as number;
        this.#key[at] = answerGradient * (this.#query[at] as number) * (1 - value * value);
      }
      this.#arena.addTo(this.#gradients.bias, this.#key, 1);
      this.#addProduct(this.#gradients.map, this.#key, this.#rowOf(rows, row));
      if (rowGradients === undefined) continue;
      const target = this.#rowOf(rowGradients, row);
      this.#arena.addTo(target, pooledGradient, share);
      for (let at = 0; at < this.#size; at += 1) {
        this.#arena.addTo(target, this.#rowOf(this.#numbers.map, at), this.#key[at] as number);
      }
    }
  }

  /** Adds the product of each number of a column with a vector to the rows of a matrix. */
  #addProduct(matrix: Float32Array, column: Float32Array, vector: Float32Array): void {
    for (let at = 0; at < this.#size; at += 1) {
      this.#arena.addTo(this.#rowOf(matrix, at), vector, column[at] as number);
    }
  }

  #rowOf(matrix: Float32Array, row: number): Float32Array {
    return matrix.subarray(row * this.#dimension, (row + 1) * this.#dimension);
  }

  #keyOf(row: number): Float32Array {
    return this.#keys.subarray(row * this.#size, (row + 1) * this.#size);
  }
}
