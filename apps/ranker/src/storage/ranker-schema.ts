/** The tables of the ranker. Times are UNIX milliseconds; truth values are 0 and 1. */
export interface RankerSchema {
  readonly users: UserRow;
  readonly articles: ArticleRow;
  readonly aliases: AliasRow;
  readonly vectors: VectorRow;
  readonly sentences: SentenceRow;
  readonly ratings: RatingRow;
  readonly corrections: CorrectionRow;
  readonly tastes: TasteRow;
  readonly trainings: TrainingRow;
  readonly feeds: FeedRow;
  readonly subscriptions: SubscriptionRow;
  readonly feed_credentials: FeedCredentialsRow;
  readonly feed_articles: FeedArticleRow;
  readonly shelf: ShelfRow;
  readonly reads: ReadRow;
  readonly marks: MarkRow;
  readonly rules: RuleRow;
  readonly documents: { readonly name: string; readonly value: string };
}

export interface UserRow {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the API key, in hexadecimal. */
  readonly key_hash: string;
  readonly created_at: number;
}

export interface ArticleRow {
  /** Made of the canonical URL. */
  readonly id: string;
  /** Canonical and unique; `text:<hash>` for a text that has none. */
  readonly url: string;
  readonly given_url: string;
  readonly title: string;
  readonly text: string;
  /** The host it comes from; empty for a bare text. */
  readonly source: string;
  readonly published_at: number | null;
  /** The time of the last fetch, whether its text had changed or not; null if it never was. */
  readonly fetched_at: number | null;
  readonly etag: string | null;
  readonly last_modified: string | null;
  /** The reason why there is no text; null if there is one or nobody has asked for it yet. */
  readonly unavailable: string | null;
  readonly added_at: number;
  readonly author: string | null;
  /** 1 if title and text are as a feed has them: they change with it. */
  readonly from_feed: number;
  /** Pictures as a JSON array; null if there are none. */
  readonly images: string | null;
  /** The words by which its feed files it, each between two line breaks; null for none. */
  readonly tags: string | null;
  /** Its text in the feed, if other entries share parts of it: shown, and not learned from. */
  readonly shared_text: string | null;
}

/** Another address of an article, by the id that an article of that address would have. */
export interface AliasRow {
  readonly id: string;
  readonly article_id: string;
}

/** The vectors of one model; small, since all of a reader's list is scored by it. */
export interface VectorRow {
  readonly article_id: string;
  readonly model: string;
  readonly precision: string;
  readonly dimension: number;
  readonly words: number;
  readonly sentence_count: number;
  /** Mean and title as little-endian float32, then the n-grams. */
  readonly data: Uint8Array;
  /** SHA-256 of `data` and of the sentences' `data`, in hexadecimal. */
  readonly checksum: string;
  readonly made_at: number;
}

export interface SentenceRow {
  readonly article_id: string;
  /** Always `[]`; an older version kept the first sentence of each chunk here. */
  readonly chunks: string;
  /** The sentences' vectors, one after another, as little-endian float32. */
  readonly data: Uint8Array;
}

/** A user's last judgement of an article. */
export interface RatingRow {
  readonly user_id: string;
  readonly article_id: string;
  readonly score: number;
  readonly rated_at: number;
}

/** One judgement of a user, as it was given; never changed. */
export interface CorrectionRow {
  readonly id: number;
  readonly user_id: string;
  readonly article_id: string;
  readonly score: number;
  /** The score before the rating was known; null if there was none. */
  readonly predicted: number | null;
  /** 1 if the user had not rated the article before: only then is the prediction honest. */
  readonly is_first: number;
  readonly created_at: number;
}

/** The result of a user's training, so that a restart goes on from there. */
export interface TasteRow {
  readonly user_id: string;
  /** No version of the taste has a greater number yet. */
  readonly reserved: number;
  /** The embedding model whose vectors it was trained on; empty if nothing was trained. */
  readonly model: string;
  readonly data: Uint8Array;
  readonly checksum: string;
  readonly saved_at: number;
}

export interface TrainingRow {
  readonly id: number;
  readonly user_id: string;
  readonly kind: string;
  readonly started_at: number;
  readonly ended_at: number | null;
  readonly samples: number;
  readonly epochs: number;
  /** `completed`, `cancelled`, `failed` or `interrupted`; `running` while it goes on. */
  readonly status: string;
  /** Errors by cross-validation as JSON; null if not known. */
  readonly errors: string | null;
  /** Of the taste that it published. */
  readonly version: number | null;
  readonly error: string | null;
}

export interface FeedRow {
  readonly id: string;
  readonly url: string;
  readonly title: string;
  readonly site_url: string | null;
  readonly etag: string | null;
  readonly last_modified: string | null;
  readonly fetched_at: number | null;
  /** The time of its next fetch. */
  readonly next_at: number;
  readonly failure: string | null;
  readonly failures: number;
}

export interface SubscriptionRow {
  readonly user_id: string;
  readonly feed_id: string;
  readonly folder: string;
  readonly added_at: number;
  /** The user's own name of the feed; null for that of the feed itself. */
  readonly title: string | null;
  /** 1 if the whole text of every entry is fetched. */
  readonly full_text: number;
  /** The outline of the OPML that it came by, as JSON; null for none. */
  readonly outline: string | null;
}

/** The header that opens a feed; such a feed has one subscriber. */
export interface FeedCredentialsRow {
  readonly feed_id: string;
  readonly header: string;
  readonly value: string;
}

export interface FeedArticleRow {
  readonly feed_id: string;
  readonly article_id: string;
  readonly found_at: number;
}

/** An article that a user has, from wherever. */
export interface ShelfRow {
  readonly user_id: string;
  readonly article_id: string;
  readonly added_at: number;
}

export interface ReadRow {
  readonly user_id: string;
  readonly article_id: string;
  readonly read_at: number;
}

/** A star, or a place on the list of what is to be read later. */
export interface MarkRow {
  readonly user_id: string;
  readonly article_id: string;
  /** `starred` or `later`. */
  readonly kind: string;
  readonly marked_at: number;
}

export interface RuleRow {
  readonly id: string;
  readonly user_id: string;
  /** `mute` or `boost`. */
  readonly kind: string;
  /** The compared part: `source`, `feed`, `author`, `tag`, `words` or `pattern`. */
  readonly field: string;
  readonly value: string;
  /** Points that a boost adds to the score; 0 for a mute. */
  readonly points: number;
  readonly created_at: number;
}
