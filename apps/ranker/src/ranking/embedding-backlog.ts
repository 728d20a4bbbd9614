import { Backlog, type BacklogStats } from 'spillway';
import { namesMax, type StoredArticle } from '../storage/articles.ts';
import type { RankingWorld } from './ranking-parts.ts';

type Options = Pick<RankingWorld, 'storage' | 'embedder' | 'library' | 'clock'> & {
  /** Called with the articles that have vectors from now on. */
  readonly onEmbedded: (articleIds: readonly string[]) => Promise<void>;
};

export interface EmbeddingBacklogStats extends BacklogStats {
  readonly embedded: number;
  /** Articles that could not be embedded; they are tried again after a restart. */
  readonly passedOver: number;
}

const pageSize = 50;
/** Articles that one search finds; a search reads the keys of all articles. */
const foundMax = 1_000;
/** Articles that are looked up one by one; with more of them all articles are searched. */
const someMax = 5_000;
/** An entry whose text has fewer characters is fetched. */
const shortMax = 300;
/** Articles that may wait to be fetched; more are left as they are. */
const textsMax = 1_000;
/** Articles that failed are remembered, so that they do not come up again and again. */
const failedMax = 10_000;

/**
 * Makes the vectors that are missing: of articles that came by feeds, and of all of them after a
 * change of the model. It embeds one article at a time and leaves the other threads to requests.
 */
export class EmbeddingBacklog {
  readonly #options: Options;
  readonly #backlog: Backlog<'all'>;
  readonly #failed = new Set<string>();
  readonly #texts: Backlog<string>;
  #embedded = 0;
  /** True if any article may be without vectors. */
  #isAny = false;
  /** Articles that may be without vectors. */
  readonly #some = new Set<string>();

  constructor(options: Options) {
    this.#options = options;
    const { clock } = options;
    this.#texts = new Backlog({
      queueMax: textsMax,
      consumers: 2,
      attemptsMax: 1,
      clock,
      key: (id: string) => id,
      consume: (id, signal) => this.#fetch(id, signal),
    });
    this.#backlog = new Backlog({
      queueMax: 2,
      clock,
      key: () => 'all',
      consume: (_all, signal) => this.#embedAll(signal),
    });
  }

  get stats(): EmbeddingBacklogStats {
    const counts = { embedded: this.#embedded, passedOver: this.#failed.size };
    return { ...this.#backlog.stats, ...counts };
  }

  /** Looks soon which of these articles have no vectors; without a list, which of all. */
  wake(ids?: readonly string[]): void {
    for (const id of ids ?? []) this.#some.add(id);
    if (ids === undefined || this.#some.size > someMax) this.#isAny = true;
    this.#backlog.add('all');
  }

  /** Waits until all articles have vectors and all short ones have been fetched. */
  async idle(signal?: AbortSignal): Promise<void> {
    await this.#backlog.idle({ signal });
    await this.#texts.idle({ signal });
    // A text that was fetched is embedded anew.
    await this.#backlog.idle({ signal });
  }

  /** Drops the articles that wait: the next start finds them again. */
  async close(): Promise<void> {
    await this.#backlog.close({ withinMs: 0 }).catch(() => {});
    await this.#texts.close({ withinMs: 0 }).catch(() => {});
  }

  async #embedAll(signal: AbortSignal): Promise<void> {
    while (this.#isAny || this.#some.size > 0) {
      const isAny = this.#isAny;
      const some = isAny ? undefined : [...this.#some].slice(0, namesMax);
      this.#isAny = false;
      for (const id of some ?? [...this.#some]) this.#some.delete(id);
      try {
        const found = await this.#embedSome(some, signal);
        if (isAny && found > 0) this.#isAny = true;
      } catch (error) {
        this.#isAny = true;
        throw error;
      }
    }
  }

  /** Embeds the articles without vectors, of these or of all; gives how many it found. */
  async #embedSome(some: readonly string[] | undefined, signal: AbortSignal): Promise<number> {
    const { storage, embedder, onEmbedded } = this.#options;
    const limit = foundMax + this.#failed.size;
    const missing = await storage.vectors.missing(embedder.model, { limit, ids: some }, signal);
    const found = missing.filter((id) => !this.#failed.has(id));
    for (let at = 0; at < found.length; at += pageSize) {
      const done: string[] = [];
      for (const id of found.slice(at, at + pageSize)) {
        if (await this.#embed(id, signal)) done.push(id);
      }
      this.#embedded += done.length;
      if (done.length > 0) await onEmbedded(done);
    }
    return found.length;
  }

  /** True for an entry of a feed with little text, whose page was never asked for. */
  async #isShort(article: StoredArticle, signal: AbortSignal): Promise<boolean> {
    const { id, text, fetchedAt, unavailable, isFromFeed, url } = article;
    const isNew = isFromFeed && fetchedAt === undefined && unavailable === undefined;
    if (!isNew || !url.startsWith('http')) return false;
    const { feeds } = this.#options.storage;
    return text.length < shortMax || (await feeds.isFullText({ articleId: id }, signal));
  }

  async #fetch(id: string, signal: AbortSignal): Promise<void> {
    const { storage, library, clock, onEmbedded } = this.#options;
    const article = await storage.articles.find(id, signal);
    if (article === undefined) return;
    try {
      const read = await library.read({ url: article.url }, signal);
      if (read.article.id !== id) await this.#take(article, read.article, signal);
      await onEmbedded([id, read.article.id]);
    } catch {
      // The try is noted, so that it is the only one; the feed's own text stays.
      if (!signal.aborted) await storage.articles.touch(id, clock.now(), signal);
    }
  }

  /** Gives an entry the text of the page that its link has led to, which has another address. */
  async #take(entry: StoredArticle, page: StoredArticle, signal: AbortSignal): Promise<void> {
    const { text, images, author = entry.author } = page;
    const fetchedAt = this.#options.clock.now();
    const own = { fetchedAt, isFromFeed: false, sharedText: undefined };
    const whole = { ...entry, text, images, author, ...own };
    await this.#options.storage.articles.save(whole, entry.id, signal);
    this.wake([entry.id]);
  }

  async #embed(id: string, signal: AbortSignal): Promise<boolean> {
    const { storage, embedder, clock } = this.#options;
    const article = await storage.articles.find(id, signal);
    if (article === undefined) return false;
    try {
      const document = await embedder.embed(article, { signal });
      await storage.vectors.save(id, document, clock.now(), signal);
      if (await this.#isShort(article, signal)) this.#texts.add(id);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      // Busy is no reason to give an article up: the whole is tried again later.
      if (Object(error).retryable === true || this.#failed.size >= failedMax) throw error;
      this.#failed.add(id);
      return false;
    }
  }
}
