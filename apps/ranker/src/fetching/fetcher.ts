import { type Clock, Pool, type PoolStats, SpillwayError } from 'spillway';
import { checkInteger } from 'spillway/internal';
import { browserAt, findBrowser } from 'spillway-browser';
import type { FeedAnswer } from '../feeds/feed.ts';
import { type OpmlList, opmlError } from '../feeds/opml.ts';
import { AddressGuard, type AddressGuardOptions } from './address-guard.ts';
import type { Article, ArticleAnswer } from './article.ts';
import { Browser, type BrowserOptions, type BrowserStats } from './browser.ts';
import { canonicalUrl, claimedUrl, siteOf, webUrl } from './canonical-url.ts';
import type { Extraction } from './extract-page.ts';
import { imageType } from './image-type.ts';
import { UnavailableError } from './unavailable.ts';
import { type FetchOptions, type Politeness, Web, type WebAnswer } from './web.ts';

/** Settings of the browser; without a path one is looked for. */
export interface FetcherBrowser
  extends Partial<Pick<BrowserOptions, 'pagesMax' | 'idleMsMax' | 'sandbox'>> {
  readonly path?: string | undefined;
}

export interface FetcherOptions extends AddressGuardOptions {
  /** The browser for pages that need scripts: found, none, or as described. @default 'auto' */
  readonly browser?: 'auto' | 'off' | FetcherBrowser | undefined;
  /** Threads that read pages and feeds. An integer from 1. @default 2 */
  readonly workers?: number | undefined;
  /** Limits on requests to one host. */
  readonly politeness?: Politeness | undefined;
  /** The time limit of a fetch without browser, in milliseconds, from 1. @default 15000 */
  readonly fetchMsMax?: number | undefined;
  /** The time limit of a page in the browser, in milliseconds, from 1. @default 45000 */
  readonly pageMsMax?: number | undefined;
  /** The longest page or feed, in bytes, from 1. @default 5 MiB */
  readonly bytesMax?: number | undefined;
  /** The shortest text that is an article, in characters. An integer from 1. @default 100 */
  readonly textCharsMin?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface FetcherStats {
  readonly web: Web['stats'];
  /** A lane for pictures, so that they take no permits from pages and feeds. */
  readonly images: Web['stats'];
  readonly pool: PoolStats;
  /** Undefined if there is none. */
  readonly browser: BrowserStats | undefined;
}

type Worker = typeof import('./extract-worker.ts');

interface FetcherParts {
  readonly web: Web;
  readonly images: Web;
  readonly pool: Pool<Worker>;
  readonly browser: Browser | undefined;
  readonly textCharsMin: number;
}

/** The longest picture in bytes, and the largest in pixels, which a browser holds uncompressed. */
const imageBytesMax = 5 * 1_048_576;
const imagePixelsMax = 50_000_000;
/** The time limit of a picture: slow ones block a browser's six connections to this server. */
const imageMsMax = 6_000;
/** Limits on requests for pictures to one host: higher, since a page has many at once. */
const imagePace = { ratePerSecond: 8, burst: 16, queueMax: 64 };
/** A thread that holds more is replaced: 33 is usual, large pages leave 90 to 200 (2026-11). */
const parserMbMax = 64;
/** The characters below which a page that says it needs scripts is loaded in the browser. */
const scriptedChars = 500;
/** Characters above which the text of a page for subscribers is more than its teaser. */
const teaserChars = 1_000;

/**
 * Fetches pages, feeds and pictures. It rejects with an `UnavailableError` if a site does not give
 * them, when busy (`LANE_FULL`, `BUCKET_FULL`, `POOL_FULL`), late (`DEADLINE`), or when aborted.
 */
export class Fetcher implements AsyncDisposable {
  readonly #parts: FetcherParts;

