import type { FastifyPluginAsync } from 'fastify';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Reader } from '../ranking/reader.ts';
import type { FeedRefresh } from '../reader/feed-refresh.ts';
import { findFeed, listedFeeds, opmlOf } from '../reader/new-feeds.ts';
import { checkRule } from '../reader/rule-book.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { type NewRule, ruleFields } from '../storage/rules.ts';
import type { RankerLanes } from './ranker-lanes.ts';
import { bodyBytesMax, idSchema, titleMax, urlSchema } from './request-schemas.ts';

export interface FeedRoutesOptions {
  readonly reader: Reader;
  readonly storage: RankerStorage;
  readonly fetcher: Pick<Fetcher, 'fetchFeed' | 'parseOpml'>;
  readonly refresh: Pick<FeedRefresh, 'look'>;
  readonly lanes: RankerLanes;
}

type Named = { Params: { readonly id: string } };

const feed = {
  type: 'object',
  required: ['url'],
  properties: {
    url: urlSchema,
    title: { type: 'string', maxLength: titleMax, default: '' },
    folder: { type: 'string', maxLength: 200, default: '' },
  },
  additionalProperties: false,
};
const rule = {
  type: 'object',
  required: ['kind', 'field', 'value'],
  properties: {
    kind: { enum: ['mute', 'boost'] },
    field: { enum: ruleFields },
    value: { type: 'string', minLength: 1, maxLength: 200 },
    points: { type: 'number', minimum: -9, maximum: 9, default: 0 },
  },
  additionalProperties: false,
};

/** A user's feeds and articles, for programs. */
export const feedRoutes: FastifyPluginAsync<FeedRoutesOptions> = async (app, options) => {
  const { reader, storage, fetcher, refresh, lanes } = options;
  const reading = { lane: lanes.read, domain: 'thread' } as const;
  const changing = { lane: lanes.corrections, domain: 'thread', csrf: false } as const;

  app.get('/feeds', { config: reading }, async ({ rankerUser, permit: { signal } }) => {
    return { feeds: await storage.feeds.list(rankerUser.id, signal) };
  });
  app.post<{ Body: { readonly url: string; readonly title: string; readonly folder: string } }>(
    '/feeds',
    { config: { ...changing, lane: lanes.rank }, schema: { body: feed } },
    async ({ rankerUser, body, permit: { signal } }, reply) => {
      const found = await findFeed(fetcher, { address: body.url, signal });
      const { url } = found;
      const title = body.title || found.title;
      const named = { title, isNamed: body.title !== '', folder: body.folder };
      await reader.subscribe(rankerUser.id, [{ url, ...named }], signal);
      void refresh.look();
      reply.code(201);
      return { url, title };
    },
  );
  app.delete<Named>(
    '/feeds/:id',
    { config: changing, schema: { params: idSchema } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      await reader.unsubscribe(rankerUser.id, id, signal);
      return { removed: id };
    },
  );
  app.get('/feeds/opml', { config: reading }, async ({ rankerUser, permit }, reply) => {
    reply.type('text/x-opml; charset=utf-8');
    const feeds = await storage.feeds.list(rankerUser.id, permit.signal);
    return opmlOf(`Feeds of ${rankerUser.name}`, feeds);
  });
  await app.register(async (scope) => {
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
      done(null, text),
    );
    scope.post(
      '/feeds/opml',
      { config: { ...changing, bodyTypes: 'any' }, bodyLimit: bodyBytesMax },
      async ({ rankerUser, body, permit: { signal } }, reply) => {
        const list = await fetcher.parseOpml(String(body ?? ''), signal);
        const feeds = listedFeeds(list);
        await reader.subscribe(rankerUser.id, feeds, signal);
        void refresh.look();
        reply.code(201);
        return { feeds: feeds.length, leftOut: list.leftOut };
      },
    );
  });
};

/** A user's mutes and boosts, for programs. */
export const ruleRoutes: FastifyPluginAsync<FeedRoutesOptions> = async (app, options) => {
  const { reader, storage, lanes } = options;
  const reading = { lane: lanes.read } as const;
  const changing = { lane: lanes.corrections, csrf: false } as const;
  app.get('/rules', { config: reading }, async ({ rankerUser, permit: { signal } }) => {
    return { rules: await storage.rules.list(rankerUser.id, signal) };
  });
  app.post<{ Body: NewRule }>(
    '/rules',
    { config: changing, schema: { body: rule } },
    async ({ rankerUser, body, permit: { signal } }, reply) => {
      await reader.addRule(rankerUser.id, checkRule(body), signal);
      reply.code(201);
      return { rules: await storage.rules.list(rankerUser.id, signal) };
    },
  );
  app.delete<Named>(
    '/rules/:id',
    { config: changing, schema: { params: idSchema } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      await reader.removeRule(rankerUser.id, id, signal);
      return { removed: id };
    },
  );
};
