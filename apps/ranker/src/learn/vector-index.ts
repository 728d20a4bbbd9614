import { Arena } from './arena.ts';
import { queriesAtOnce } from './simd-code.ts';

/** Vectors kept where the product of all of them with others is made fast. */
export class VectorIndex {
  #arena: Arena | undefined;
  #capacity = 0;
  #dimension = 0;
  #queries = new Float32Array(0);
  #vectors = new Float32Array(0);
  #products = new Float32Array(0);
  #count = 0;

  /** Takes a copy of these instead of those it had; room is kept for half as many more. */
  load(vectors: Float32Array, dimension: number): void {
    this.#count = vectors.length / dimension;
    if (
      this.#arena === undefined ||
      this.#count > this.#capacity ||
      this.#dimension !== dimension
    ) {
      this.#capacity = Math.ceil(1.5 * this.#count) + 16;
      this.#dimension = dimension;
      const [queries, products] = [queriesAtOnce * dimension, queriesAtOnce * this.#capacity];
      this.#arena = new Arena(this.#capacity * dimension + queries + products + 64);
      this.#queries = this.#arena.take(queries);
      this.#vectors = this.#arena.take(this.#capacity * dimension);
      this.#products = this.#arena.take(products);
    }
    this.#vectors.set(vectors);
  }

  /** The product of the query and each vector; good until the next call. */
  products(query: Float32Array): Float32Array {
    return this.productsOfAll([query])[0] as Float32Array;
  }

  /** The same of several at once, at most {@link queriesAtOnce}: it takes much less time. */
  productsOfAll(queries: readonly Float32Array[]): Float32Array[] {
    const [width, count] = [this.#dimension, this.#count];
    for (const [at, query] of queries.entries()) this.#queries.set(query, at * width);
    const asked = this.#queries.subarray(0, queries.length * width);
    const vectors = this.#vectors.subarray(0, count * width);
    this.#arena?.products(asked, vectors, width, this.#products);
    return queries.map((_, at) => this.#products.subarray(at * count, (at + 1) * count));
  }
}