  /** Starts the threads; the browser starts when it is needed. */
  static async open(options: FetcherOptions = {}): Promise<Fetcher> {
    const { workers = 2, textCharsMin = 100, fetchMsMax, bytesMax, clock } = options;
    const { browser = 'auto', pageMsMax } = options;
    checkInteger('textCharsMin', textCharsMin, 1);
    const guard = new AddressGuard(options);
    const { politeness } = options;
    const web = new Web({ guard, politeness, fetchMsMax, bytesMax, clock });
    const images = new Web({
      guard,
      politeness: imagePace,
      fetchMsMax: Math.min(fetchMsMax ?? imageMsMax, imageMsMax),
      bytesMax: imageBytesMax,
      clock,
    });
    const pages = openBrowser(browser, { guard, pageMsMax, charsMax: bytesMax, clock });
    const pool = await Pool.open<Worker>({
      module: new URL('./extract-worker.ts', import.meta.url),
      workers,
      queueMax: 64,
      deadlineMs: 20_000,
      killAfterMs: 1_000,
      resourceLimits: { maxOldGenerationSizeMb: 512 },
      clock,
      // The memory of a parser in WebAssembly grows with the largest page and never shrinks.
      recycle: { heapMbMax: parserMbMax, intervalMs: 60_000 },
    });
    return new Fetcher({ web, images, pool, browser: pages, textCharsMin });
  }

  private constructor(parts: FetcherParts) {
    this.#parts = parts;
  }

  get stats(): FetcherStats {
    return {
      web: this.#parts.web.stats,
      images: this.#parts.images.stats,
      pool: this.#parts.pool.stats,
      browser: this.#parts.browser?.stats,
    };
  }

  /** The threads, for the operator. */
  get parts(): { readonly pool: Pool<Worker> } {
    return { pool: this.#parts.pool };
  }

  /** The main text of a page. */
  async fetchArticle(url: string, options: FetchOptions = {}): Promise<ArticleAnswer> {
    const answer = await this.#parts.web.get({
      url: addressOf(url),
      accept: 'text/html, application/xhtml+xml',
      checkType: isPage,
      ...options,
    });
    const { body, validators } = answer;
    if (body === undefined) return { kind: 'unchanged', validators };
    return await this.#article({ ...answer, body }, options.signal);
  }

  /** A feed, also by the address of a page that names one. */
  async fetchFeed(url: string, options: FetchOptions = {}): Promise<FeedAnswer> {
    const first = await this.#feed(addressOf(url), options);
    if (first.kind !== 'elsewhere') return first;
    const named = first.urls.map((one) => webUrl(one, first.base)).find((one) => one);
    if (named === undefined) throw new UnavailableError('not_feed', 'a page that names no feed');
    const isOwn = named.origin === addressOf(url).origin;
    const credentials = isOwn ? options.credentials : undefined;
    const second = await this.#feed(named, { credentials, signal: options.signal });
    if (second.kind !== 'elsewhere') return second;
    throw new UnavailableError('not_feed', `${named.href} is a page too`);
  }

  /** The bytes of a picture. Its type is read from the bytes, not from the server's header. */
  async fetchImage(
    url: string,
    { signal, key }: FetchOptions = {},
  ): Promise<Uint8Array<ArrayBuffer>> {
    const accept = 'image/avif, image/webp, image/png, image/jpeg, image/gif';
    const asked = { url: addressOf(url), accept, checkType: () => {}, signal, key };
    const { body: bytes } = await this.#parts.images.get(asked);
    const found = bytes && imageType(bytes);
    const pixels = found === undefined ? 0 : found.width * found.height;
    // A size that was not found here might be found, and be huge, in a browser.
    if (bytes === undefined || found === undefined || pixels === 0) {
      throw new UnavailableError('not_image', 'its bytes are no picture of a known size');
    }
    if (pixels > imagePixelsMax) {
      throw new UnavailableError('too_large', `${found.width} x ${found.height} pixels`);
    }
    return bytes;
  }

  /** The feeds of a subscription list; rejects with `OPML_BROKEN` (400). */
  async parseOpml(sent: string | Uint8Array, signal?: AbortSignal): Promise<OpmlList> {
    const list = await this.#parts.pool.run('opml', sent, { signal });
    if (typeof list === 'string') throw opmlError(list);
    return list;
  }

