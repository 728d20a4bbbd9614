import type { Clock } from 'spillway';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { ShelvedArticle } from '../storage/shelves.ts';
import { ArticleRanking } from './article-ranking.ts';
import { EmbeddingBacklog } from './embedding-backlog.ts';
import { type DocumentEmbedder, Library } from './library.ts';
import { Reader } from './reader.ts';
import { Training } from './training.ts';
import { TrainingSet } from './training-set.ts';
import { UserTastes } from './user-tastes.ts';

export interface RankingPartsOptions {
  readonly storage: RankerStorage;
  readonly fetcher: Fetcher;
  readonly embedder: DocumentEmbedder;
  readonly clock: Clock;
  readonly freshMs?: number | undefined;
  readonly tastesMax?: number | undefined;
}

/** All that scores and learns, put together. */
export interface RankingParts {
  readonly library: Library;
  readonly tastes: UserTastes;
  readonly training: Training;
  readonly ranking: ArticleRanking;
  readonly reader: Reader;
  readonly trainingSet: TrainingSet;
  readonly embedding: EmbeddingBacklog;
  readonly changes: UserChanges;
}

export async function rankingParts(options: RankingPartsOptions): Promise<RankingParts> {
  const { storage, embedder, clock } = options;
  const changes = new UserChanges();
  const tellScores = (userId: string) => changes.tell(userId, 'scores');
  const tastes = await UserTastes.open({
    ...{ ...options, model: embedder.model, onCompared: tellScores },
  });
  const library = new Library({ ...options, onSaved: (id) => tastes.changed(id) });
  const training = await Training.open({ ...options, tastes, onChange: tellScores });
  const ranking = new ArticleRanking({ storage, library, tastes, training, clock, changes });
  const trainingSet = new TrainingSet({ storage, library, tastes, training, clock });
  const embedding = new EmbeddingBacklog({
    ...{ storage, embedder, library, clock },
    onEmbedded: async (articleIds) => {
      for (const userId of await storage.ratings.ratersOf(articleIds)) {
        tastes.reload(userId);
      }
      for (const { id } of await storage.users.list()) changes.tell(id, 'all');
    },
  });
  const onArticles = () => embedding.wake();
  const parts = { storage, library, ranking, tastes, changes, clock, onArticles };
  const reader = new Reader(parts);
  return { library, tastes, training, ranking, reader, trainingSet, embedding, changes };
}

/** A change of articles by their reader. */
export interface ArticleChange {
  readonly ids: readonly string[];
  readonly now: Partial<Pick<ShelvedArticle, 'vote' | 'isRead' | 'isStarred' | 'isLater'>>;
}

/** A change of what a user sees: of articles, of scores alone, or of anything. */
export type ReaderChange = ArticleChange | 'scores' | 'all';

type ChangeListener = (userId: string, change: ReaderChange) => void;

/** Tells whoever listens that what a user sees has changed. */
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
