import type { FastifyPluginAsync } from 'fastify';
import type { Reader } from '../ranking/reader.ts';
import type { Desks } from './desks.ts';
import { answerForm, backOf, userOf } from './reader-session.ts';

export interface ArticleRoutesOptions {
  readonly reader: Reader;
  readonly desks: Desks;
}

const params = {
  type: 'object',
  properties: { id: { type: 'string', pattern: '^[\\w-]{1,64}$' } },
} as const;

const vote = {
  type: 'object',
  required: ['score'],
  properties: { score: { type: 'string', pattern: '^(?:[1-9]|10)$' } },
} as const;

interface Article {
  readonly Params: { readonly id: string };
}

type Work = (userId: string, articleId: string, signal: AbortSignal) => Promise<unknown>;

/** Rating an article, marking it, and being done with it or with all. */
export const articleRoutes: FastifyPluginAsync<ArticleRoutesOptions> = async (app, options) => {
  const { reader, desks } = options;

  app.post<Article & { Body: { score: string } }>(
    '/reader/articles/:id/vote',
    { schema: { params, body: vote } },
    (request, reply) => {
      const { id } = userOf(request);
      const score = Number(request.body.score);
      return answerForm(reply, backOf(request.body), async () => {
        await reader.vote(id, request.params.id, score, request.permit.signal);
        // Answered when the order has changed, so that a page that is loaded then shows it.
        await desks.open(id).refresh();
        return `You gave it ${score}.`;
      });
    },
  );

  const change = (name: string, done: string, work: Work): void => {
    app.post<Article>(`/reader/articles/:id/${name}`, { schema: { params } }, (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, backOf(request.body), async () => {
        await work(id, request.params.id, request.permit.signal);
        await desks.open(id).refresh();
        return done;
      });
    });
  };
  change('unvote', 'Your rating is taken back.', (user, id, signal) =>
    reader.unvote(user, id, signal),
  );
  change('done', 'Done with it.', (user, id, signal) => {
    desks.open(user).close(id);
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

  app.post<{ Body: { feed?: string } }>('/reader/read-all', (request, reply) => {
    const { id } = userOf(request);
    const feed = String(request.body?.feed ?? '');
    return answerForm(reply, '/reader', async () => {
      const ids = desks.open(id).unread(feed);
      const at = await reader.markRead(id, ids, request.permit.signal);
      desks.open(id).closeAll();
      await desks.open(id).refresh();
      reply.header('x-read-at', String(at));
      return `${ids.length} marked as read. Press u to take it back.`;
    });
  });
  app.post<{ Body: { at?: string } }>('/reader/unread-all', (request, reply) => {
    const { id } = userOf(request);
    return answerForm(reply, '/reader', async () => {
      await reader.markUnread(id, { at: Number(request.body?.at) }, request.permit.signal);
      await desks.open(id).refresh();
      return 'They are unread again.';
    });
  });

  app.post('/reader/samples', (request, reply) => {
    const { id } = userOf(request);
    return answerForm(reply, '/reader', async () => {
      await reader.addSamples(id, request.permit.signal);
      await desks.open(id).refresh();
      return 'Sample articles are here: rate three of them and see the order change.';
    });
  });
};
