import type { FastifyPluginAsync } from 'fastify';
import type { Desks } from './desks.ts';
import { frame } from './frame.ts';
import { answerForm, backOf, userOf } from './reader-session.ts';
import type { ReaderStore } from './reader-store.ts';
import { whyView } from './why-page.ts';

export interface ArticleRoutesOptions {
  readonly store: ReaderStore;
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

type ArticleChange = ReaderStore['unvote'];

/** Rating an article, being done with it, and asking why it has its score. */
export const articleRoutes: FastifyPluginAsync<ArticleRoutesOptions> = async (app, options) => {
  const { store, desks } = options;

  app.post<Article & { Body: { score: string } }>(
    '/reader/articles/:id/vote',
    { schema: { params, body: vote } },
    (request, reply) => {
      const { id } = userOf(request);
      const score = Number(request.body.score);
      return answerForm(reply, backOf(request.body), async () => {
        const { signal } = request.permit;
        await store.vote(id, { articleId: request.params.id, score }, signal);
        // Answered when the order has changed, so that whoever reloads sees it.
        await desks.open(id).refresh();
        return `You gave it ${score}.`;
      });
    },
  );

  const change = (name: string, done: string, work: ArticleChange): void => {
    app.post<Article>(`/reader/articles/:id/${name}`, { schema: { params } }, (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, backOf(request.body), async () => {
        await work(id, request.params.id, request.permit.signal);
        await desks.open(id).refresh();
        return done;
      });
    });
  };
  change('unvote', 'Your rating is taken back.', (...asked) => store.unvote(...asked));
  change('done', 'Done with it.', (...asked) => store.markRead(...asked));

  app.get<Article>('/reader/articles/:id/why', { schema: { params } }, async (request, reply) => {
    const { id, name } = userOf(request);
    const articleId = request.params.id;
    const why = await store.explain(id, articleId, request.permit.signal);
    const title = desks.find(id)?.titleOf(articleId) ?? 'This article';
    return frame(reply, { title: 'Why', name, body: whyView(title, why) });
  });

  app.post('/reader/samples', (request, reply) => {
    const { id } = userOf(request);
    return answerForm(reply, '/reader', async () => {
      await store.addSamples(id, request.permit.signal);
      await desks.open(id).refresh();
      return 'Sample articles are here: rate three of them and see the order change.';
    });
  });
};
