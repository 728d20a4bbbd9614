import { Arena } from './arena.ts';

/** Vectors kept where the product of all of them with another is made fast. */
export class VectorIndex {
  #arena: Arena | undefined;
  #capacity = 0;
  #query = new Float32Array(0);
  #vectors = new Float32Array(0);
  #products = new Float32Array(0);
  #count = 0;

  /** Takes a copy of these instead of those it had; room is kept for half as many more. */
  load(vectors: Float32Array, dimension: number): void {
    this.#count = vectors.length / dimension;
    if (
      this.#arena === undefined ||
      this.#count > this.#capacity ||
      this.#query.length !== dimension
    ) {
      this.#capacity = Math.ceil(1.5 * this.#count) + 16;
      this.#arena = new Arena((this.#capacity + 1) * dimension + this.#capacity + 64);
      this.#query = this.#arena.take(dimension);
      this.#vectors = this.#arena.take(this.#capacity * dimension);
      this.#products = this.#arena.take(this.#capacity);
    }
    this.#vectors.set(vectors);
  }

  /** The product of the query and each vector; good until the next call. */
  products(query: Float32Array): Float32Array {
    const products = this.#products.subarray(0, this.#count);
    this.#query.set(query);
    if (this.#count > 0) this.#arena?.dots(this.#query, this.#vectors, products);
    return products;
  }
}
