import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import type { Clock } from 'spillway';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Reader } from '../ranking/reader.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import type { Desks } from './desks.ts';
import type { FeedRefresh } from './feed-refresh.ts';
import { feedsView } from './feeds-page.ts';
import { frame } from './frame.ts';
import {
  type CredentialFields,
  credentialsOf,
  findFeed,
  listedFeeds,
  opmlOf,
} from './new-feeds.ts';
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
const opmlForm = {
  type: 'object',
  required: ['opml'],
  properties: { opml: { type: 'string' } },
} as const;

const name = { type: 'string', maxLength: 200 } as const;
const secret = { type: 'string', maxLength: 2_100 } as const;
const credentialForm = {
  type: 'object',
  properties: { name: secret, password: secret, header: secret },
} as const;
const newFeed = {
  type: 'object',
  required: ['url'],
  properties: { url: { type: 'string' }, ...credentialForm.properties },
} as const;
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
    return opmlOf('Feeds', feeds);
  });

  app.post<{ Body: { url: string } & CredentialFields }>(
    '/reader/feeds',
    { schema: { body: newFeed } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        const { signal } = request.permit;
        const { url: address, ...fields } = request.body;
        const credentials = credentialsOf(fields);
        const feed = await findFeed(fetcher, { address, credentials, signal });
        const known = (await storage.feeds.list(id, signal)).find(({ url }) => url === feed.url);
        if (known === undefined) await reader.subscribe(id, [feed], signal);
        else if (feed.credentials !== undefined) {
          await reader.setCredentials(id, known.id, feed.credentials, signal);
        }
        void refresh.look();
        const done = `${feed.title || feed.url}: added.`;
        if (credentials === undefined || feed.credentials !== undefined) return done;
        const { origin } = new URL(feed.url);
        return `${done} It is at another site, ${origin}, which is not sent the credentials.`;
      });
    },
  );

  app.post<{ Body: { opml: string } }>(
    '/reader/feeds/import',
    { schema: { body: opmlForm }, bodyLimit: opmlBytesMax },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        const { signal } = request.permit;
        const list = await fetcher.parseOpml(request.body.opml, signal);
        const feeds = listedFeeds(list);
        await reader.subscribe(id, feeds, signal);
        void refresh.look();
        const done = feeds.length === 1 ? '1 feed imported.' : `${feeds.length} feeds imported.`;
        const why = 'listed twice, or without an address of the web';
        return list.leftOut === 0 ? done : `${done} ${list.leftOut} left out: ${why}.`;
      });
    },
  );
  changeRoutes(app, options);
};

/** Changing, refreshing and removing one feed. */
function changeRoutes(app: FastifyInstance, options: FeedRoutesOptions): void {
  const { reader, refresh } = options;
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

  app.post<{ Params: { id: string }; Body: CredentialFields }>(
    '/reader/feeds/:id/credentials',
    { schema: { params, body: credentialForm } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        const credentials = credentialsOf(request.body);
        const { signal } = request.permit;
        await reader.setCredentials(id, request.params.id, credentials, signal);
        void refresh.look();
        const done = credentials === undefined ? 'are gone' : 'are kept, and shown nowhere';
        return `The credentials of the feed ${done}. It is fetched now.`;
      });
    },
  );

  app.post<{ Params: { id: string } }>(
    '/reader/feeds/:id/refresh',
    { schema: { params } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        await reader.hurryFeed(id, request.params.id, request.permit.signal);
        void refresh.look();
        return 'The feed is fetched now.';
      });
    },
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
