import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { rankerError } from '../errors.ts';
import type { ReaderArticle } from '../ranking/reader.ts';
import { operate } from './access.ts';
import { explanationAnswer, rounded } from './answers.ts';
import type { RankerContext } from './context.ts';
import { type IdInPath, idSchema, nameSchema, scoreSchema } from './request-schemas.ts';

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
  properties: { article: nameSchema, score: scoreSchema },
  additionalProperties: false,
};
const score = {
  type: 'object',
  required: ['score'],
  properties: { score: scoreSchema },
  additionalProperties: false,
};
/** The feed that a request is about; absent or empty for all of them. */
const readAll = {
  type: 'object',
  properties: { feed: { type: 'string', pattern: '^[\\w-]{0,64}$' } },
};
const unreadAll = { type: 'object', required: ['at'], properties: { at: { type: 'number' } } };
const wordsMax = 8;
/** The page of articles, to which forms redirect. */
const page = '/reader';

/** Articles by score, votes, marks and explanations. */
export const articleRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { reader, ranking, lanes } = options;
  const reading = { lane: lanes.read, domain: 'thread' } as const;

  app.get<{ Querystring: { readonly limit: number; readonly search?: string } }>(
    '/articles',
    { config: reading, schema: { querystring: listing } },
    async ({ rankerUser, query: { limit, search = '' }, permit: { signal } }) => {
      const words = search
        .toLowerCase()
        .split(/[\s\0]+/)
        .filter(Boolean)
        .slice(0, wordsMax);
      const scored = await reader.articles(rankerUser.id, { words, limit }, signal);
      const sorted = scored.articles.toSorted(
        (one, other) => (other.score ?? 0) - (one.score ?? 0),
      );
      return { version: scored.tasteVersion, articles: sorted.map(articleAnswer) };
    },
  );
  app.get<IdInPath>(
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
  voteRoutes(app, options);
  markRoutes(app, options);
};

/** Rating an article, and removing the rating. */
function voteRoutes(app: FastifyInstance, { ranking, lists, lanes }: RankerContext): void {
  const config = { lane: lanes.corrections, domain: 'thread' } as const;
  const params = idSchema;
  const rate = async (userId: string, id: string, score: number, signal: AbortSignal) => {
    const { article, predicted, score: now } = await ranking.vote(userId, id, score, signal);
    const { version } = now;
    const result = {
      id: article.id,
      predicted: rounded(predicted),
      rank: rounded(now.score),
      version,
    };
    return { told: `You gave it ${score}.`, result };
  };
  const unrate = async (userId: string, id: string, signal: AbortSignal) => {
    await ranking.unvote(userId, id, signal);
    return { told: 'Your rating is taken back.', result: { removed: id } };
  };

  // Programs get their answer at once; the lists of the page are updated later.
  app.post<{ Body: { readonly article: string; readonly score: number } }>(
    '/votes',
    { config, schema: { body: vote } },
    ({ body: { article, score } }, reply) =>
      operate(reply, page, (userId, signal) => rate(userId, article, score, signal)),
  );
  app.delete<IdInPath>('/votes/:id', { config, schema: { params } }, (request, reply) =>
    operate(reply, page, (userId, signal) => unrate(userId, request.params.id, signal)),
  );
  // A browser is redirected after the order has changed, so that the next page shows it.
  app.post<IdInPath & { Body: { readonly score: number } }>(
    '/articles/:id/vote',
    { config, schema: { params, body: score } },
    ({ params: { id }, body }, reply) =>
      operate(reply, page, async (userId, signal) => {
        const outcome = await rate(userId, id, body.score, signal);
        await lists.open(userId).refresh();
        return outcome;
      }),
  );
  app.post<IdInPath>('/articles/:id/unvote', { config, schema: { params } }, (request, reply) =>
    operate(reply, page, async (userId, signal) => {
      const outcome = await unrate(userId, request.params.id, signal);
      await lists.open(userId).refresh();
      return outcome;
    }),
  );
}

type Work = (userId: string, articleId: string, signal: AbortSignal) => Promise<unknown>;

/** Marking articles, and marking one or all as read. */
function markRoutes(app: FastifyInstance, { reader, lists, lanes }: RankerContext): void {
  const config = { lane: lanes.corrections } as const;
  const change = (name: string, told: string, work: Work): void => {
    app.post<IdInPath>(
      `/articles/:id/${name}`,
      { config, schema: { params: idSchema } },
      ({ params: { id } }, reply) =>
        operate(reply, page, async (userId, signal) => {
          await work(userId, id, signal);
          await lists.open(userId).refresh();
          return { told };
        }),
    );
  };
  change('done', 'Done with it.', (user, id, signal) => {
    lists.open(user).close(id);
    return reader.markRead(user, [id], signal);
  });
  change('unread', 'It is unread again.', (user, id, signal) =>
    reader.markUnread(user, { id }, signal),
  );
  for (const [name, mark, words] of [
    ['star', 'starred', 'Starred.'],
    ['later', 'later', 'Saved for later.'],
  ] as const) {
    change(name, words, (user, id, signal) => reader.mark(user, id, mark, true, signal));
    change(`un${name}`, 'Taken off the list.', (user, id, signal) =>
      reader.mark(user, id, mark, false, signal),
    );
  }

  app.post<{ Body: { readonly feed?: string } }>(
    '/articles/read-all',
    { config, schema: { body: readAll } },
    ({ body: { feed = '' } }, reply) =>
      operate(reply, page, async (userId, signal) => {
        const { at, count } = await reader.markAllRead(userId, feed || undefined, signal);
        const userLists = lists.open(userId);
        userLists.closeAll();
        await userLists.refresh();
        return { told: `${count} marked as read.`, result: { at, count } };
      }),
  );
  app.post<{ Body: { readonly at: number } }>(
    '/articles/unread-all',
    { config, schema: { body: unreadAll } },
    ({ body: { at } }, reply) =>
      operate(reply, page, async (userId, signal) => {
        await reader.markUnread(userId, { at }, signal);
        await lists.open(userId).refresh();
        return { told: 'They are unread again.' };
      }),
  );
  app.post('/articles/samples', { config }, (_request, reply) =>
    operate(reply, page, async (userId, signal) => {
      await reader.addSamples(userId, signal);
      await lists.open(userId).refresh();
      return { told: 'Sample articles are here: rate three of them and see the order change.' };
    }),
  );
}

function articleAnswer(article: ReaderArticle): object {
  const { id, url, title, source, publishedAt, score, vote: voted, isRead } = article;
  const rank = score === undefined ? null : rounded(score);
  const published = new Date(publishedAt).toISOString();
  return { id, url, title, source, published, rank, vote: voted ?? null, read: isRead };
}
