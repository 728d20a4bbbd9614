import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import type { Clock } from 'spillway';
import { formatOpml } from '../feeds/opml.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Reader } from '../ranking/reader.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { Desks } from './desks.ts';
import type { FeedRefresh } from './feed-refresh.ts';
import { feedsView } from './feeds-page.ts';
import { frame } from './frame.ts';
import { findFeed, listedFeeds } from './new-feeds.ts';
import { answerForm, userOf } from './reader-session.ts';

export interface FeedRoutesOptions {
  readonly reader: Reader;
  readonly storage: RankerStorage;
  readonly desks: Desks;
  readonly fetcher: Pick<Fetcher, 'fetchFeed' | 'parseOpml'>;
  readonly refresh: Pick<FeedRefresh, 'look'>;
  /** UNIX milliseconds. */
  readonly clock: Clock;
}

const params = {
  type: 'object',
  properties: { id: { type: 'string', pattern: '^[\\w-]{1,64}$' } },
} as const;
const oneField = (name: string) => {
  return { type: 'object', required: [name], properties: { [name]: { type: 'string' } } } as const;
};

const name = { type: 'string', maxLength: 200 } as const;
const feedEdit = {
  type: 'object',
  required: ['title', 'folder'],
  properties: { title: name, folder: name, full: { const: 'yes' } },
} as const;

const opmlBytesMax = 4_194_304;

/** Seeing, adding, removing, importing and exporting feeds. */
export const feedRoutes: FastifyPluginAsync<FeedRoutesOptions> = async (app, options) => {
  const { reader, storage, fetcher, refresh, clock } = options;

  app.get('/reader/feeds', async (request, reply) => {
    const { id, name } = userOf(request);
    const feeds = await storage.feeds.list(id, request.permit.signal);
    const body = feedsView(feeds, reply.csrfToken(), clock.now());
    return frame(reply, { title: 'Feeds', name, body });
  });

  app.get('/reader/feeds.opml', async (request, reply) => {
    const feeds = await storage.feeds.list(userOf(request).id, request.permit.signal);
    void reply.headers({
      'content-type': 'text/x-opml; charset=utf-8',
      'content-disposition': 'attachment; filename="feeds.opml"',
    });
    const named = feeds.map(({ url, title, siteUrl, folder }) => {
      return {
        url,
        title: title || url,
        siteUrl,
        folders: folder === '' ? [] : folder.split(' / '),
      };
    });
    return formatOpml('Feeds', named);
  });

  app.post<{ Body: { url: string } }>(
    '/reader/feeds',
    { schema: { body: oneField('url') } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        const { signal } = request.permit;
        const feed = await findFeed(fetcher, request.body.url, signal);
        await reader.subscribe(id, [feed], signal);
        void refresh.look();
        return `${feed.title || feed.url}: added.`;
      });
    },
  );

  app.post<{ Body: { opml: string } }>(
    '/reader/feeds/import',
    { schema: { body: oneField('opml') }, bodyLimit: opmlBytesMax },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        const { signal } = request.permit;
        const feeds = listedFeeds(await fetcher.parseOpml(request.body.opml, signal));
        await reader.subscribe(id, feeds, signal);
        void refresh.look();
        return feeds.length === 1 ? '1 feed imported.' : `${feeds.length} feeds imported.`;
      });
    },
  );
  changeRoutes(app, options);
};

/** Changing, refreshing and removing one feed. */
function changeRoutes(app: FastifyInstance, options: FeedRoutesOptions): void {
  const { reader, storage, refresh } = options;
  app.post<{ Params: { id: string }; Body: { title: string; folder: string; full?: string } }>(
    '/reader/feeds/:id/edit',
    { schema: { params, body: feedEdit } },
    (request, reply) => {
      const { id } = userOf(request);
      const { title, folder, full } = request.body;
      return answerForm(reply, '/reader/feeds', async () => {
        const edit = { title: title.trim(), folder: folder.trim(), isFullText: full === 'yes' };
        await reader.editFeed(id, request.params.id, edit, request.permit.signal);
        return 'The feed is changed.';
      });
    },
  );

  app.post<{ Params: { id: string } }>(
    '/reader/feeds/:id/refresh',
    { schema: { params } },
    (request, reply) =>
      answerForm(reply, '/reader/feeds', async () => {
        await storage.feeds.hurry(request.params.id, request.permit.signal);
        void refresh.look();
        return 'The feed is fetched now.';
      }),
  );

  app.post<{ Params: { id: string } }>(
    '/reader/feeds/:id/remove',
    { schema: { params } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        await reader.unsubscribe(id, request.params.id, request.permit.signal);
        return 'The feed is gone.';
      });
    },
  );
}
