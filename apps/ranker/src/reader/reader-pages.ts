import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import { assets, html } from 'spillway-http';
import { requireLogin } from '../server/access.ts';
import type { RankerContext } from '../server/context.ts';
import { articlePane, closedPane, type OpenArticle } from './article-pane.ts';
import { feedsView } from './feeds-page.ts';
import { frame } from './frame.ts';
import { type Images, imageRoutes } from './images.ts';
import { goneView, listAddress, listQuery, listView } from './list-view.ts';
import { loginRoutes } from './login.ts';
import { rulesView } from './rules-page.ts';

export interface ReaderPagesOptions
  extends Pick<RankerContext, 'reader' | 'ranking' | 'storage' | 'lists' | 'lanes' | 'clock'> {
  readonly images: Images;
}

/**
 * The reader at `/reader`, for people with a browser. The server needs sessions, their check of
 * changes, and live pages.
 */
export const readerPages: FastifyPluginAsync<ReaderPagesOptions> = async (app, options) => {
  await app.register(assets, {
    root: join(import.meta.dirname, 'assets'),
    prefix: '/reader/assets/',
    maxAgeSeconds: 300,
  });
  const offline = await readFile(join(import.meta.dirname, 'assets', 'offline.js'));
  app.get('/reader/offline.js', (_request, reply) =>
    reply
      .type('text/javascript; charset=utf-8')
      // A worker serves what is below its own address, unless it is allowed more.
      .header('service-worker-allowed', '/reader')
      .header('cache-control', 'no-cache')
      .send(offline),
  );
  await app.register(loginRoutes, options);
  await app.register(async (scope) => {
    requireLogin(scope);
    addList(scope, options);
    addOthers(scope, options);
    imageRoutes(scope, options.images, options.lanes.images);
  });
};

/** The pages of feeds and of rules. */
function addOthers(app: FastifyInstance, { storage, lists, clock }: ReaderPagesOptions): void {
  app.get('/reader/feeds', async ({ rankerUser: { id, name }, permit }, reply) => {
    const feeds = await storage.feeds.list(id, permit.signal);
    const body = feedsView(feeds, reply.csrfToken(), clock.now());
    return frame(reply, { title: 'Feeds', name, body });
  });
  app.get('/reader/rules', async ({ rankerUser: { id, name }, query, permit }, reply) => {
    const rules = await storage.rules.list(id, permit.signal);
    const feeds = await storage.feeds.list(id, permit.signal);
    const slow = lists.find(id)?.slowRules ?? [];
    const given = Object(query);
    const field = String(given.field ?? '');
    const value = String(given.value ?? '').slice(0, 200);
    const body = rulesView({ rules, slow, token: reply.csrfToken(), feeds, field, value });
    return frame(reply, { title: 'Rules', name, body });
  });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The article that the reader's page shows beside the list. */
    openArticle: OpenArticle | undefined;
  }
}

function addList(app: FastifyInstance, options: ReaderPagesOptions): void {
  const { lists } = options;
  const wanted = (request: FastifyRequest) => listQuery(Object(request.query));
  app.decorateRequest('openArticle');
  app.livePage('/reader', {
    states: [lists],
    key: (request) => `${request.rankerUser.id} ${listAddress(wanted(request))}`,
    view: (key) => {
      const [userId = '', address = ''] = key.split(' ');
      const fields = new URLSearchParams(address.split('?')[1]);
      const query = listQuery(Object.fromEntries(fields));
      const list = lists.find(userId)?.list(query);
      return list === undefined ? goneView() : listView(list, query);
    },
    page: (list, request, reply) => {
      const query = wanted(request);
      const search = query.words.join(' ');
      const open = request.openArticle;
      const title = open?.listed.title ?? (search === '' ? 'To read' : `Search: ${search}`);
      const pane = open === undefined ? closedPane() : articlePane(open, query);
      const body = html`${list}${pane}`;
      return frame(reply, { title, search, name: request.rankerUser.name, body, layout: 'panes' });
    },
    route: {
      preHandler: async (request, reply) => {
        const { id } = request.rankerUser;
        const userLists = lists.open(id);
        const watching = userLists.watch();
        reply.raw.once('close', () => watching[Symbol.dispose]());
        const { open } = Object(request.query);
        const isChanged = typeof open !== 'string' && userLists.closeAll();
        await userLists.prepare(wanted(request));
        if (isChanged) await userLists.refresh();
        if (typeof open !== 'string' || !/^[\w-]{1,64}$/.test(open)) return;
        request.openArticle = await openArticle(options, id, open, request.permit.signal);
      },
    },
  });
}

/** Reads an article for its page, and marks it as read. */
async function openArticle(
  { reader, ranking, lists, images }: ReaderPagesOptions,
  userId: string,
  id: string,
  signal: AbortSignal,
): Promise<OpenArticle | undefined> {
  const { articles } = await reader.articles(userId, { ids: [id], limit: 1 }, signal);
  const [listed] = articles;
  if (listed === undefined) return undefined;
  const ranked = await ranking.explain(userId, id, signal);
  if (!listed.isRead) {
    const userLists = lists.open(userId);
    userLists.open(id);
    await reader.markRead(userId, [id], signal);
    await userLists.refresh();
  }
  const feedTitle = lists.open(userId).feedTitle(listed.feedId);
  return { listed, ranked, feedTitle, imagePath: (url) => images.path(url, userId) };
}
