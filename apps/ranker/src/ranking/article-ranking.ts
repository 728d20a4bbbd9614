import { rankerError } from '../errors.ts';
import type { TrainingKind } from '../learn/choice.ts';
import type { Article, EmbeddedDocument, RatedArticle } from '../learn/document.ts';
import type { Explanation, Neighbour, Score } from '../learn/score.ts';
import { isEnglish, sentencesOf } from '../learn/sentences.ts';
import type { Tastes } from '../learn/tastes.ts';
import { bucketOf, labelsOf, ngramsOf } from '../learn/words.ts';
import type { StoredArticle } from '../storage/articles.ts';
import type { Item, ReadArticle } from './library.ts';
import type { RankingWorld } from './ranking-parts.ts';

export interface RankOptions {
  /** Adds the reasons for the score. @default false */
  readonly explain?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** An article and its score for one reader. */
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
  /** False if it is in a language that the model of topics does not know. */
  readonly isEnglish: boolean;
}

/** The result of a correction. */
export interface Corrected {
  readonly article: StoredArticle;
  readonly predicted: number;
  /** The score now, and the version of the taste that made it. */
  readonly score: Score;
}

type Options = Pick<
  RankingWorld,
  'storage' | 'library' | 'tastes' | 'training' | 'clock' | 'changes'
>;

/** Scores articles for users, and learns from their ratings. */
export class ArticleRanking {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Scores an article for a user, by exactly one version of that user's taste. */
  async rank(userId: string, item: Item, { explain, signal }: RankOptions): Promise<Ranked> {
    const { article, document } = await this.#options.library.read(item, signal, userId);
    const scored = await this.#scorable(userId, article, document);
    const text = explain ? article : undefined;
    const score = await this.#score(userId, { ...scored, text }, signal);
    const explained = explain ? await this.#explain(article, score, signal) : undefined;
    return { article, score, explained };
  }

  /** As {@link rank}, of an article that is stored; undefined if there is none of this id. */
  async explain(
    userId: string,
    articleId: string,
    signal: AbortSignal,
  ): Promise<Ranked | undefined> {
    const { storage, library } = this.#options;
    const article = await storage.articles.find(articleId, signal);
    if (article === undefined || article.text + article.title === '') return undefined;
    const document = await library.document(article, signal);
    const scored = { ...(await this.#scorable(userId, article, document)), text: article };
    const score = await this.#score(userId, scored, signal);
    return { article, score, explained: await this.#explain(article, score, signal) };
  }

  /** Stores a user's rating of an article; once it resolves, scores take it into account. */
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

  /** Removes a rating; once it resolves, no score takes it into account. */
  async unvote(userId: string, articleId: string, signal: AbortSignal): Promise<void> {
    const { storage, tastes, training, changes } = this.#options;
    const isGone = await storage.ratings.remove(userId, articleId, signal);
    if (!isGone) throw rankerError('RECORD_UNKNOWN', `there is no vote on ${articleId}`);
    const change = { removed: [articleId] };
    await tastes.change(userId, change, signal).catch(() => tastes.forget(userId));
    training.addAfterVote(userId, (await tastes.current(userId)).state?.rows.count ?? 0);
    changes.tell(userId, { ids: [articleId], now: { vote: undefined } });
  }

  /** Puts training off to the background; says how many ratings it will learn from. */
  async retrain(userId: string, kind: TrainingKind): Promise<number> {
    const samples = (await this.#options.storage.ratings.list(userId)).length;
    if (samples === 0) throw rankerError('NOTHING_RATED', 'nothing has been rated yet');
    this.#options.training.add(userId, kind);
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
    const rated: RatedArticle = {
      ...(await this.#scorable(userId, article, document)),
      score,
      ratedAt,
    };
    const { score: predicted } = await this.#score(userId, rated, signal);
    const correction = { userId, articleId: article.id, score, predicted, at: ratedAt };
    await storage.ratings.record([correction], signal);
    // It is stored: if anything fails from here on, a taste that is loaded anew has it.
    await tastes.rate(userId, [rated], signal).catch(() => tastes.forget(userId));
    const learned = await this.#score(userId, rated, signal);
    training.addAfterVote(userId, (await tastes.current(userId)).state?.rows.count ?? 0);
    changes.tell(userId, { ids: [article.id], now: { vote: score } });
    return { article, predicted, score: learned };
  }

  #score(
    userId: string,
    article: Parameters<Tastes['score']>[1],
    signal: AbortSignal,
  ): Promise<Score> {
    const { tastes, clock } = this.#options;
    return tastes.score(userId, article, { now: clock.now(), signal });
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
    const about = { host: article.source, ...source };
    const known = isEnglish(`${article.title} ${article.text}`);
    return { ...rest, nearest, sentences, words, source: about, isEnglish: known };
  }

  /** An article as models take it: its source is the feed that brought it. */
  async #scorable(
    userId: string,
    article: StoredArticle,
    document: EmbeddedDocument,
  ): Promise<Article> {
    const { id, source, publishedAt } = article;
    const fact = (await this.#options.storage.articles.facts(userId, [id])).get(id);
    return { id, source: fact?.source ?? source, publishedAt, document };
  }
}

/** The words of an article that fell into these buckets. */
function namedWords(
  article: StoredArticle,
  found: Explanation['words'],
): { readonly word: string; readonly points: number }[] {
  const byBucket = new Map<number, string>();
  const { title, text } = article;
  for (const ngram of [...labelsOf(article), ...ngramsOf(title, true), ...ngramsOf(text, false)]) {
    const bucket = bucketOf(ngram);
    if (!ngram.endsWith('*') && !byBucket.has(bucket)) byBucket.set(bucket, ngram);
  }
  return found.flatMap(({ bucket, points }) => {
    const word = byBucket.get(bucket);
    return word === undefined ? [] : { word, points };
  });
}
