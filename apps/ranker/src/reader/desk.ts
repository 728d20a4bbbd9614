import { type Clock, deadline } from 'spillway';
import type { Reader, ReaderAccuracy, ReaderShelf } from '../ranking/reader.ts';
import type { ReaderFeed } from '../storage/feeds.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { type Groups, groupDuplicates } from './duplicates.ts';
import type { ListQuery } from './list-view.ts';
import { type Listing, order, type Place } from './order.ts';
import { RuleBook } from './rule-book.ts';
import { inSlices } from './slices.ts';

export interface DeskOptions {
  readonly reader: Reader;
  readonly storage: RankerStorage;
  readonly userId: string;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  readonly halfLifeMs: number;
  readonly explorationShare: number;
  /** The number of articles that are ordered, newest first. */
  readonly articlesMax: number;
  /** Told after the lists have changed. */
  readonly onChange: () => void;
  /** Told when they could not be brought up to date without anybody waiting for it. */
  readonly onFailure: (error: unknown) => void;
}

/** One list as it is shown: all of it is by the same version of the taste. */
export interface ShownList {
  readonly places: readonly Place[];
  readonly tasteVersion: number;
  readonly accuracy: ReaderAccuracy;
  /** UNIX milliseconds; ages are as of then. */
  readonly madeAt: number;
  /** The number of articles that rules keep away. */
  readonly muted: number;
  /** True if the user has no articles at all. */
  readonly isEmpty: boolean;
  readonly feeds: readonly ReaderFeed[];
  /** The number of articles of each list. */
  readonly counts: Readonly<Record<Listing, number>>;
}

/** The number of one user's lists that are kept up to date. */
const listsMax = 6;
/** Older lists are made anew when they are asked for, since their articles have aged. */
const freshMs = 5 * 60_000;
/** Changes that nobody waits for are gathered for so long. */
const gatherMs = 250;
const refreshMsMax = 15_000;

/** The number of articles that a search finds at most. */
const foundMax = 500;

/** All that the lists of one moment are made of. */
interface World {
  readonly shelf: ReaderShelf;
  readonly book: RuleBook;
  readonly accuracy: ReaderAccuracy;
  readonly feeds: readonly ReaderFeed[];
  readonly counts: Readonly<Record<Listing, number>>;
  readonly at: number;
}

type Wanted = Pick<ListQuery, 'listing' | 'words' | 'feed' | 'sorting'>;

/** All that one user sees, in memory, so that a live page can be made of it at any moment. */
export class Desk implements Disposable {
  readonly #options: DeskOptions;
  /** By name; the one that was asked for last is the last. */
  readonly #wanted = new Map<string, Wanted>();
  #lists: ReadonlyMap<string, ShownList> = new Map();
  #world: World | undefined;
  /** True if something was changed since the world was read. */
  #isStale = false;
  #groups: Groups = new Map();
  #grouped = '';
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #timer: Disposable | undefined;
  readonly #closing = new AbortController();
  /** Articles that were opened here: they stay on the list until it is asked for again. */
  readonly #opened = new Set<string>();

  constructor(options: DeskOptions) {
    this.#options = options;
  }

  /** Ids of rules whose pattern takes too long. */
  get slowRules(): readonly string[] {
    return this.#world?.book.tooSlow ?? [];
  }

  /** The list as it is known; undefined before it was prepared. */
  list(query: Wanted): ShownList | undefined {
    return this.#lists.get(nameOf(query));
  }

  /** Keeps an article on the list though it is read. */
  open(articleId: string): void {
    this.#opened.add(articleId);
  }

  close(articleId: string): void {
    this.#opened.delete(articleId);
  }

  /** Tells whether any article was open. */
  closeAll(): boolean {
    const wasOpen = this.#opened.size > 0;
    this.#opened.clear();
    return wasOpen;
  }

  /** The articles of a feed, or of all, that are neither read nor rated. */
  unread(feed: string): string[] {
    const articles = this.#world?.shelf.articles ?? [];
    const isOf = (feedId: string | undefined) => feed === '' || feed === feedId;
    return articles
      .filter(({ isRead, vote, feedId }) => !isRead && vote === undefined && isOf(feedId))
      .map(({ id }) => id);
  }

