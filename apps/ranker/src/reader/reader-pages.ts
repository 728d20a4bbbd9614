import { join } from 'node:path';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock, Lane } from 'spillway';
import { assets, wantsPage } from 'spillway-http';
import type { Fetcher } from '../fetching/fetcher.ts';
import { articleRoutes } from './article-routes.ts';
import type { Desks } from './desks.ts';
import type { FeedRefresh } from './feed-refresh.ts';
import { feedRoutes } from './feed-routes.ts';
import { frame } from './frame.ts';
import { goneView, listAddress, listQuery, listView } from './list-view.ts';
import { loginRoutes } from './login.ts';
import { isKnown, userOf } from './reader-session.ts';
import type { ReaderStore } from './reader-store.ts';
import { ruleRoutes } from './rule-routes.ts';

export interface ReaderPagesOptions {
  readonly store: ReaderStore;
  readonly desks: Desks;
  readonly fetcher: Pick<Fetcher, 'fetchFeed' | 'parseOpml'>;
  readonly refresh: Pick<FeedRefresh, 'look'>;
  /** UNIX milliseconds. */
  readonly clock: Clock;
  /** The lane of all its routes. @default the server's */
  readonly lane?: Lane | undefined;
}

/**
 * The reader at `/reader`, for people with a browser. The server needs sessions, their check of
 * changes, and live pages.
 */
export const readerPages: FastifyPluginAsync<ReaderPagesOptions> = async (app, options) => {
  if (options.lane !== undefined) {
    const { lane } = options;
    app.addHook('onRoute', (route) => {
      route.config = { lane, ...route.config };
    });
  }
  await app.register(assets, {
    root: join(import.meta.dirname, 'assets'),
    prefix: '/reader/assets/',
    maxAgeSeconds: 300,
  });
  await app.register(loginRoutes, options);
  await app.register(async (scope) => {
    scope.addHook('onRequest', needUser);
    addList(scope, options);
    await scope.register(articleRoutes, options);
    await scope.register(feedRoutes, options);
    await scope.register(ruleRoutes, options);
  });
};

async function needUser(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const isPage = request.method === 'GET' && wantsPage(request.headers.accept);
  if (isPage && !isKnown(request)) return reply.redirect('/reader/login', 303);
  userOf(request);
  return undefined;
}

function addList(app: FastifyInstance, { desks }: ReaderPagesOptions): void {
  const wanted = (request: FastifyRequest) => listQuery(Object(request.query));
  app.livePage('/reader', {
    states: [desks],
    key: (request) => `${userOf(request).id} ${listAddress(wanted(request))}`,
    view: (key) => {
      const [userId = '', address = ''] = key.split(' ');
      const fields = new URLSearchParams(address.split('?')[1]);
      const query = listQuery(Object.fromEntries(fields));
      const list = desks.find(userId)?.list(query);
      return list === undefined ? goneView() : listView(list, query);
    },
    page: (body, request, reply) => {
      const { listing, words } = wanted(request);
      const place = { new: 'To read', rated: 'Rated', all: 'All' }[listing];
      const search = words.join(' ');
      const named =
        words.length > 0 ? { title: `Search: ${search}`, search } : { title: place, place };
      return frame(reply, { ...named, name: userOf(request).name, body });
    },
    route: {
      preHandler: async (request) => {
        await desks.open(userOf(request).id).prepare(wanted(request));
      },
    },
  });
}
