import { type Clock, deadline } from 'spillway';
import type { ArticleChange, ReaderChange } from '../ranking/ranking-parts.ts';
import type { Reader, ReaderArticle, ScoredArticles } from '../ranking/reader.ts';
import type { Settings } from '../settings.ts';
import type { ReaderFeed } from '../storage/feeds.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { Accuracy } from '../storage/ratings.ts';
import { type Groups, groupDuplicates } from './duplicates.ts';
import type { ListQuery } from './list-view.ts';
import { type Listing, order, type Place } from './order.ts';
import { RuleSet } from './rule-set.ts';
import { inSlices } from './slices.ts';

/** The parts that the lists of all users share. */
export interface ListsOptions {
  readonly settings: Pick<Settings, 'halfLifeHours' | 'explorationShare' | 'listMax'>;
  readonly reader: Reader;
  readonly storage: RankerStorage;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  /** Called when updating the lists in the background has failed. */
  readonly onFailure: (error: unknown) => void;
}

export interface ReaderListsOptions extends ListsOptions {
  readonly userId: string;
  /** Called after the lists have changed. */
  readonly onChange: () => void;
}

/** One list as it is shown: all of it is by the same version of the taste. */
export interface ShownList {
  readonly places: readonly Place[];
  readonly tasteVersion: number;
  readonly accuracy: Accuracy;
  /** UNIX milliseconds; ages are as of then. */
  readonly madeAt: number;
  /** The number of articles that rules keep away. */
  readonly muted: number;
  /** True if the user has no articles at all. */
  readonly isEmpty: boolean;
  /** The time of its oldest article if there are older ones that it leaves out. */
  readonly oldest: number | undefined;
  readonly feeds: readonly ReaderFeed[];
  /** The number of articles of each list. */
  readonly counts: Readonly<Record<Listing, number>>;
}

/** The number of one user's lists that are kept up to date. */
const listsMax = 6;
/** The age at which a list is made anew, since its articles have aged too. */
const freshMs = 5 * 60_000;
/** A user without a request for this long has left, in milliseconds. */
const leftMs = 10 * 60_000;
/** The time for which changes are gathered that nobody waits for, in milliseconds. */
const gatherMs = 250;
const refreshMsMax = 15_000;

/** Articles of a search or of one feed on one page; a link leads to older ones. */
const foundMax = 200;
/** The most changes of articles that are applied; with more, everything is read again. */
const changesMax = 1_000;

/** The data from which all lists of one moment are made. */
interface World {
  /** The newest articles, which most lists are made of. */
  readonly newest: Base;
  readonly ruleSet: RuleSet;
  readonly accuracy: Accuracy;
  readonly feeds: readonly ReaderFeed[];
  readonly counts: Readonly<Record<Listing, number>>;
  /** Changes of articles since it was read. */
  readonly changes: readonly ArticleChange[];
  /** The time when it was read. */
  readonly at: number;
}

/** Scored articles, with the stories that they tell together once these are known. */
interface Base extends ScoredArticles {
  groups: Groups | undefined;
}

interface MadeList {
  readonly list: ShownList;
  readonly base: Base;
  readonly world: World;
}

type ListChoice = Pick<ListQuery, 'listing' | 'words' | 'feed' | 'sorting' | 'before'>;

/** The lists of one user in memory, so that a live page can be made of them at any moment. */
export class ReaderLists implements Disposable {
  readonly #options: ReaderListsOptions;
  /** By name; the one that was asked for last is the last. */
  readonly #wanted = new Map<string, ListChoice>();
  readonly #lists = new Map<string, MadeList>();
  #world: World | undefined;
  /** True if more has changed since the world was read than {@link #changes} say. */
  #isStale = false;
  #changes: ArticleChange[] = [];
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #timer: Disposable | undefined;
  #watchers = 0;
  /** Time at which the user was last here. */
  #seenAt: number;
  readonly #closing = new AbortController();
  /** Articles that were opened here: they stay on the list until it is asked for again. */
  readonly #opened = new Set<string>();

  constructor(options: ReaderListsOptions) {
    this.#options = options;
    this.#seenAt = options.clock.now();
  }

  /** True if no page has shown the lists for a while: their user has gone. */
  get isLeft(): boolean {
    return this.#watchers === 0 && this.#options.clock.now() - this.#seenAt > leftMs;
  }

  /** Notes that a page shows the lists until the result is disposed, once or several times. */
  watch(): Disposable {
    let isWatching = true;
    this.#watchers += 1;
    return {
      [Symbol.dispose]: () => {
        if (!isWatching) return;
        isWatching = false;
        this.#watchers -= 1;
        this.#seenAt = this.#options.clock.now();
      },
    };
  }

  /** Ids of rules whose pattern takes too long. */
  get slowRules(): readonly string[] {
    return this.#world?.ruleSet.tooSlow ?? [];
  }

