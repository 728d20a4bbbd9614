import { check, checkInteger } from 'spillway/internal';
import { type Article, isSameModel, type ModelName } from './document.ts';
import {
  type ArticleColumns,
  type Common,
  CommonCounts,
  emptyColumns,
  numberOf,
  setRow,
} from './rows.ts';

export interface ArticleTableOptions {
  /** The model whose vectors it keeps. */
  readonly model: ModelName;
  /** Most articles that are kept; one more removes the oldest. From 1. @default 100_000 */
  readonly sizeMax?: number | undefined;
}

/** The articles in shared memory. A row's stamp is odd while it is written. */
export interface TableRows extends ArticleColumns {
  readonly size: number;
  readonly stamps: Int32Array;
}

const sizeStart = 1_024;

/** Stored articles that are scored again and again: their vectors, without their sentences. */
export class ArticleTable {
  readonly model: ModelName;
  readonly #sizeMax: number;
  readonly #rowOf = new Map<string, number>();
  readonly #sources = new Map<string, number>();
  readonly #counts: CommonCounts;
  #rows: TableRows;
  #free: number[] = [];
  #common: Common | undefined;

  constructor(options: ArticleTableOptions) {
    const { model, sizeMax = 100_000 } = options;
    checkInteger('sizeMax', sizeMax, 1, 1_000_000);
    this.model = model;
    this.#sizeMax = sizeMax;
    this.#counts = new CommonCounts(model.dimension);
    this.#rows = this.#allocate(Math.min(sizeStart, sizeMax));
    this.#addFree(0);
  }

  get size(): number {
    return this.#rowOf.size;
  }

  /** The present rows; they move when the table grows. */
  get rows(): TableRows {
    return this.#rows;
  }

  /** The number of each source. */
  get sources(): ReadonlyMap<string, number> {
    return this.#sources;
  }

  /** The statistics of all articles; computed again when a quarter of them has changed. */
  get common(): Common {
    const { count } = this.#counts;
    const isOld = Math.abs(count - (this.#common?.count ?? 0)) > (this.#common?.count ?? 0) / 4;
    if (this.#common === undefined || isOld) this.#common = this.#counts.snapshot();
    return this.#common;
  }

  /** Adds the article, or replaces it. */
  put(article: Article): void {
    const isKnown = isSameModel(article.document.model, this.model);
    check(isKnown, 'document', 'made by the model of the table', article.document.model);
    this.delete(article.id);
    if (this.#free.length === 0) this.#makeRoom();
    const row = this.#free.pop() as number;
    Atomics.add(this.#rows.stamps, row, 1);
    setRow(this.#rows, row, article, numberOf(this.#sources, article.source));
    Atomics.add(this.#rows.stamps, row, 1);
    this.#counts.add(this.#rows, row);
    this.#rowOf.set(article.id, row);
  }

  delete(id: string): void {
    const row = this.#rowOf.get(id);
    if (row === undefined) return;
    this.#counts.add(this.#rows, row, -1);
    Atomics.add(this.#rows.stamps, row, 2);
    this.#rowOf.delete(id);
    this.#free.push(row);
  }

  has(id: string): boolean {
    return this.#rowOf.has(id);
  }

  /** The rows of the articles that are here, with their stamps: a changed stamp is a change. */
  find(ids: readonly string[]): {
    readonly ids: readonly string[];
    readonly rows: Uint32Array;
    readonly stamps: Int32Array;
  } {
    const found = ids.filter((id) => this.#rowOf.has(id));
    const rows = Uint32Array.from(found, (id) => this.#rowOf.get(id) as number);
    const stamps = Int32Array.from(rows, (row) => this.#rows.stamps[row] as number);
    return { ids: found, rows, stamps };
  }

  /** The vector of an article in place, good until the article changes. */
  mean(id: string): Float32Array | undefined {
    const row = this.#rowOf.get(id);
    const { dimension, means } = this.#rows;
    return row === undefined ? undefined : means.subarray(row * dimension, (row + 1) * dimension);
  }

  #makeRoom(): void {
    const before = this.#rows;
    if (before.size >= this.#sizeMax) {
      const [oldest = ''] = this.#rowOf.keys();
      this.delete(oldest);
      return;
    }
    this.#rows = this.#allocate(Math.min(this.#sizeMax, 2 * before.size));
    for (const name of ['means', 'keys', 'counts', 'lengths', 'publishedAt', 'sources', 'stamps']) {
      const column = name as Exclude<keyof TableRows, 'size' | 'dimension'>;
      this.#rows[column].set(before[column] as never);
    }
    this.#addFree(before.size);
  }

  #allocate(size: number): TableRows {
    const columns = emptyColumns(size, this.model.dimension);
    return { ...columns, size, stamps: new Int32Array(new SharedArrayBuffer(4 * size)) };
  }

  #addFree(from: number): void {
    for (let row = this.#rows.size - 1; row >= from; row -= 1) this.#free.push(row);
  }
}
