/**
 * All that the reader needs of storage and ranking, so that it knows neither. Times are UNIX
 * milliseconds; ids are texts of letters, digits, `-` and `_`, at most 64. What fails rejects with
 * a `SpillwayError`; what was resolved is durable.
 */
export interface ReaderStore {
  /** Whose API key this is, compared in constant time; undefined if nobody's. */
  userOf(apiKey: string, signal?: AbortSignal): Promise<ReaderUser | undefined>;
  /**
   * The newest articles of the user's feeds and of their own, rated ones included, newest first;
   * all scores are by one version of the taste. Those without vectors yet have no score.
   */
  articles(userId: string, limit: number, signal?: AbortSignal): Promise<ReaderShelf>;
  /** As {@link articles}, of those whose title or text has all these words, whatever their case. */
  search(userId: string, query: ReaderQuery, signal?: AbortSignal): Promise<ReaderShelf>;
  /** Why an article has its score; undefined if there is no such article or no score yet. */
  explain(
    userId: string,
    articleId: string,
    signal?: AbortSignal,
  ): Promise<ReaderExplanation | undefined>;
  /** Keeps a rating from 1 to 10; once it resolves, `articles` gives scores that know of it. */
  vote(userId: string, vote: ReaderVote, signal?: AbortSignal): Promise<void>;
  /** Takes a rating back; once it resolves, `articles` gives scores that do not know of it. */
  unvote(userId: string, articleId: string, signal?: AbortSignal): Promise<void>;
  /** Keeps that the user is done with an article without rating it. */
  markRead(userId: string, articleId: string, signal?: AbortSignal): Promise<void>;
  /** Adds the articles that come with the app to those of the user; known ones are left alone. */
  addSamples(userId: string, signal?: AbortSignal): Promise<void>;
  /** How well the scores did before the user rated. */
  accuracy(userId: string, signal?: AbortSignal): Promise<ReaderAccuracy>;

  rules(userId: string, signal?: AbortSignal): Promise<readonly ReaderRule[]>;
  addRule(userId: string, rule: NewRule, signal?: AbortSignal): Promise<void>;
  removeRule(userId: string, ruleId: string, signal?: AbortSignal): Promise<void>;

  /** The feeds that the user has subscribed to, by title. */
  feeds(userId: string, signal?: AbortSignal): Promise<readonly ReaderFeed[]>;
  /** Subscribes; a feed that nobody had is made, due at once. Known subscriptions stay. */
  subscribe(userId: string, feeds: readonly NewFeed[], signal?: AbortSignal): Promise<void>;
  /** A feed without subscribers is not fetched any more. */
  unsubscribe(userId: string, feedId: string, signal?: AbortSignal): Promise<void>;

  /**
   * The feeds with subscribers that are due, longest due first, each put off to `untilMs` in the
   * same step: no other instance takes them, and a crash only delays them.
   */
  claimFeeds(claim: FeedClaim, signal?: AbortSignal): Promise<readonly DueFeed[]>;
  /** Keeps what came of a fetch in one step: new articles, validators, failure and next turn. */
  saveFetch(fetched: FeedFetched, signal?: AbortSignal): Promise<void>;

  /** Calls back when what a user sees has changed, whoever changed it, until it is disposed. */
  onChange(listener: (userId: string) => void): Disposable;
}

export interface ReaderUser {
  readonly id: string;
  readonly name: string;
}

export interface ReaderShelf {
  /** Of the taste that all the scores are by. */
  readonly tasteVersion: number;
  readonly articles: readonly ReaderArticle[];
}

export interface ReaderQuery {
  /** In small letters, 1 to 8 of them. */
  readonly words: readonly string[];
  readonly limit: number;
}