  /** The title of a feed of the user; undefined before a list was prepared. */
  feedTitle(feedId: string | undefined): string | undefined {
    return this.#world?.feeds.find(({ id }) => id === feedId)?.title;
  }

  /** The list as it is known; undefined before it was prepared. */
  list(query: ListChoice): ShownList | undefined {
    return this.#lists.get(nameOf(query))?.list;
  }

  /** Leaves an article on the list though it is read. */
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

  /** Makes sure that the list is there and not too old. */
  async prepare(query: ListChoice): Promise<void> {
    const name = nameOf(query);
    this.#wanted.delete(name);
    this.#wanted.set(name, query);
    for (const oldest of this.#wanted.keys()) {
      if (this.#wanted.size <= listsMax) break;
      this.#wanted.delete(oldest);
      this.#lists.delete(oldest);
    }
    const world = this.#world;
    const isFresh =
      world !== undefined && Math.abs(this.#options.clock.now() - world.at) <= freshMs;
    if (isFresh && this.#lists.get(name)?.world === world) return;
    if (!isFresh || this.#isStale) return await this.refresh();
    // Only this list is new: the others need not be made anew for it.
    using time = deadline(this.#options.clock, refreshMsMax, this.#closing.signal);
    await this.#make(name, query, world, time.signal);
    if (world !== this.#world) await this.refresh();
  }

  /**
   * Applies all changes; concurrent calls share one run. It resolves when the most recently used
   * list is up to date; the others follow.
   */
  refresh(): Promise<void> {
    this.#next ??= (async () => {
      await this.#running?.catch(() => {});
      this.#next = undefined;
      this.#timer?.[Symbol.dispose]();
      this.#timer = undefined;
      const first = Promise.withResolvers<void>();
      this.#running = this.#refresh(() => first.resolve()).catch((error: unknown) => {
        first.reject(error);
      });
      await first.promise;
    })();
    return this.#next;
  }

  /** Does the same a moment later, when nobody waits for it. */
  refreshSoon(change: ReaderChange): void {
    const { clock, onFailure } = this.#options;
    const { signal } = this.#closing;
    if (signal.aborted) return;
    if (change === 'all') this.#isStale = true;
    else if (change !== 'scores') this.#changes.push(change);
    const failed = (error: unknown) => {
      if (!signal.aborted) onFailure(error);
    };
    this.#timer ??= clock.after(gatherMs, () => void this.refresh().catch(failed));
  }

  [Symbol.dispose](): void {
    this.#closing.abort();
    this.#timer?.[Symbol.dispose]();
  }

  async #refresh(onFirst: () => void): Promise<void> {
    const { clock, onChange } = this.#options;
    using time = deadline(clock, refreshMsMax, this.#closing.signal);
    const { signal } = time;
    const before = this.#world;
    const isOld = before === undefined || clock.now() - before.at > freshMs;
    const world = this.#isStale || isOld ? await this.#read(signal) : await this.#rescored(signal);
    this.#world = world;
    for (const [name, query] of [...this.#wanted].reverse()) {
      await this.#make(name, query, world, signal);
      onChange();
      onFirst();
      // A waiting refresh makes all of them anew, and its callers wait for the first one.
      if (this.#next !== undefined) return;
    }
    onFirst();
  }

  /** Reads everything that lists are made of. */
  async #read(signal: AbortSignal): Promise<World> {
    const { reader, storage, userId, clock, settings } = this.#options;
    this.#isStale = false;
    const [newest, rules, accuracy, feeds] = await Promise.all([
      reader.articles(userId, { limit: settings.listMax }, signal),
      storage.rules.list(userId, signal),
      storage.ratings.accuracy({ userId }),
      storage.feeds.list(userId, signal),
    ]);
    const { articles } = newest;
    const before = this.#world?.newest;
    // Votes do not change the stories, so they are kept while the articles are the same.
    const isSame = before !== undefined && namesOf(articles) === namesOf(before.articles);
    const world = {
      accuracy,
      feeds,
      at: clock.now(),
      changes: [],
      newest: { ...newest, groups: isSame ? before.groups : undefined },
      ruleSet: new RuleSet(rules, this.#world?.ruleSet),
      counts: countsOf(articles),
    };
    return this.#changed(world);
  }

  /** The same articles with the scores of now. */
  async #rescored(signal: AbortSignal): Promise<World> {
    const { reader, storage, userId } = this.#options;
    const before = this.#world as World;
    const world = this.#changed(before);
    const known = new Set(world.newest.articles.map(({ id }) => id));
    const isKnown = world.changes.every(({ ids }) => ids.every((id) => known.has(id)));
    // Only a new reading tells what has changed in the feeds of older articles.
    if (!isKnown || world.changes.length > changesMax) this.refreshSoon('all');
    const [newest, accuracy] = await Promise.all([
      reader.scored(userId, world.newest.articles, signal),
      storage.ratings.accuracy({ userId }),
    ]);
    return { ...world, newest: { ...newest, groups: before.newest.groups }, accuracy };
  }

  /** The world with the changes that were announced. */
  #changed(world: World): World {
    const changes = this.#changes;
    this.#changes = [];
    if (changes.length === 0) return world;
    const { newest } = world;
    const articles = changedArticles(newest.articles, changes);
    const unread = new Map<string | undefined, number>();
    for (const [at, after] of articles.entries()) {
      const more = Number(isUnread(after)) - Number(isUnread(newest.articles[at] as ReaderArticle));
      if (more !== 0) unread.set(after.feedId, (unread.get(after.feedId) ?? 0) + more);
    }
    const feeds = world.feeds.map((feed) => {
      return { ...feed, unread: Math.max(0, feed.unread + (unread.get(feed.id) ?? 0)) };
    });
    return {
      ...world,
      feeds,
      changes: [...world.changes, ...changes],
      newest: { ...newest, articles },
      counts: countsOf(articles),
    };
  }

  async #make(name: string, query: ListChoice, world: World, signal: AbortSignal): Promise<void> {
    const { ruleSet, accuracy, feeds, counts } = world;
    const base = await this.#base(name, query, world, signal);
    base.groups ??= await inSlices(groupDuplicates(base.articles), signal);
    const { articles, tasteVersion, groups } = base;
    const { clock, settings } = this.#options;
    const verdicts = ruleSet.verdicts(articles);
    const madeAt = clock.now();
    const { listing, sorting } = query;
    const options = {
      nowMs: madeAt,
      listing,
      sorting,
      halfLifeMs: settings.halfLifeHours * 3_600_000,
      explorationShare: settings.explorationShare,
      opened: this.#opened,
    };
    const places = await inSlices(order(articles, groups, verdicts, options), signal);
    const muted = verdicts.values().reduce((sum, { isMuted }) => sum + Number(isMuted), 0);
    const isEmpty = world.newest.articles.length === 0;
    const oldest =
      articles.length < this.#limit(query) ? undefined : (articles.at(-1)?.publishedAt as number);
    const list = { places, tasteVersion, madeAt, muted, accuracy, isEmpty, oldest, feeds, counts };
    if (this.#wanted.has(name)) this.#lists.set(name, { list, base, world });
  }

  #limit({ words, feed }: ListChoice): number {
    const { listMax } = this.#options.settings;
    return words.length === 0 && feed === '' ? listMax : Math.min(listMax, foundMax);
  }

  /** The articles of a list; they stay the same where only scores have changed. */
  async #base(name: string, query: ListChoice, world: World, signal: AbortSignal): Promise<Base> {
    const { reader, userId } = this.#options;
    const { words, listing, feed, before } = query;
    const mark = listing === 'starred' || listing === 'later' ? listing : undefined;
    const isNarrow = words.length > 0 || feed !== '' || mark !== undefined || before > 0;
    if (!isNarrow) return world.newest;
    const known = this.#lists.get(name);
    if (known !== undefined && mark === undefined && known.world.at === world.at) {
      const { articles, groups } = known.base;
      const changed = changedArticles(articles, world.changes);
      return { ...(await reader.scored(userId, changed, signal)), groups };
    }
    const limit = this.#limit(query);
    const feedId = feed === '' ? undefined : feed;
    const narrow = { words, mark, feedId, before: before || undefined, limit };
    return { ...(await reader.articles(userId, narrow, signal)), groups: undefined };
  }
}

