import type { FastifyPluginAsync } from 'fastify';
import type { Clock } from 'spillway';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { DocumentEmbedder } from '../ranking/library.ts';
import type { RankingParts } from '../ranking/ranking-parts.ts';
import type { FeedRefresh } from '../reader/feed-refresh.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { requireKey } from './access.ts';
import { articleRoutes } from './article-routes.ts';
import { feedRoutes, ruleRoutes } from './feed-routes.ts';
import { greaderRoutes } from './greader-routes.ts';
import { rankRoutes } from './rank-routes.ts';
import type { RankerLanes } from './ranker-lanes.ts';
import { trainingRoutes } from './training-routes.ts';
import { transferRoutes } from './transfer-routes.ts';

export interface ServerRoutesOptions extends RankingParts {
  readonly storage: RankerStorage;
  readonly embedder: DocumentEmbedder;
  readonly fetcher: Pick<Fetcher, 'fetchFeed' | 'parseOpml'>;
  readonly refresh: Pick<FeedRefresh, 'look'>;
  readonly lanes: RankerLanes;
  readonly clock: Clock;
  readonly rankMs: number;
}

/** All that a user's key opens. */
export const serverRoutes: FastifyPluginAsync<ServerRoutesOptions> = async (app, options) => {
  await app.register(greaderRoutes, options);
  await app.register(keyRoutes, options);
};

const keyRoutes: FastifyPluginAsync<ServerRoutesOptions> = async (app, options) => {
  requireKey(app, options.storage.users);
  const onArticles = () => options.embedding.wake();
  await app.register(async (scope) => rankRoutes(scope, options));
  await app.register(async (scope) => trainingRoutes(scope, options));
  await app.register(async (scope) => articleRoutes(scope, options));
  await app.register(async (scope) => feedRoutes(scope, options));
  await app.register(async (scope) => ruleRoutes(scope, options));
  await app.register(async (scope) => transferRoutes(scope, { ...options, onArticles }));
};