  /** Cancels all fetches. */
  async close(): Promise<void> {
    const { web, images, browser } = this.#parts;
    await Promise.all([web.close(), images.close(), browser?.close()]);
    await this.#parts.pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #feed(
    url: URL,
    options: FetchOptions,
  ): Promise<FeedAnswer | { kind: 'elsewhere'; urls: readonly string[]; base: string }> {
    const accept = 'application/rss+xml, application/atom+xml, application/feed+json, */*;q=0.5';
    const answer = await this.#parts.web.get({ url, accept, checkType: isText, ...options });
    const { body, type, validators, url: base } = answer;
    if (body === undefined) return { kind: 'unchanged', validators };
    const feed = await this.#parts.pool.run(
      'feed',
      { bytes: body, type, url: base },
      { signal: options.signal, transfer: [body.buffer] },
    );
    if ('elsewhere' in feed) return { kind: 'elsewhere', urls: feed.elsewhere, base };
    if ('refused' in feed) throw new UnavailableError(...feed.refused);
    return { kind: 'feed', feed, validators };
  }

  async #article(
    answer: WebAnswer & { readonly body: Uint8Array<ArrayBuffer> },
    signal: AbortSignal | undefined,
  ): Promise<ArticleAnswer> {
    const found = await this.#extract(answer.body, answer.type, answer.url, signal);
    const { text } = found;
    const isPoor = text.length < this.#parts.textCharsMin;
    const mayHaveMore = isPoor || (found.needsScripts && text.length < scriptedChars);
    // A page that is too large for the parser would take even longer in a browser.
    const isRefused = found.isChallenge || found.isHuge;
    const rendered = mayHaveMore && !isRefused && (await this.#render(answer.url, isPoor, signal));
    const best = rendered && rendered.text.length > text.length ? rendered : found;
    const url =
      (best.canonical && claimedUrl(best.canonical, answer.url)) || canonicalUrl(answer.url);
    this.#checkText(best);
    const { title, author, published, images } = best;
    const how = best === rendered ? 'browser' : best.how;
    const source = siteOf(new URL(answer.url).hostname);
    const article: Article = {
      title: title || (url ?? ''),
      text: best.text,
      url: url ?? answer.url,
      source,
      author,
      published,
      images,
      how,
      validators: answer.validators,
    };
    return { kind: 'article', article };
  }

  #checkText({ text, isChallenge, isFree, isHuge }: Extraction): void {
    if (isChallenge)
      throw new UnavailableError('blocked', 'it only asks whether its reader is human');
    if (!isFree && text.length < teaserChars) {
      throw new UnavailableError('paywall', 'only subscribers can read all of it');
    }
    if (text.length < this.#parts.textCharsMin) {
      if (isHuge) throw new UnavailableError('too_large', 'too many elements or attributes');
      throw new UnavailableError('too_short', `${text.length} characters of text`);
    }
  }

  async #extract(
    bytes: Uint8Array<ArrayBuffer>,
    type: string,
    url: string,
    signal: AbortSignal | undefined,
  ): Promise<Extraction> {
    const found = await this.#parts.pool.run(
      'page',
      { bytes, type, url },
      { signal, transfer: [bytes.buffer] },
    );
    if (found === undefined) throw new UnavailableError('not_html', 'it is no text');
    return found;
  }

  /** The same page after its scripts have run; fails only if the plain page had no text. */
  async #render(
    url: string,
    isNeeded: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Extraction | undefined> {
    if (this.#parts.browser === undefined) return undefined;
    try {
      await this.#parts.web.takeTurn(new URL(url).host, signal);
      const page = await this.#parts.browser.render(url, signal);
      const bytes = new TextEncoder().encode(page.html);
      return await this.#extract(bytes, 'text/html; charset=utf-8', page.url, signal);
    } catch (error) {
      if (error instanceof SpillwayError && !isNeeded && !signal?.aborted) return undefined;
      throw error;
    }
  }
}

function openBrowser(
  wanted: 'auto' | 'off' | FetcherBrowser,
  base: Omit<BrowserOptions, 'found' | keyof FetcherBrowser>,
): Browser | undefined {
  if (wanted === 'off') return undefined;
  const { path, ...settings } = wanted === 'auto' ? {} : wanted;
  const found = path === undefined ? findBrowser() : browserAt(path);
  return found && new Browser({ ...settings, ...base, found });
}

function addressOf(text: string): URL {
  const url = webUrl(text);
  if (url === undefined) throw new UnavailableError('invalid_url', 'not an address of the web');
  return url;
}

function isPage(type: string): void {
  if (/^(text\/html|application\/xhtml\+xml)\b|^$/.test(type)) return;
  throw new UnavailableError('not_html', `it is ${type}`);
}

function isText(type: string): void {
  if (/^text\/|xml|json|rss|atom|octet-stream|^$/.test(type)) return;
  throw new UnavailableError('not_feed', `it is ${type}`);
}
