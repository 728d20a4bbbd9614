import type { FastifyPluginAsync } from 'fastify';
import { rankerError } from '../errors.ts';
import type { ReaderArticle } from '../ranking/reader.ts';
import { explanationAnswer, rounded } from './answers.ts';
import type { RankerContext } from './context.ts';
import { idSchema, scoreSchema } from './request-schemas.ts';

type Named = { Params: { readonly id: string } };

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
const wordsMax = 8;

/** Articles by score, votes and explanations, for programs. */
export const articleRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { reader, ranking, lanes } = options;
  const reading = { lane: lanes.read, domain: 'thread' } as const;
  const changing = { lane: lanes.corrections, domain: 'thread', csrf: false } as const;

  app.get<{ Querystring: { readonly limit: number; readonly search?: string } }>(
    '/articles',
    { config: reading, schema: { querystring: listing } },
    async ({ rankerUser, query: { limit, search = '' }, permit: { signal } }) => {
      const words = search.toLowerCase().split(/\s+/).filter(Boolean).slice(0, wordsMax);
      const shelf = await reader.articles(rankerUser.id, { words, limit }, signal);
      const sorted = shelf.articles.toSorted((one, other) => (other.score ?? 0) - (one.score ?? 0));
      return { version: shelf.tasteVersion, articles: sorted.map(articleAnswer) };
    },
  );
  app.get<Named>(
    '/articles/:id/explanation',
    { config: reading, schema: { params: idSchema } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      const ranked = await ranking.explain(rankerUser.id, id, signal);
      if (ranked?.explained === undefined) throw rankerError('RECORD_UNKNOWN', `no article ${id}`);
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
  app.delete<Named>(
    '/votes/:id',
    { config: changing, schema: { params: idSchema } },
    async ({ rankerUser, params: { id }, permit: { signal } }) => {
      await ranking.unvote(rankerUser.id, id, signal);
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
