import { type Clock, deadline } from 'spillway';
import { type Groups, groupDuplicates } from './duplicates.ts';
import type { ListQuery } from './list-view.ts';
import { order, type Place } from './order.ts';
import type { ReaderAccuracy, ReaderShelf, ReaderStore } from './reader-store.ts';
import { RuleBook } from './rule-book.ts';
import { inSlices } from './slices.ts';

export interface DeskOptions {
  readonly store: ReaderStore;
  readonly userId: string;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  readonly halfLifeMs: number;
  readonly explorationShare: number;
  /** How many articles are ordered, newest first. */
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
  /** How many articles the rules keep away. */
  readonly muted: number;
  /** Whether the user has any articles at all. */
  readonly isEmpty: boolean;
}

/** How many lists of one user are kept up to date. */
const listsMax = 6;
/** Older lists are made anew when they are asked for, since their articles have aged. */
const freshMs = 5 * 60_000;
/** Changes that nobody waits for are gathered for so long. */
const gatherMs = 250;
const refreshMsMax = 15_000;

type Wanted = Pick<ListQuery, 'listing' | 'words'>;

/** All that one user sees, in memory, so that a live page can be made of it at any moment. */
export class Desk implements Disposable {
  readonly #options: DeskOptions;
  /** By name; the one that was asked for last is the last. */
  readonly #wanted = new Map<string, Wanted>();
  #lists: ReadonlyMap<string, ShownList> = new Map();
  #book = new RuleBook([]);
  #groups: Groups = new Map();
  #grouped = '';
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #timer: Disposable | undefined;
  readonly #closing = new AbortController();

  constructor(options: DeskOptions) {
    this.#options = options;
  }

  /** Ids of rules whose pattern takes too long. */
  get slowRules(): readonly string[] {
    return this.#book.tooSlow;
  }

  /** The list as it is known; undefined before it was prepared. */
  list(query: Wanted): ShownList | undefined {
    return this.#lists.get(nameOf(query));
  }

  /** What an article of one of the lists is called. */
  titleOf(articleId: string): string | undefined {
    for (const { places } of this.#lists.values()) {
      for (const { article, others } of places) {
        const found = [article, ...others].find(({ id }) => id === articleId);
        if (found !== undefined) return found.title;
      }
    }
    return undefined;
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
    const madeAt = this.#lists.get(name)?.madeAt ?? Number.NEGATIVE_INFINITY;
    if (this.#options.clock.now() - madeAt > freshMs) await this.refresh();
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
    const { store, userId, clock, articlesMax, onChange } = this.#options;
    using time = deadline(clock, refreshMsMax, this.#closing.signal);
    const { signal } = time;
    const [shelf, rules, accuracy] = await Promise.all([
      store.articles(userId, articlesMax, signal),
      store.rules(userId, signal),
      store.accuracy(userId, signal),
    ]);
    const book = new RuleBook(rules, this.#book);
    const lists = new Map<string, ShownList>();
    const facts = { accuracy, isEmpty: shelf.articles.length === 0 };
    for (const [name, query] of [...this.#wanted]) {
      const { words, listing } = query;
      const found =
        words.length === 0
          ? shelf
          : await store.search(userId, { words, limit: articlesMax }, signal);
      const list = await this.#arrange(found, listing, book, words.length === 0, signal);
      lists.set(name, { ...list, ...facts });
    }
    this.#book = book;
    this.#lists = lists;
    onChange();
  }

  async #arrange(
    { articles, tasteVersion }: ReaderShelf,
    listing: Wanted['listing'],
    book: RuleBook,
    isShelf: boolean,
    signal: AbortSignal,
  ): Promise<Omit<ShownList, 'accuracy' | 'isEmpty'>> {
    const { clock, halfLifeMs, explorationShare } = this.#options;
    const groups = isShelf
      ? await this.#groupsOf(articles, signal)
      : await inSlices(groupDuplicates(articles), signal);
    const verdicts = book.verdicts(articles);
    const madeAt = clock.now();
    const options = { nowMs: madeAt, listing, halfLifeMs, explorationShare };
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

function nameOf({ listing, words }: Wanted): string {
  return `${listing} ${words.join(' ')}`;
}
