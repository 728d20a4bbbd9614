import { check, checkInteger } from 'spillway/internal';
import { type Article, isSameModel, type ModelName } from './document.ts';
import { sharedFloats } from './rated-rows.ts';

export interface VectorTableOptions {
  /** Whose vectors it keeps. */
  readonly model: ModelName;
  /** How many articles it keeps; for one more the oldest goes. From 1. @default 20000 */
  readonly sizeMax?: number | undefined;
}

/** The articles of a shelf in shared memory. A row's stamp is odd while it is written. */
export interface VectorTableRows {
  readonly dimension: number;
  readonly means: Float32Array;
  readonly titles: Float32Array;
  readonly words: Float32Array;
  /** Milliseconds since 1970, or NaN. */
  readonly publishedAt: Float64Array;
  readonly sources: Uint32Array;
  readonly stamps: Int32Array;
}

/** Articles that were on the shelf at one moment. */
export interface VectorTableList {
  readonly ids: readonly string[];
  readonly rows: Uint32Array;
  /** A row whose stamp is another one now is another article. */
  readonly stamps: Int32Array;
}

/** Stored articles that are scored again and again: their vectors, without their sentences. */
export class VectorTable {
  readonly model: ModelName;
  readonly rows: VectorTableRows;
  readonly #sizeMax: number;
  readonly #rowOf = new Map<string, number>();
  readonly #free: number[];
  readonly #sources = new Map<string, number>();

  constructor(options: VectorTableOptions) {
    const { model, sizeMax = 20_000 } = options;
    checkInteger('sizeMax', sizeMax, 1, 1_000_000);
    this.model = model;
    this.#sizeMax = sizeMax;
    this.#free = Array.from({ length: sizeMax }, (_, at) => sizeMax - 1 - at);
    this.rows = {
      dimension: model.dimension,
      means: sharedFloats(sizeMax * model.dimension),
      titles: sharedFloats(sizeMax * model.dimension),
      words: sharedFloats(sizeMax),
      publishedAt: new Float64Array(new SharedArrayBuffer(8 * sizeMax)),
      sources: new Uint32Array(new SharedArrayBuffer(4 * sizeMax)),
      stamps: new Int32Array(new SharedArrayBuffer(4 * sizeMax)),
    };
  }

  get size(): number {
    return this.#rowOf.size;
  }

  get sizeMax(): number {
    return this.#sizeMax;
  }

  /** The number of each source. There are never more than twice as many as articles. */
  get sources(): ReadonlyMap<string, number> {
    return this.#sources;
  }

  /** Keeps the article, or keeps it as it is now. */
  put(article: Article): void {
    const { id, source, publishedAt, document } = article;
    const isKnown = isSameModel(document.model, this.model);
    check(isKnown, 'document', 'made by the model of the shelf', document.model);
    if (!this.#rowOf.has(id) && this.#free.length === 0) this.#deleteOldest();
    const row = this.#rowOf.get(id) ?? (this.#free.pop() as number);
    const { rows } = this;
    const from = row * rows.dimension;
    Atomics.add(rows.stamps, row, 1);
    rows.means.set(document.mean, from);
    rows.titles.set(document.title, from);
    rows.words[row] = document.words;
    rows.publishedAt[row] = publishedAt ?? Number.NaN;
    rows.sources[row] = this.#sourceOf(source);
    Atomics.add(rows.stamps, row, 1);
    this.#rowOf.set(id, row);
  }

  delete(id: string): void {
    const row = this.#rowOf.get(id);
    if (row === undefined) return;
    Atomics.add(this.rows.stamps, row, 2);
    this.#rowOf.delete(id);
    this.#free.push(row);
  }

  /** All that are on it now, in the order in which they came. */
  list(): VectorTableList {
    const ids = [...this.#rowOf.keys()];
    const rows = Uint32Array.from(this.#rowOf.values());
    const stamps = Int32Array.from(rows, (row) => this.rows.stamps[row] as number);
    return { ids, rows, stamps };
  }

  /** Where an article stands and its stamp, if it is here. */
  find(id: string): { readonly row: number; readonly stamp: number } | undefined {
    const row = this.#rowOf.get(id);
    return row === undefined ? undefined : { row, stamp: this.rows.stamps[row] as number };
  }

  #deleteOldest(): void {
    const [oldest] = this.#rowOf.keys();
    if (oldest !== undefined) this.delete(oldest);
  }

  #sourceOf(source: string): number {
    if (this.#sources.size >= 2 * this.#sizeMax) this.#recountSources();
    const number = this.#sources.get(source) ?? this.#sources.size;
    this.#sources.set(source, number);
    return number;
  }

  /** Forgets sources of which no article is left. */
  #recountSources(): void {
    const names = [...this.#sources.keys()];
    this.#sources.clear();
    for (const row of this.#rowOf.values()) {
      const name = names[this.rows.sources[row] as number] as string;
      Atomics.add(this.rows.stamps, row, 2);
      this.rows.sources[row] = this.#sources.get(name) ?? this.#sources.size;
      this.#sources.set(name, this.rows.sources[row] as number);
    }
  }
}
