import type { FastifyPluginAsync } from 'fastify';
import { rankerError } from '../errors.ts';
import { formatOpml } from '../feeds/opml.ts';
import { webUrl } from '../fetching/canonical-url.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { RankerReader } from '../ranking/ranker-reader.ts';
import type { Ranking } from '../ranking/ranking.ts';
import type { NewRule, ReaderArticle } from '../reader/reader-store.ts';
import { explanationAnswer, rounded } from './answers.ts';
import type { RankerLanes } from './ranker-lanes.ts';
import { bodyBytesMax, scoreSchema, titleMax, urlSchema } from './request-schemas.ts';

export interface ArticleRoutesOptions {
  readonly reader: RankerReader;
  readonly ranking: Ranking;
  readonly fetcher: Pick<Fetcher, 'parseOpml'>;
  readonly lanes: RankerLanes;
}

type Named = { Params: { readonly id: string } };

const named = {
  type: 'object',
  properties: { id: { type: 'string', minLength: 1, maxLength: 64, pattern: '^[\\w-]+$' } },
};
const listing = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 100 },
    search: { type: 'string', maxLength: 200 },
  },
};
const vote = {
  type: 'object',
  required: ['article', 'score'],
  properties: { article: { type: 'string', minLength: 1, maxLength: 64 }, score: scoreSchema },
  additionalProperties: false,
};
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
    field: { enum: ['source', 'words', 'pattern'] },
    value: { type: 'string', minLength: 1, maxLength: 200 },
    points: { type: 'number', minimum: -9, maximum: 9, default: 0 },
  },
  additionalProperties: false,
};
const wordsMax = 8;

/** Articles by score, votes, explanations, feeds and rules, for programs. */
export const articleRoutes: FastifyPluginAsync<ArticleRoutesOptions> = async (app, options) => {
  const { reader, ranking, fetcher, lanes } = options;
  const reading = { lane: lanes.read, domain: 'thread' } as const;
  const changing = { lane: lanes.corrections, domain: 'thread', csrf: false } as const;

  app.get<{ Querystring: { readonly limit: number; readonly search?: string } }>(
    '/articles',
    { config: reading, schema: { querystring: listing } },
    async ({ rankerUser, query: { limit, search = '' }, permit: { signal } }) => {
      const words = search.toLowerCase().split(/\s+/).filter(Boolean).slice(0, wordsMax);
      const shelf = await reader.search(rankerUser.id, { words, limit }, signal);
      const sorted = shelf.articles.toSorted((one, other) => (other.score ?? 0) - (one.score ?? 0));
      return { version: shelf.tasteVersion, articles: sorted.map(articleAnswer) };
    },
  );
  app.get<Named>(
    '/articles/:id/explanation',
    { config: reading, schema: { params: named } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      const ranked = await ranking.explain(rankerUser.id, id, signal);
      if (ranked?.explained === undefined) throw rankerError('NOT_FOUND', `no article ${id}`);
      const { article, score, explained } = ranked;
      const told = { id, url: article.url, title: article.title, rank: rounded(score.score) };
      return { ...told, version: score.version, explanation: explanationAnswer(explained) };
    },
  );
  app.post<{ Body: { readonly article: string; readonly score: number } }>(
    '/votes',
    { config: changing, schema: { body: vote } },
    async ({ rankerUser, body, permit: { signal } }) => {
      const done = await ranking.vote(rankerUser.id, body.article, body.score, signal);
      const { predicted, score } = done;
      const told = { id: done.article.id, predicted: rounded(predicted) };
      return { ...told, rank: rounded(score.score), version: score.version };
    },
  );

  app.get('/feeds', { config: reading }, async ({ rankerUser, permit: { signal } }) => {
    return { feeds: await reader.feeds(rankerUser.id, signal) };
  });
  app.post<{ Body: { readonly url: string; readonly title: string; readonly folder: string } }>(
    '/feeds',
    { config: changing, schema: { body: feed } },
    async ({ rankerUser, body, permit: { signal } }, reply) => {
      const url = webUrl(body.url)?.href;
      if (url === undefined) throw rankerError('INPUT_INVALID', 'body.url: no address of the web');
      await reader.subscribe(rankerUser.id, [{ ...body, url }], signal);
      reply.code(201);
      return { url };
    },
  );
  app.delete<Named>(
    '/feeds/:id',
    { config: changing, schema: { params: named } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      await reader.unsubscribe(rankerUser.id, id, signal);
      return { removed: id };
    },
  );
  app.get('/feeds/opml', { config: reading }, async ({ rankerUser, permit }, reply) => {
    reply.type('text/x-opml; charset=utf-8');
    const feeds = await reader.feeds(rankerUser.id, permit.signal);
    const listed = feeds.map(({ folder, ...one }) => {
      return { ...one, folders: folder === '' ? [] : folder.split(' / ') };
    });
    return formatOpml(`Feeds of ${rankerUser.name}`, listed);
  });
  await app.register(async (scope) => {
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
      done(null, text),
    );
    scope.post(
      '/feeds/opml',
      { config: { ...changing, bodyTypes: 'any' }, bodyLimit: bodyBytesMax },
      async ({ rankerUser, body, permit: { signal } }, reply) => {
        const found = await fetcher.parseOpml(String(body ?? ''), signal);
        const feeds = found.map(({ url, title, folders }) => {
          return { url, title, folder: folders.join(' / ') };
        });
        await reader.subscribe(rankerUser.id, feeds, signal);
        reply.code(201);
        return { feeds: feeds.length };
      },
    );
  });

  app.get('/rules', { config: reading }, async ({ rankerUser, permit: { signal } }) => {
    return { rules: await reader.rules(rankerUser.id, signal) };
  });
  app.post<{ Body: NewRule }>(
    '/rules',
    { config: changing, schema: { body: rule } },
    async ({ rankerUser, body, permit: { signal } }, reply) => {
      await reader.addRule(rankerUser.id, body, signal);
      reply.code(201);
      return { rules: await reader.rules(rankerUser.id, signal) };
    },
  );
  app.delete<Named>(
    '/rules/:id',
    { config: changing, schema: { params: named } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      await reader.removeRule(rankerUser.id, id, signal);
      return { removed: id };
    },
  );
};

function articleAnswer(article: ReaderArticle): object {
  const { id, url, title, source, publishedAt, score, vote: voted, isRead } = article;
  const rank = score === undefined ? null : rounded(score);
  const published = new Date(publishedAt).toISOString();
  return { id, url, title, source, published, rank, vote: voted ?? null, read: isRead };
}
