import type { FastifyPluginAsync } from 'fastify';
import type { Clock } from 'spillway';
import { httpError } from 'spillway-http';
import { unavailableError } from '../errors.ts';
import { formatOpml } from '../feeds/opml.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import type { Desks } from './desks.ts';
import type { FeedRefresh } from './feed-refresh.ts';
import { feedsView } from './feeds-page.ts';
import { frame } from './frame.ts';
import { answerForm, userOf } from './reader-session.ts';
import type { NewFeed, ReaderStore } from './reader-store.ts';

export interface FeedRoutesOptions {
  readonly store: ReaderStore;
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

/** How many feeds one list may bring, and how long names may be. */
const feedsMax = 1_000;
const nameLengthMax = 200;
const opmlBytesMax = 4_194_304;

/** Seeing, adding, removing, importing and exporting feeds. */
export const feedRoutes: FastifyPluginAsync<FeedRoutesOptions> = async (app, options) => {
  const { store, desks, fetcher, refresh, clock } = options;

  app.get('/reader/feeds', async (request, reply) => {
    const { id, name } = userOf(request);
    const feeds = await store.feeds(id, request.permit.signal);
    const body = feedsView(feeds, reply.csrfToken(), clock.now());
    return frame(reply, { title: 'Feeds', place: 'Feeds', name, body });
  });

  app.get('/reader/feeds.opml', async (request, reply) => {
    const feeds = await store.feeds(userOf(request).id, request.permit.signal);
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
        const feed = await findFeed(fetcher, request.body.url.trim(), signal);
        await store.subscribe(id, [feed], signal);
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
        const found = await fetcher.parseOpml(request.body.opml, signal);
        if (found.length > feedsMax) {
          throw httpError(
            'INPUT_INVALID',
            `a list may have ${feedsMax} feeds, not ${found.length}`,
          );
        }
        const feeds = found.map(({ url, title, folders }): NewFeed => {
          const folder = folders.join(' / ').slice(0, nameLengthMax);
          return { url, title: title.slice(0, nameLengthMax), folder };
        });
        await store.subscribe(id, feeds, signal);
        void refresh.look();
        return feeds.length === 1 ? '1 feed imported.' : `${feeds.length} feeds imported.`;
      });
    },
  );

  app.post<{ Params: { id: string } }>(
    '/reader/feeds/:id/remove',
    { schema: { params } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/feeds', async () => {
        await store.unsubscribe(id, request.params.id, request.permit.signal);
        desks.find(id)?.refreshSoon();
        return 'The feed is gone.';
      });
    },
  );
};

/** Asked for before it is kept, so that nothing is kept that is no feed. */
async function findFeed(
  fetcher: FeedRoutesOptions['fetcher'],
  url: string,
  signal: AbortSignal,
): Promise<NewFeed> {
  const isWeb = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isWeb) throw httpError('INPUT_INVALID', 'the address of a feed begins with https://');
  const answer = await fetcher.fetchFeed(url, { signal });
  if (answer.kind === 'unavailable') throw unavailableError(answer);
  if (answer.kind === 'unchanged') return { url, title: '', folder: '' };
  const { feed } = answer;
  return { url: feed.url, title: feed.title.slice(0, nameLengthMax), folder: '' };
}
