import type { Clock } from 'spillway';
import { rankerError } from '../errors.ts';
import type { TrainingKind } from '../learn/choice.ts';
import type { Article, EmbeddedDocument, RatedArticle } from '../learn/document.ts';
import type { Explanation, Neighbour, Score } from '../learn/score.ts';
import { sentencesOf } from '../learn/sentences.ts';
import { bucketOf, ngramsOf } from '../learn/words.ts';
import type { StoredArticle } from '../storage/articles.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { Item, Library, ReadArticle } from './library.ts';
import type { UserChanges } from './ranking-parts.ts';
import type { Training } from './training.ts';
import type { UserTastes } from './user-tastes.ts';

export interface ArticleRankingOptions {
  readonly storage: RankerStorage;
  readonly library: Library;
  readonly tastes: UserTastes;
  readonly training: Training;
  readonly clock: Clock;
  readonly changes: UserChanges;
}

export interface RankOptions {
  /** Adds the reasons for the score. @default false */
  readonly explain?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** An article and what it is worth to its reader. */
export interface Ranked {
  readonly article: StoredArticle;
  readonly score: Score;
  readonly explained: Explained | undefined;
}

/** The reasons for a score, in words and addresses. */
export interface Explained
  extends Omit<Explanation, 'neighbours' | 'sentences' | 'source' | 'words'> {
  readonly nearest: readonly (Neighbour & { readonly url: string; readonly title: string })[];
  readonly sentences: readonly { readonly text: string; readonly points: number }[];
  readonly words: readonly { readonly word: string; readonly points: number }[];
  readonly source: { readonly host: string; readonly score: number; readonly ratings: number };
}

/** The result of a correction. */
export interface Corrected {
  readonly article: StoredArticle;
  readonly predicted: number;
  /** The score now, and the version of the taste that made it. */
  readonly score: Score;
}

/** Scores articles for users, and learns what they say about them. */
export class ArticleRanking {
  readonly #options: ArticleRankingOptions;

  constructor(options: ArticleRankingOptions) {
    this.#options = options;
  }

  /** Scores an article for a user, by exactly one version of that user's taste. */
  async rank(userId: string, item: Item, { explain, signal }: RankOptions): Promise<Ranked> {
    const { library, tastes } = this.#options;
    const { article, document } = await library.read(item, signal, userId);
    const scored = await this.#scorable(article, document);
    const score = await tastes.score(
      userId,
      explain ? { ...scored, text: article } : scored,
      signal,
    );
    const explained = explain ? await this.#explain(article, score, signal) : undefined;
    return { article, score, explained };
  }

