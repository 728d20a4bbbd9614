import { createHash } from 'node:crypto';
import { deadline, SingleFlight } from 'spillway';
import { rankerError } from '../errors.ts';
import { canonicalUrl, siteOf } from '../fetching/canonical-url.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import { UnavailableError } from '../fetching/unavailable.ts';
import type { ArticleText, EmbeddedDocument, ModelName } from '../learn/document.ts';
import { articleId, type StoredArticle } from '../storage/articles.ts';
import type { RankingWorld } from './ranking-parts.ts';

/** An article to score: an address, or a text that the caller has already. */
export type Item = { readonly url: string } | BareText;

export interface BareText {
  readonly text: string;
  readonly title?: string | undefined;
}

/** A text as an article of its own, known by what it says. */
export function articleOfText({ text, title = '' }: BareText, now: number): StoredArticle {
  const hash = createHash('sha256').update(`${title}\0${text}`).digest('base64url');
  const url = `text:${hash}`;
  return {
    id: articleId(url),
    url,
    givenUrl: url,
    title,
    text,
    source: '',
    publishedAt: undefined,
    fetchedAt: now,
    addedAt: now,
  };
}

/** Makes vectors of texts; see `Embedder`. */
export interface DocumentEmbedder {
  readonly model: ModelName;
  readonly stats: unknown;
  embed(
    article: ArticleText,
    options?: { readonly signal?: AbortSignal | undefined; readonly key?: string | undefined },
  ): Promise<EmbeddedDocument>;
  close(): Promise<void>;
}

type Options = Pick<RankingWorld, 'storage' | 'embedder' | 'clock'> & {
  readonly fetcher: Pick<Fetcher, 'fetchArticle'>;
  /** The time until a fetched text is fetched again, in milliseconds. */
  readonly freshMs: number;
  /** Called with an article whose vectors have changed. */
  readonly onSaved?: ((articleId: string) => void) | undefined;
};

/** The time limit of fetching and embedding one article. */
const readMsMax = 90_000;

/** An article and what it is like. */
export interface ReadArticle {
  readonly article: StoredArticle;
  readonly document: EmbeddedDocument;
}

/** Gets articles with their vectors: what is stored from there, what is not from where it is. */
export class Library {
  readonly #options: Options;
  /** Reads under way, by the id of the address; each ends when its own time is over. */
  readonly #reading = new SingleFlight<ReadArticle>();

  constructor(options: Options) {
    this.#options = options;
  }

  get stats(): { readonly reading: number } {
    return { reading: this.#reading.size };
  }

  /**
   * The article with its vectors. One that was met before is not fetched again while it is fresh;
   * rejects with `INPUT_INVALID` or `ARTICLE_UNAVAILABLE`, and stores nothing then.
   */
  async read(item: Item, signal: AbortSignal, key?: string): Promise<ReadArticle> {
    if (!('url' in item)) {
      const article = articleOfText(item, this.#options.clock.now());
      return { article, document: await this.document(article, signal, false, key) };
    }
    const url = canonicalUrl(item.url);
    // Texts and samples are known by addresses that lead nowhere.
    const id = articleId(url ?? item.url);
    return await this.#reading.run(id, () => this.#find(id, url, item.url), { signal });
  }

  /** Stores a text that was read, so that it can be rated. */
  async keep({ article, document }: ReadArticle, signal: AbortSignal): Promise<void> {
    const { storage, clock } = this.#options;
    if ((await storage.articles.find(article.id, signal)) !== undefined) return;
    await storage.articles.save(article, article.id, signal);
    await storage.vectors.save(article.id, document, clock.now(), signal);
  }

  #isFresh({ text, fetchedAt = 0, url }: StoredArticle): boolean {
    if (text === '') return false;
    const { clock, freshMs } = this.#options;
    return !url.startsWith('http') || clock.now() - fetchedAt < freshMs;
  }

  /** The vectors of an article that is stored, made and kept now if they are missing. */
  async document(
    article: StoredArticle,
    signal: AbortSignal,
    isStored = true,
    key?: string,
  ): Promise<EmbeddedDocument> {
    const { storage, embedder, clock } = this.#options;
    const { vectors } = storage;
    const found = await vectors.document(article.id, embedder.model, signal);
    if (found !== undefined) return found;
    const document = await this.#options.embedder.embed(article, { signal, key });
    if (isStored) await vectors.save(article.id, document, clock.now(), signal);
    return document;
  }

  /** Storage is read inside of the single flight: a look before it would miss what it stores. */
  async #find(id: string, url: string | undefined, given: string): Promise<ReadArticle> {
    const { storage, clock } = this.#options;
    using limit = deadline(clock, readMsMax);
    const { signal } = limit;
    const known = await storage.articles.resolve(id, signal);
    if (known !== undefined && this.#isFresh(known)) {
      return { article: known, document: await this.document(known, signal) };
    }
    if (url === undefined) throw rankerError('INPUT_INVALID', notUrl(given));
    return await this.#fetch({ id, url, given, known }, signal);
  }

  async #fetch(
    { id, url, given, known }: ArticleToFetch,
    signal: AbortSignal,
  ): Promise<ReadArticle> {
    const { storage, fetcher, clock } = this.#options;
    const hasText = known !== undefined && known.text !== '';
    const validators = hasText ? { etag: known.etag, lastModified: known.lastModified } : {};
    const answer = await fetcher.fetchArticle(url, { validators, signal }).catch((error) => {
      // An old text is better than none.
      if (hasText && error instanceof UnavailableError) return undefined;
      throw error;
    });
    const now = clock.now();
    if (answer?.kind !== 'article') {
      if (known === undefined) throw new UnavailableError('server_error', 'nothing was sent');
      if (answer !== undefined) await storage.articles.touch(known.id, now, signal);
      return { article: known, document: await this.document(known, signal) };
    }
    const { article: fetched } = answer;
    // One from the future would stay on top until then.
    const publishedAt = fetched.published && Math.min(fetched.published, now);
    const images = fetched.images.length > 0 ? fetched.images : known?.images;
    const { url: canonical, text, source, validators: own } = fetched;
    // Pages call themselves by their site, or by nothing, where their feed has the headline.
    const title = (known?.isFromFeed && known.title) || fetched.title;
    const article: StoredArticle = {
      id: articleId(canonical),
      url: canonical,
      givenUrl: given,
      title,
      text,
      source,
      // What the page does not say its feed may have said.
      publishedAt: publishedAt ?? known?.publishedAt,
      images,
      author: fetched.author ?? known?.author,
      tags: known?.tags,
      fetchedAt: now,
      addedAt: known?.addedAt ?? now,
      etag: own.etag,
      lastModified: own.lastModified,
    };
    // What is the same needs no new vectors.
    if (known?.id === article.id && known.text === article.text && known.title === article.title) {
      await storage.articles.touch(known.id, now, signal);
      return { article: known, document: await this.document(known, signal) };
    }
    const document = await this.#options.embedder.embed(article, { signal });
    await storage.articles.save(article, id, signal);
    await storage.vectors.save(article.id, document, now, signal);
    this.#options.onSaved?.(article.id);
    return { article, document };
  }
}

/** An article to fetch. */
interface ArticleToFetch {
  /** Of the address as it was asked for. */
  readonly id: string;
  readonly url: string;
  readonly given: string;
  readonly known: StoredArticle | undefined;
}

function notUrl(text: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return `url: must be an address like https://example.org/page, got ${JSON.stringify(shown)}`;
}

/** The host of an address as sources are called. */
export function sourceOf(url: string): string {
  return URL.canParse(url) ? siteOf(new URL(url).hostname) : '';
}