/** Tells whether lists have the same articles, as far as stories depend on it. */
function namesOf(articles: readonly ReaderArticle[]): string {
  return articles.map(({ id, score }) => (score === undefined ? `${id}?` : id)).join();
}

/** The articles with the announced changes; the last one of each article counts. */
function changedArticles(
  articles: readonly ReaderArticle[],
  changes: readonly ArticleChange[],
): readonly ReaderArticle[] {
  const byId = new Map<string, ArticleChange['now']>();
  for (const { ids, now } of changes) {
    for (const id of ids) byId.set(id, { ...byId.get(id), ...now });
  }
  return articles.map((article) => {
    const now = byId.get(article.id);
    // A copy that still looks up its vector when it is asked for.
    return now === undefined
      ? article
      : Object.assign(Object.create(Object.getPrototypeOf(article)), article, now);
  });
}

function isUnread({ isRead, vote }: Pick<ReaderArticle, 'isRead' | 'vote'>): boolean {
  return !isRead && vote === undefined;
}

function nameOf({ listing, words, feed, sorting, before }: ListChoice): string {
  return `${listing} ${sorting} ${before} ${feed} ${words.join(' ')}`;
}

function countsOf(articles: readonly ReaderArticle[]): Record<Listing, number> {
  const counts = { new: 0, starred: 0, later: 0, rated: 0, all: articles.length };
  for (const { isRead, vote, isStarred, isLater } of articles) {
    counts.new += Number(!isRead && vote === undefined);
    counts.rated += Number(vote !== undefined);
    counts.starred += Number(isStarred);
    counts.later += Number(isLater);
  }
  return counts;
}
