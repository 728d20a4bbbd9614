import { check, checkInteger } from 'spillway/internal';
import { queriesAtOnce, simdModule, simdStep } from './simd-code.ts';

/** Works on `count` rows; the others are addresses and sizes in bytes. */
type DotsKernel = (
  queries: number,
  rows: number,
  count: number,
  bytes: number,
  out: number,
  stride: number,
) => void;

interface Kernels {
  readonly dots: DotsKernel;
  readonly dotsAtOnce: DotsKernel;
}

/** What is used of the engine's own; TypeScript knows it only together with a browser's. */
declare const WebAssembly: {
  readonly Memory: new (size: { initial: number; maximum: number }) => { buffer: ArrayBuffer };
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object;
  readonly Instance: new (module: object, imports: object) => { exports: unknown };
};

let compiled: object | undefined;

/**
 * Memory for vectors, and sums over them four floats at a time: some five times what the same loops
 * reach on plain arrays (2026-11). Vectors given to it must be its own.
 */
export class Arena {
  readonly #memory: { readonly buffer: ArrayBuffer };
  readonly #kernels: Kernels;
  #used = 0;

  /** Has room for so many floats; each array takes up to 15 more. */
  constructor(floats: number) {
    checkInteger('floats', floats, 0, 2 ** 29);
    const pages = Math.ceil((floats * 4) / 65_536) + 1;
    this.#memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    compiled ??= new WebAssembly.Module(simdModule());
    const imports = { arena: { memory: this.#memory } };
    this.#kernels = new WebAssembly.Instance(compiled, imports).exports as Kernels;
  }

  /** An array of zeros. */
  take(length: number): Float32Array<ArrayBuffer> {
    const at = this.#used;
    this.#used += Math.ceil(length / simdStep) * simdStep * 4;
    const hasRoom = this.#used <= this.#memory.buffer.byteLength;
    check(hasRoom, 'length', 'what the arena has room for', length);
    return new Float32Array(this.#memory.buffer, at, length);
  }

  /**
   * The product of each query and each row of `width` numbers: those of the first query with all
   * rows, then those of the next. What two vectors give does not depend on the others.
   */
  products(queries: Float32Array, rows: Float32Array, width: number, out: Float32Array): void {
    const bytes = this.#bytesOf(width);
    const [count, end] = [rows.length / width, queries.byteOffset + queries.byteLength];
    let [query, place] = [queries.byteOffset, out.byteOffset];
    while (query < end) {
      const isMany = query + queriesAtOnce * bytes <= end;
      const kernel = isMany ? this.#kernels.dotsAtOnce : this.#kernels.dots;
      kernel(query, rows.byteOffset, count, bytes, place, count * 4);
      query += isMany ? queriesAtOnce * bytes : bytes;
      place += isMany ? queriesAtOnce * count * 4 : count * 4;
    }
  }

  #bytesOf(width: number): number {
    const isWhole = width > 0 && width % simdStep === 0;
    check(isWhole, 'vector', `one of a multiple of ${simdStep} numbers`, width);
    return width * 4;
  }
}

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