  /** As {@link rank}, of an article that is stored; undefined if there is none of this id. */
  async explain(
    userId: string,
    articleId: string,
    signal: AbortSignal,
  ): Promise<Ranked | undefined> {
    const { storage, library, tastes } = this.#options;
    const article = await storage.articles.find(articleId, signal);
    if (article === undefined || article.text + article.title === '') return undefined;
    const document = await library.document(article, signal);
    const scored = { ...(await this.#scorable(article, document)), text: article };
    const score = await tastes.score(userId, scored, signal);
    return { article, score, explained: await this.#explain(article, score, signal) };
  }

  /** Keeps what a user thinks of an article; once it resolves, scores know of it. */
  async correct(
    userId: string,
    item: Item,
    score: number,
    signal: AbortSignal,
  ): Promise<Corrected> {
    const read = await this.#options.library.read(item, signal, userId);
    if (!('url' in item)) await this.#options.library.keep(read, signal);
    return await this.#learn(userId, read, score, signal);
  }

  /** As {@link correct}, of an article that is stored. */
  async vote(
    userId: string,
    articleId: string,
    score: number,
    signal: AbortSignal,
  ): Promise<Corrected> {
    const { storage, library } = this.#options;
    const article = await storage.articles.find(articleId, signal);
    if (article === undefined)
      throw rankerError('RECORD_UNKNOWN', `there is no article ${articleId}`);
    const isKnown = article.text !== '' || article.title !== '';
    if (!isKnown) return await this.correct(userId, { url: article.url }, score, signal);
    const document = await library.document(article, signal);
    return await this.#learn(userId, { article, document }, score, signal);
  }

  /** Takes a judgement back; once it resolves, scores do not know of it. */
  async unvote(userId: string, articleId: string, signal: AbortSignal): Promise<void> {
    const { storage, tastes, training, changes } = this.#options;
    const isGone = await storage.ratings.remove(userId, articleId, signal);
    if (!isGone) throw rankerError('RECORD_UNKNOWN', `there is no vote on ${articleId}`);
    const ratings = await tastes.unlearn(userId, articleId, signal);
    training.requestAfterVote(userId, ratings);
    changes.tell(userId, { ids: [articleId], now: { vote: undefined } });
  }

  /** Puts training off to the background; says how many ratings it will learn from. */
  async retrain(userId: string, kind: TrainingKind): Promise<number> {
    const samples = (await this.#options.storage.ratings.list(userId)).length;
    if (samples === 0) throw rankerError('NOTHING_RATED', 'nothing has been rated yet');
    this.#options.training.request(userId, kind);
    return samples;
  }

  async #learn(
    userId: string,
    { article, document }: ReadArticle,
    score: number,
    signal: AbortSignal,
  ): Promise<Corrected> {
    const { storage, tastes, training, clock, changes } = this.#options;
    const ratedAt = Math.round(clock.now());
    const rated: RatedArticle = { ...(await this.#scorable(article, document)), score, ratedAt };
    const commit = async (predicted: number) => {
      const correction = { userId, articleId: article.id, score, predicted, at: ratedAt };
      await storage.ratings.record([correction], signal);
    };
    const learned = await tastes.learn(userId, rated, commit, signal);
    training.requestAfterVote(userId, learned.ratings);
    changes.tell(userId, { ids: [article.id], now: { vote: score } });
    return { article, ...learned };
  }

  async #explain(
    article: StoredArticle,
    { explanation }: Score,
    signal: AbortSignal,
  ): Promise<Explained> {
    const { neighbours, source, ...rest } = explanation;
    const ids = neighbours.map(({ id }) => id);
    const found = await this.#options.storage.articles.list(ids, signal);
    const byId = new Map(found.map((one) => [one.id, one]));
    const nearest = neighbours.map((one) => {
      const { url = '', title = '' } = byId.get(one.id) ?? {};
      return { ...one, url, title };
    });
    const last = Math.max(0, ...explanation.sentences.map(({ index }) => index + 1));
    const texts = last === 0 ? [] : sentencesOf(article.text, last);
    const sentences = explanation.sentences.map(({ index, points }) => {
      return { text: texts[index] ?? '', points };
    });
    const words = namedWords(article, explanation.words);
    return { ...rest, nearest, sentences, words, source: { host: article.source, ...source } };
  }

  /** An article as models take it: its source is the feed that brought it. */
  async #scorable(article: StoredArticle, document: EmbeddedDocument): Promise<Article> {
    const { id, source, publishedAt } = article;
    const fact = (await this.#options.storage.articles.facts([id])).get(id);
    return { id, source: fact?.source ?? source, publishedAt, document };
  }
}

/** The words of an article that fell into these buckets. */
function namedWords(
  { title, text }: StoredArticle,
  found: Explanation['words'],
): { readonly word: string; readonly points: number }[] {
  const byBucket = new Map<number, string>();
  for (const ngram of [...ngramsOf(title, true), ...ngramsOf(text, false)]) {
    const bucket = bucketOf(ngram);
    if (!ngram.endsWith('*') && !byBucket.has(bucket)) byBucket.set(bucket, ngram);
  }
  return found.flatMap(({ bucket, points }) => {
    const word = byBucket.get(bucket);
    return word === undefined ? [] : { word, points };
  });
}
