import type { FastifyPluginAsync } from 'fastify';
import { requireKey } from './access.ts';
import { articleRoutes } from './article-routes.ts';
import type { RankerContext } from './context.ts';
import { feedRoutes, ruleRoutes } from './feed-routes.ts';
import { greaderRoutes } from './greader-routes.ts';
import { rankRoutes } from './rank-routes.ts';
import { trainingRoutes } from './training-routes.ts';
import { transferRoutes } from './transfer-routes.ts';

/** All that a user's key opens. */
export const serverRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  await app.register(greaderRoutes, options);
  await app.register(keyRoutes, options);
};

const keyRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  requireKey(app, options.storage.users);
  await app.register(async (scope) => rankRoutes(scope, options));
  await app.register(async (scope) => trainingRoutes(scope, options));
  await app.register(async (scope) => articleRoutes(scope, options));
  await app.register(async (scope) => feedRoutes(scope, options));
  await app.register(async (scope) => ruleRoutes(scope, options));
  await app.register(async (scope) => transferRoutes(scope, options));
};
