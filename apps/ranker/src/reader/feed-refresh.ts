import {
  Backlog,
  type BacklogStats,
  type Clock,
  type CloseOptions,
  deadline,
  type Every,
  every,
  type Part,
  type Random,
  SpillwayError,
  systemRandom,
} from 'spillway';
import type { Feed, FeedItem } from '../feeds/feed.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Reader } from '../ranking/reader.ts';
import type { DueFeed, FeedFetched, Feeds, NewArticle } from '../storage/feeds.ts';
import { isPrivateUrl } from '../storage/private-feeds.ts';

export interface FeedRefreshOptions {
  readonly reader: Pick<Reader, 'saveFetch'>;
  readonly feeds: Pick<Feeds, 'claim'>;
  readonly fetcher: Pick<Fetcher, 'fetchFeed'>;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  readonly random?: Random | undefined;
  /** Called when looking for due feeds or storing the outcome of a fetch has failed. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
}

export interface FeedRefreshStats extends BacklogStats {
  /** Fetches that gave something new, nothing new, or failed. */
  readonly outcomes: Readonly<Record<FeedFetched['outcome'], number>>;
}

/** The interval of looking for due feeds, in milliseconds. */
const lookMs = 30_000;
/** The number of feeds fetched at once, and of feeds that are claimed at a time. */
const fetchesMax = 4;
const feedsMax = 64;
const fetchMsMax = 60_000;
const saveMsMax = 30_000;
/** The wait after which a feed is due again when a crash has lost its turn, in milliseconds. */
const claimMs = 10 * 60_000;
/** Limits on one answer. */
const articlesMax = 100;
const textLengthMax = 100_000;
const titleLengthMax = 300;
const failureLengthMax = 300;
/** So is every private feed after a restore. */
const noCredentials = 'its credentials are missing, as no backup has them: enter them again';

/** Fetches each feed when its turn comes, a few at a time, and stores new entries and failures. */
export class FeedRefresh implements Part {
  readonly name = 'feed refresh';
  readonly #options: FeedRefreshOptions;
  readonly #random: Random;
  readonly #backlog: Backlog<DueFeed>;
  readonly #outcomes = { new: 0, same: 0, failed: 0 };
  readonly #closing = new AbortController();
  readonly #looking: Every;
  #look: Promise<void> | undefined;

