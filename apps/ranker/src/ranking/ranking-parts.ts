import type { Clock } from 'spillway';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { RatedArticle } from '../learn/document.ts';
import { type StoredTaste, Tastes } from '../learn/tastes.ts';
import type { TrainingQueue } from '../learn/training-queue.ts';
import type { Settings } from '../settings.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { UserArticle } from '../storage/user-articles.ts';
import { ArticleRanking } from './article-ranking.ts';
import { EmbeddingBacklog } from './embedding-backlog.ts';
import { type DocumentEmbedder, Library } from './library.ts';
import { Reader } from './reader.ts';
import { openTraining } from './training.ts';
import { TrainingSet } from './training-set.ts';

export interface RankingPartsOptions {
  readonly settings: Settings;
  readonly storage: RankerStorage;
  readonly fetcher: Fetcher;
  readonly embedder: DocumentEmbedder;
  readonly clock: Clock;
}

/** The world that the parts are made from. */
export type RankingWorld = RankingPartsOptions & RankingParts;

/** The parts that score and learn. */
export interface RankingParts {
  readonly library: Library;
  readonly tastes: Tastes;
  readonly training: TrainingQueue;
  readonly ranking: ArticleRanking;
  readonly reader: Reader;
  readonly trainingSet: TrainingSet;
  readonly embedding: EmbeddingBacklog;
  readonly changes: UserChanges;
}

export async function rankingParts(options: RankingPartsOptions): Promise<RankingParts> {
  const { settings, storage, embedder, clock } = options;
  const changes = new UserChanges();
  const tellScores = (userId: string) => changes.tell(userId, 'scores');
  const tastes = await Tastes.open({
    model: embedder.model,
    load: (userId) => loadTaste(options, userId),
    tastesMax: settings.tastesMax,
    ratedMax,
    halfLifeMs: settings.ratingHalfLifeDays * 86_400_000,
    onCompared: tellScores,
  });
  const { freshMs } = settings;
  const library = new Library({ ...options, freshMs, onSaved: (id) => tastes.table.delete(id) });
  const training = await openTraining({ storage, tastes, clock }, tellScores);
  const ranking = new ArticleRanking({ storage, library, tastes, training, clock, changes });
  const trainingSet = new TrainingSet({ storage, library, tastes, training, clock });
  const embedding = new EmbeddingBacklog({
    storage,
    embedder,
    library,
    clock,
    onEmbedded: async (articleIds) => {
      for (const userId of await storage.ratings.ratersOf(articleIds)) {
        tastes.forget(userId);
      }
      for (const { id } of await storage.users.list()) changes.tell(id, 'all');
    },
  });
  const onArticles = (ids?: readonly string[]) => embedding.wake(ids);
  const reader = new Reader({ storage, tastes, changes, clock, onArticles });
  return { library, tastes, training, ranking, reader, trainingSet, embedding, changes };
}

/** Ratings that a taste is made of; the newest count. */
const ratedMax = 5_000;
/** Numbers for versions that are set aside when a taste is loaded. */
const versionsReserved = 1_000;
const noSentences = { sentences: new Float32Array(0) };

async function loadTaste(
  { storage, embedder: { model }, clock }: RankingPartsOptions,
  userId: string,
): Promise<StoredTaste> {
  const versionMax = await storage.tastes.reserve(userId, versionsReserved);
  const choice = await storage.tastes.find(userId, model);
  const stored = await storage.vectors.rated(userId, model, ratedMax);
  const now = clock.now();
  const rated = stored.map(({ document, ratedAt, ...rest }): RatedArticle => {
    const whole = { ...noSentences, ...document, model };
    // A rating with a time in the future would count for more than all others.
    return { ...rest, ratedAt: Math.min(ratedAt, now), document: whole };
  });
  return { rated, choice, version: versionMax - versionsReserved, versionMax };
}

/** A change of articles by their reader. */
export interface ArticleChange {
  readonly ids: readonly string[];
  readonly now: Partial<Pick<UserArticle, 'vote' | 'isRead' | 'isStarred' | 'isLater'>>;
}

/** A change of what a user sees: of articles, of scores alone, or of anything. */
export type ReaderChange = ArticleChange | 'scores' | 'all';

type ChangeListener = (userId: string, change: ReaderChange) => void;

/** Notifies listeners when the articles or scores of a user have changed. */
export class UserChanges {
  readonly #listeners = new Set<ChangeListener>();

  tell(userId: string, change: ReaderChange): void {
    for (const listener of this.#listeners) listener(userId, change);
  }

  /** Calls back until it is disposed. */
  listen(listener: ChangeListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}
