import type { FastifyPluginAsync } from 'fastify';
import { requireUser, takeForms } from './access.ts';
import { articleRoutes } from './article-routes.ts';
import type { RankerContext } from './context.ts';
import { feedRoutes } from './feed-routes.ts';
import { greaderRoutes } from './greader-routes.ts';
import { rankRoutes } from './rank-routes.ts';
import { ruleRoutes } from './rule-routes.ts';
import { trainingRoutes } from './training-routes.ts';
import { transferRoutes } from './transfer-routes.ts';

/** All that users do, by their key or, where the page of the reader does it too, logged in. */
export const serverRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { users } = options.storage;
  await app.register(greaderRoutes, options);
  await app.register(async (scope) => {
    requireUser(scope, users, false);
    await scope.register(async (inner) => rankRoutes(inner, options));
    await scope.register(async (inner) => trainingRoutes(inner, options));
    await scope.register(async (inner) => transferRoutes(inner, options));
  });
  await app.register(async (scope) => {
    requireUser(scope, users, true);
    takeForms(scope);
    await scope.register(async (inner) => articleRoutes(inner, options));
    await scope.register(async (inner) => feedRoutes(inner, options));
    await scope.register(async (inner) => ruleRoutes(inner, options));
  });
};