export interface ReaderArticle {
  readonly id: string;
  readonly url: string;
  readonly title: string;
  /** Where it comes from: the host. */
  readonly source: string;
  /** When it was published, or found if that is not known. */
  readonly publishedAt: number;
  /** The beginning of its text, at most 500 characters. */
  readonly lead: string;
  /** From 1 to 10; undefined while it is not known. */
  readonly score: number | undefined;
  /** How unsure the score is, as its expected error in points; undefined if not known. */
  readonly uncertainty: number | undefined;
  /** What the user gave it; undefined if nothing. */
  readonly vote: number | undefined;
  /** Whether the user is done with it. */
  readonly isRead: boolean;
  /** Its mean vector of length 1, by the model of all others; undefined while there is none. */
  readonly vector: Float32Array | undefined;
  /** Why its text cannot be had; undefined if it can. */
  readonly unavailable: string | undefined;
}

export interface ReaderVote {
  readonly articleId: string;
  /** From 1 to 10. */
  readonly score: number;
}

export interface ReaderExplanation {
  readonly score: number;
  readonly tasteVersion: number;
  /** The nearest articles that the user rated, nearest first. */
  readonly nearest: readonly {
    readonly id: string;
    readonly title: string;
    readonly url: string;
    readonly score: number;
    /** From -1 to 1. */
    readonly similarity: number;
  }[];
  /** The sentences that moved the score most, strongest first; weight above 0 raises it. */
  readonly sentences: readonly { readonly text: string; readonly weight: number }[];
  /** What its source alone says; undefined if the user rated nothing of it. */
  readonly source:
    | { readonly host: string; readonly mean: number; readonly ratings: number }
    | undefined;
}

export interface NewArticle {
  readonly url: string;
  readonly title: string;
  readonly text: string;
  readonly publishedAt: number | undefined;
}

/** Over first ratings only: a score of what was rated before has seen the answer. */
export interface ReaderAccuracy {
  /** How many first ratings had a score before. */
  readonly count: number;
  /** Mean of rating minus score; undefined without any. */
  readonly bias: number | undefined;
  /** Mean of the absolute difference; undefined without any. */
  readonly meanAbsoluteError: number | undefined;
  /** How often a liked article had a higher score than a disliked one; undefined if not known. */
  readonly auc: number | undefined;
}

/** Mutes or boosts articles: of a source, with all words, or that a pattern finds. */
export interface NewRule {
  readonly kind: 'mute' | 'boost';
  readonly field: 'source' | 'words' | 'pattern';
  /** The host, the words, or the source of a regular expression; 1 to 200 characters. */
  readonly value: string;
  /** What a boost adds to the score, from -9 to 9; 0 for a mute. */
  readonly points: number;
}

export interface ReaderRule extends NewRule {
  readonly id: string;
}

export interface NewFeed {
  readonly url: string;
  /** Empty if it is not known yet. */
  readonly title: string;
  /** Empty for none. */
  readonly folder: string;
}

export interface ReaderFeed extends NewFeed {
  readonly id: string;
  readonly siteUrl: string | undefined;
  /** When it was last fetched or found unchanged; undefined if it never was. */
  readonly fetchedAt: number | undefined;
  readonly nextAt: number;
  /** What the last fetch failed by; undefined if it did not. */
  readonly failure: string | undefined;
  /** How many fetches have failed since one did not. */
  readonly failures: number;
  readonly articles: number;
}

export interface FeedClaim {
  readonly nowMs: number;
  readonly untilMs: number;
  readonly limit: number;
}

export interface DueFeed {
  readonly id: string;
  readonly url: string;
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
  readonly failures: number;
  /** When its newest articles were published, newest first, at most 20. */
  readonly publishedAt: readonly number[];
}

/** What came of a fetch. */
export type FeedFetched = {
  readonly feedId: string;
  readonly fetchedAt: number;
  readonly nextAt: number;
} & (
  | { readonly outcome: 'same' }
  | { readonly outcome: 'failed'; readonly failure: string }
  | {
      readonly outcome: 'new';
      readonly title: string;
      readonly siteUrl: string | undefined;
      readonly etag: string | undefined;
      readonly lastModified: string | undefined;
      readonly articles: readonly NewArticle[];
    }
);
