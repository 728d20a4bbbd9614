import { availableParallelism } from 'node:os';
import { Lane, type LaneStats, Pool, type PoolStats } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import {
  type ArticleText,
  type EmbeddedDocument,
  emptyDocument,
  type ModelName,
  meanOf,
} from './document.ts';
import { defaultModel, type EmbeddingModel, weightFile } from './embedding-model.ts';
import { threadLimits } from './rows.ts';
import { groupEnd, sentencesMax as splitMax } from './sentences.ts';
import type { Beginning } from './thread/embedder.ts';

export interface EmbedderOptions {
  /** The sentence model. @default the one that comes with the app */
  readonly model?: EmbeddingModel | undefined;
  /** Threads, each with its own model. From 1. @default one less than there are cores, at most 4 */
  readonly workers?: number | undefined;
  /** Most articles at once; one more is refused. From 1. @default 64 */
  readonly articlesMax?: number | undefined;
  /** The number of sentences embedded of an article. From 1 to 400. @default 16 */
  readonly sentencesMax?: number | undefined;
  /** Milliseconds that an article may take. @default 30000 */
  readonly deadlineMs?: number | undefined;
  /** The age at which a worker is replaced, in milliseconds. @default 600000 */
  readonly workerAgeMsMax?: number | undefined;
  /** Milliseconds from one replacement of a worker to the next, from 0. @default 60_000 */
  readonly workerIntervalMs?: number | undefined;
  /** The heap above which a worker is replaced, in megabytes. @default 512 */
  readonly workerHeapMbMax?: number | undefined;
}

export interface EmbedOptions {
  readonly signal?: AbortSignal | undefined;
  /** The user who asks; users are served in turn. @default one for all */
  readonly key?: string | undefined;
}

export interface EmbedderStats {
  readonly model: ModelName;
  readonly articles: LaneStats;
  readonly pool: PoolStats;
}

type Module = typeof import('./thread/embedder.ts');

/**
 * Articles of one worker that have begun; others wait in the lane. A task takes some 25 ms, so the
 * next part of a long article has its turn within a quarter of a second, however many others run.
 */
const begunMax = 8;
/** Tasks of one article that are sent together; then others have their turn. */
const partsMax = 4;

/**
 * Makes vectors of articles on a pool whose workers have a model each. An article goes out as
 * several tasks of a few sentences. Users are served in turn, and the tasks of one user in the
 * order in which they came: a long article waits only for what came before it.
 */
export class Embedder implements AsyncDisposable {
  readonly model: ModelName;
  readonly #pool: Pool<Module>;
  readonly #lane: Lane;
  readonly #sentencesMax: number;

  /** Starts the workers; rejects with `POOL_START` when the model cannot be loaded. */
  static async open(options: EmbedderOptions = {}): Promise<Embedder> {
    // The model library reads this variable when it is loaded. Without it, it writes an id of the
    // machine below the home folder and sends telemetry (1.30).
    process.env.ORT_DISABLE_TELEMETRY ??= '1';
    const { model = defaultModel(), articlesMax = 64, sentencesMax = 16 } = options;
    const { workers = Math.max(1, Math.min(4, availableParallelism() - 1)) } = options;
    const { workerAgeMsMax = 600_000, workerHeapMbMax = 512, deadlineMs = 30_000 } = options;
    const { workerIntervalMs: intervalMs = 60_000 } = options;
    check(model.id !== '', 'model.id', 'a name', model.id);
    weightFile(model.precision);
    checkInteger('articlesMax', articlesMax, 1, 10_000);
    checkInteger('sentencesMax', sentencesMax, 1, splitMax);
    const module = new URL('./thread/embedder.ts', import.meta.url);
    module.searchParams.set('folder', model.folder);
    module.searchParams.set('precision', model.precision);
    const pool = await Pool.open<Module>({
      module,
      workers,
      // The lane refuses whole articles; the pool must not refuse parts of an admitted one.
      queueMax: articlesMax * partsMax,
      deadlineMs,
      resourceLimits: threadLimits,
      // A thread that is ended inside onnxruntime may end the process; each step of it is short.
      killAfterMs: Infinity,
      recycle: { ageMsMax: workerAgeMsMax, heapMbMax: workerHeapMbMax, intervalMs },
    });
    const dimension = await pool.run('dimension', undefined);
    const name = { id: model.id, precision: model.precision, dimension };
    const begun = Math.min(articlesMax, begunMax * workers);
    const lane = new Lane({
      name: 'embed',
      limit: { fixed: begun },
      queueMax: articlesMax - begun,
      deadlineMs,
    });
    return new Embedder(name, pool, lane, sentencesMax);
  }

  private constructor(model: ModelName, pool: Pool<Module>, lane: Lane, sentencesMax: number) {
    this.model = model;
    this.#pool = pool;
    this.#lane = lane;
    this.#sentencesMax = sentencesMax;
  }

  get stats(): EmbedderStats {
    return { model: this.model, articles: this.#lane.stats, pool: this.#pool.stats };
  }

  /** The threads, for the operator. */
  get parts(): { readonly pool: Pool<Module> } {
    return { pool: this.#pool };
  }

  /** The article's vectors; rejects with `LANE_FULL`, `DEADLINE` or the signal's reason. */
  embed(article: ArticleText, options: EmbedOptions = {}): Promise<EmbeddedDocument> {
    const title = article.title.trim();
    if (title === '' && article.text.trim() === '') {
      return Promise.resolve(emptyDocument(this.model));
    }
    const { key, signal: given } = options;
    const { text, author, tags } = article;
    const work = (signal: AbortSignal) => this.#embed({ title, text, author, tags }, signal, key);
    return this.#lane.run(work, { signal: given, key });
  }

  async close(): Promise<void> {
    await this.#lane.close();
    await this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #embed(
    article: ArticleText,
    signal: AbortSignal,
    key: string | undefined,
  ): Promise<EmbeddedDocument> {
    const sentencesMax = this.#sentencesMax;
    const turn = { signal, key };
    const begun = await this.#pool.run('begin', { ...article, sentencesMax }, turn);
    const { sentences } = begun;
    const rest: Float32Array[] = [];
    for (let from = groupEnd(sentences, 0); from < sentences.length; ) {
      const due: Promise<Float32Array>[] = [];
      while (from < sentences.length && due.length < partsMax) {
        const to = groupEnd(sentences, from);
        due.push(this.#pool.run('embed', sentences.slice(from, to), turn));
        from = to;
      }
      rest.push(...(await Promise.all(due)));
    }
    return this.#assemble(begun, rest, article.title !== '');
  }

  #assemble(begun: Beginning, rest: Float32Array[], hasTitle: boolean): EmbeddedDocument {
    const { model } = this;
    const { dimension } = model;
    const titleLength = hasTitle ? dimension : 0;
    const sentences = new Float32Array(begun.sentences.length * dimension);
    sentences.set(begun.vectors.subarray(titleLength));
    let at = begun.vectors.length - titleLength;
    for (const group of rest) {
      sentences.set(group, at);
      at += group.length;
    }
    const title = hasTitle ? begun.vectors.slice(0, dimension) : new Float32Array(dimension);
    const { length, words } = begun;
    return { model, length, sentences, title, mean: meanOf(title, sentences), words };
  }
}