  /** Makes sure that the list is there and not too old. */
  async prepare(query: Wanted): Promise<void> {
    const name = nameOf(query);
    this.#wanted.delete(name);
    this.#wanted.set(name, query);
    for (const oldest of this.#wanted.keys()) {
      if (this.#wanted.size <= listsMax) break;
      this.#wanted.delete(oldest);
    }
    const now = this.#options.clock.now();
    const isFresh = (at = Number.NEGATIVE_INFINITY) => now - at <= freshMs;
    if (isFresh(this.#lists.get(name)?.madeAt)) return;
    const world = this.#world;
    if (world === undefined || this.#isStale || !isFresh(world.at)) return await this.refresh();
    // Only this list is new: the others need not be made anew for it.
    using time = deadline(this.#options.clock, refreshMsMax, this.#closing.signal);
    const list = await this.#make(world, query, time.signal);
    if (world === this.#world) this.#lists = new Map(this.#lists).set(name, list);
    else await this.refresh();
  }

  /** Brings all lists up to date with what is stored now; many calls become one. */
  refresh(): Promise<void> {
    this.#next ??= (async () => {
      await this.#running?.catch(() => {});
      this.#next = undefined;
      this.#timer?.[Symbol.dispose]();
      this.#timer = undefined;
      const run = this.#refresh();
      this.#running = run;
      await run;
    })();
    return this.#next;
  }

  /** The same before long, while nobody waits for it. */
  refreshSoon(): void {
    const { clock, onFailure } = this.#options;
    const { signal } = this.#closing;
    if (signal.aborted) return;
    this.#isStale = true;
    const failed = (error: unknown) => {
      if (!signal.aborted) onFailure(error);
    };
    this.#timer ??= clock.after(gatherMs, () => void this.refresh().catch(failed));
  }

  [Symbol.dispose](): void {
    this.#closing.abort();
    this.#timer?.[Symbol.dispose]();
  }

  async #refresh(): Promise<void> {
    const { reader, storage, userId, clock, articlesMax, onChange } = this.#options;
    using time = deadline(clock, refreshMsMax, this.#closing.signal);
    const { signal } = time;
    this.#isStale = false;
    const [shelf, rules, accuracy, feeds] = await Promise.all([
      reader.articles(userId, { limit: articlesMax }, signal),
      storage.rules.list(userId, signal),
      reader.accuracy(userId, signal),
      storage.feeds.list(userId, signal),
    ]);
    const world: World = {
      ...{ shelf, accuracy, feeds, at: clock.now() },
      book: new RuleBook(rules, this.#world?.book),
      counts: countsOf(shelf),
    };
    const lists = new Map<string, ShownList>();
    for (const [name, query] of [...this.#wanted]) {
      lists.set(name, await this.#make(world, query, signal));
    }
    this.#world = world;
    this.#lists = lists;
    onChange();
  }

  async #make(world: World, query: Wanted, signal: AbortSignal): Promise<ShownList> {
    const { reader, userId, articlesMax } = this.#options;
    const { shelf, book, accuracy, feeds, counts } = world;
    const { words, listing, feed } = query;
    const mark = listing === 'starred' || listing === 'later' ? listing : undefined;
    const isShelf = words.length === 0 && feed === '' && mark === undefined;
    const limit = words.length === 0 ? articlesMax : Math.min(articlesMax, foundMax);
    const narrow = { words, mark, feedId: feed === '' ? undefined : feed, limit };
    const found = isShelf ? shelf : await reader.articles(userId, narrow, signal);
    const list = await this.#arrange(found, query, book, isShelf, signal);
    return { ...list, accuracy, isEmpty: shelf.articles.length === 0, feeds, counts };
  }

  async #arrange(
    { articles, tasteVersion }: ReaderShelf,
    { listing, sorting }: Wanted,
    book: RuleBook,
    isShelf: boolean,
    signal: AbortSignal,
  ): Promise<Omit<ShownList, 'accuracy' | 'isEmpty' | 'feeds' | 'counts'>> {
    const { clock, halfLifeMs, explorationShare } = this.#options;
    const groups = isShelf
      ? await this.#groupsOf(articles, signal)
      : await inSlices(groupDuplicates(articles), signal);
    const verdicts = book.verdicts(articles);
    const madeAt = clock.now();
    const options = {
      ...{ nowMs: madeAt, listing, sorting, halfLifeMs, explorationShare },
      opened: this.#opened,
    };
    const places = await inSlices(order(articles, groups, verdicts, options), signal);
    const muted = verdicts.values().reduce((sum, { isMuted }) => sum + Number(isMuted), 0);
    return { places, tasteVersion, madeAt, muted };
  }

  /** Votes do not change them, so they are kept while the articles are the same. */
  async #groupsOf(articles: ReaderShelf['articles'], signal: AbortSignal): Promise<Groups> {
    const names = articles.map(({ id, vector }) => (vector === undefined ? `${id}?` : id)).join();
    if (names !== this.#grouped) {
      this.#groups = await inSlices(groupDuplicates(articles), signal);
      this.#grouped = names;
    }
    return this.#groups;
  }
}

function nameOf({ listing, words, feed, sorting }: Wanted): string {
  return `${listing} ${sorting} ${feed} ${words.join(' ')}`;
}

function countsOf({ articles }: ReaderShelf): Record<Listing, number> {
  const counts = { new: 0, starred: 0, later: 0, rated: 0, all: articles.length };
  for (const { isRead, vote, isStarred, isLater } of articles) {
    counts.new += Number(!isRead && vote === undefined);
    counts.rated += Number(vote !== undefined);
    counts.starred += Number(isStarred);
    counts.later += Number(isLater);
  }
  return counts;
}