  constructor(options: FeedRefreshOptions) {
    const { clock, random = systemRandom } = options;
    this.#options = options;
    this.#random = random;
    this.#backlog = new Backlog({
      queueMax: feedsMax,
      consumers: fetchesMax,
      // One that fails comes back when its claim has passed.
      attemptsMax: 1,
      key: ({ id }) => id,
      consume: (feed, signal) => this.#refresh(feed, signal),
      clock,
      random,
    });
    const run = () => this.look();
    this.#looking = every({ name: this.name, periodMs: lookMs, run, atStart: true, clock });
  }

  get stats(): FeedRefreshStats {
    return { ...this.#backlog.stats, outcomes: { ...this.#outcomes } };
  }

  start(): void {
    this.#looking.start();
  }

  async close(options?: CloseOptions): Promise<void> {
    this.#closing.abort();
    await this.#looking.close(options);
    await this.#look;
    await this.#backlog.close(options);
  }

  /** Looks for due feeds now, such as one that was just added. */
  async look(): Promise<void> {
    this.#look ??= this.#claim().finally(() => {
      this.#look = undefined;
    });
    await this.#look;
  }

  /** Resolves when all feeds that were found are done. */
  async idle(signal?: AbortSignal): Promise<void> {
    await this.#backlog.idle({ signal });
  }

  async #claim(): Promise<void> {
    const { feeds, clock, onFailure } = this.#options;
    const { waiting, running } = this.#backlog.stats;
    const limit = feedsMax - waiting - running;
    if (limit <= 0 || this.#closing.signal.aborted) return;
    try {
      using time = deadline(clock, saveMsMax, this.#closing.signal);
      const nowMs = clock.now();
      const claim = { nowMs, untilMs: nowMs + claimMs, limit };
      for (const feed of await feeds.claim(claim, time.signal)) this.#backlog.add(feed);
    } catch (error) {
      if (!this.#closing.signal.aborted) onFailure?.(error);
    }
  }

  async #refresh(feed: DueFeed, stopped: AbortSignal): Promise<void> {
    const { reader, clock, onFailure } = this.#options;
    const signal = AbortSignal.any([stopped, this.#closing.signal]);
    try {
      const fetched = await this.#fetch(feed, signal);
      using time = deadline(clock, saveMsMax, stopped);
      await reader.saveFetch(fetched, time.signal);
      this.#outcomes[fetched.outcome] += 1;
    } catch (error) {
      if (!signal.aborted && !isBusy(error)) onFailure?.(error);
    }
  }

  async #fetch(feed: DueFeed, signal: AbortSignal): Promise<FeedFetched> {
    const { fetcher, clock } = this.#options;
    const { etag, lastModified } = feed;
    const random = this.#random;
    using time = deadline(clock, fetchMsMax, signal);
    const { credentials } = feed;
    const asked = { validators: { etag, lastModified }, credentials, signal: time.signal };
    const failed = (why: string): FeedFetched => {
      const nowMs = clock.now();
      const failures = feed.failures + 1;
      const nextAt = feedTurn({ nowMs, publishedAt: [], failures, random });
      const failure = why.slice(0, failureLengthMax);
      return { feedId: feed.id, outcome: 'failed', fetchedAt: nowMs, nextAt, failure };
    };
    // Without its credentials the feed may have other articles.
    if (isPrivateUrl(feed.url) && credentials === undefined) return failed(noCredentials);
    try {
      const answer = await fetcher.fetchFeed(feed.url, asked);
      const nowMs = clock.now();
      const known = { feedId: feed.id, fetchedAt: nowMs };
      const turn = (publishedAt: readonly number[]) =>
        feedTurn({ nowMs, publishedAt, failures: 0, random });
      if (answer.kind === 'unchanged') {
        return { ...known, outcome: 'same', nextAt: turn(feed.publishedAt) };
      }
      const articles = articlesOf(answer.feed, nowMs);
      const times = articles.flatMap(({ publishedAt }) => publishedAt ?? []);
      const { title, siteUrl, url: feedUrl } = answer.feed;
      const { validators } = answer;
      const own = { etag: validators.etag, lastModified: validators.lastModified };
      const nextAt = turn(times.length > 0 ? times : feed.publishedAt);
      const isPrivate = credentials !== undefined;
      const about = { title, siteUrl, feedUrl, isPrivate };
      return { ...known, ...own, ...about, outcome: 'new', nextAt, articles };
    } catch (error) {
      // Neither a busy server nor a stop is the fault of the feed.
      if (signal.aborted || isBusy(error)) throw error;
      return failed(error instanceof Error ? error.message : String(error));
    }
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof SpillwayError && (error.status === 503 || error.status === 429);
}

/** The readable articles of a feed, newest first. */
function articlesOf(feed: Feed, nowMs: number): NewArticle[] {
  const found = feed.items.flatMap((item) => articleOf(item, nowMs));
  const time = ({ publishedAt }: NewArticle) => publishedAt ?? nowMs;
  return found.sort((one, other) => time(other) - time(one)).slice(0, articlesMax);
}

function articleOf(item: FeedItem, nowMs: number): NewArticle[] {
  const { url, title, text, published, author, images, tags } = item;
  if (url === undefined) return [];
  const named = (title.trim() || text.trim() || url).slice(0, titleLengthMax);
  // One from the future would stay on top until then.
  const publishedAt = published === undefined ? undefined : Math.min(published, nowMs);
  return [
    { url, title: named, text: text.slice(0, textLengthMax), publishedAt, author, images, tags },
  ];
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** The shortest and the longest interval between two fetches of a feed, in milliseconds. */
export const feedIntervalMsMin: number = 15 * minuteMs;
export const feedIntervalMsMax: number = 12 * hourMs;
/** The interval of a feed of which nothing is known yet. */
const intervalMsUnknown = hourMs;
/** The wait after the first failure, doubled for each further one up to a day. */
const failureMsMin = 10 * minuteMs;
const failureMsMax = 24 * hourMs;
/** The share by which each wait is longer or shorter, so that feeds are not all due at once. */
const jitter = 0.1;

export interface FeedHistory {
  /** UNIX milliseconds. */
  readonly nowMs: number;
  /** The times of its newest articles, in any order. */
  readonly publishedAt: readonly number[];
  /** The number of fetches that have failed since one did not, the last one included. */
  readonly failures: number;
  readonly random: Random;
}

/** The time of a feed's next fetch: twice between two posts; later each time that it fails. */
export function feedTurn({ nowMs, publishedAt, failures, random }: FeedHistory): number {
  const waitMs =
    failures > 0
      ? Math.min(failureMsMax, failureMsMin * 2 ** (failures - 1))
      : intervalMs(publishedAt, nowMs);
  return nowMs + waitMs * (1 - jitter + 2 * jitter * random());
}

function intervalMs(publishedAt: readonly number[], nowMs: number): number {
  const times = publishedAt.filter((time) => time <= nowMs).sort((one, other) => other - one);
  const [newest] = times;
  if (newest === undefined) return intervalMsUnknown;
  const gaps = times.slice(1).map((time, index) => (times[index] as number) - time);
  // A feed that is silent for longer than its usual interval has become slower.
  const silenceMs = (nowMs - newest) / 2;
  const usualMs = gaps.sort((one, other) => one - other)[gaps.length >> 1] ?? silenceMs;
  return Math.min(feedIntervalMsMax, Math.max(feedIntervalMsMin, usualMs / 2, silenceMs / 2));
}
