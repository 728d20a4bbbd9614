import type { FastifyInstance, FastifyPluginAsync, FastifyReply } from 'fastify';
import { httpError } from 'spillway-http';
import {
  type CredentialFields,
  credentialsOf,
  findFeed,
  listedFeeds,
  opmlOf,
} from '../reader/new-feeds.ts';
import { operate } from './access.ts';
import type { RankerContext } from './context.ts';
import { bodyBytesMax, type IdInPath, idSchema, titleMax, urlSchema } from './request-schemas.ts';

const name = { type: 'string', maxLength: 200 } as const;
const secret = { type: 'string', maxLength: 2_100 } as const;
const credentialForm = {
  type: 'object',
  properties: { name: secret, password: secret, header: secret },
  additionalProperties: false,
} as const;
const newFeed = {
  type: 'object',
  required: ['url'],
  properties: {
    url: urlSchema,
    title: { type: 'string', maxLength: titleMax, default: '' },
    folder: { ...name, default: '' },
    ...credentialForm.properties,
  },
  additionalProperties: false,
} as const;
const feedEdit = {
  type: 'object',
  required: ['title', 'folder'],
  properties: { title: name, folder: name, full: { const: 'yes' } },
  additionalProperties: false,
} as const;

interface NewFeedBody extends CredentialFields {
  readonly url: string;
  readonly title: string;
  readonly folder: string;
}

type Work = Parameters<typeof operate>[2];

/** Runs a change of feeds; forms redirect to the page of feeds. */
const changing =
  ({ changes }: RankerContext) =>
  (reply: FastifyReply, work: Work) =>
    operate(reply, '/reader/feeds', work, changes);

/** A user's feeds: seeing, adding, importing and exporting them. */
export const feedRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { storage, fetcher, refresh, lanes, clock } = options;
  const reading = { lane: lanes.read, domain: 'thread' } as const;
  const config = { lane: lanes.corrections, domain: 'thread' } as const;
  const change = changing(options);

  app.get('/feeds', { config: reading }, async ({ rankerUser, permit: { signal } }) => {
    return { feeds: await storage.feeds.list(rankerUser.id, signal) };
  });
  app.get('/feeds/opml', { config: reading }, async ({ rankerUser, permit }, reply) => {
    const feeds = await storage.feeds.list(rankerUser.id, permit.signal);
    void reply.headers({
      'content-type': 'text/x-opml; charset=utf-8',
      'content-disposition': 'attachment; filename="feeds.opml"',
    });
    return opmlOf('Feeds', feeds);
  });

  app.post<{ Body: NewFeedBody }>(
    '/feeds',
    { config: { ...config, lane: lanes.rank }, schema: { body: newFeed } },
    ({ body }, reply) =>
      change(reply, async (userId, signal) => {
        const { url: address, title: given, folder, ...fields } = body;
        const asked = credentialsOf(fields);
        const found = await findFeed(fetcher, { address, credentials: asked, signal });
        const { url, credentials } = found;
        const title = given || found.title;
        const known = (await storage.feeds.list(userId, signal)).find((feed) => feed.url === url);
        if (known === undefined) {
          const feed = { url, title, isNamed: given !== '', folder, credentials };
          await storage.feeds.subscribe(userId, [feed], clock.now(), signal);
        } else if (credentials !== undefined) {
          const now = clock.now();
          await storage.feeds.setCredentials(userId, known.id, credentials, now, signal);
        }
        void refresh.look();
        const isElsewhere = asked !== undefined && credentials === undefined;
        const { origin } = new URL(url);
        const more = ` It is at another site, ${origin}, which is not sent the credentials.`;
        const told = `${title || url}: added.${isElsewhere ? more : ''}`;
        return { told, status: 201, result: { url, title } };
      }),
  );
  await app.register(async (scope) => {
    // As bytes: a file that is sent as it is may be in any encoding.
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) =>
      done(null, { opml: bytes }),
    );
    scope.post<{ Body: { readonly opml?: unknown } | undefined }>(
      '/feeds/opml',
      { config: { ...config, bodyTypes: 'any' }, bodyLimit: bodyBytesMax },
      ({ body }, reply) =>
        change(reply, async (userId, signal) => {
          const opml = body?.opml;
          const isSent = typeof opml === 'string' || opml instanceof Uint8Array;
          if (!isSent) throw httpError('INPUT_INVALID', 'opml: is missing');
          const list = await fetcher.parseOpml(opml, signal);
          const feeds = listedFeeds(list);
          await storage.feeds.subscribe(userId, feeds, clock.now(), signal);
          void refresh.look();
          const { leftOut } = list;
          const done = feeds.length === 1 ? '1 feed imported.' : `${feeds.length} feeds imported.`;
          const why = 'listed twice, or without an address of the web';
          const told = leftOut === 0 ? done : `${done} ${leftOut} left out: ${why}.`;
          return { told, status: 201, result: { feeds: feeds.length, leftOut } };
        }),
    );
  });
  oneFeedRoutes(app, options);
};

/** Changing, refreshing and removing one feed. */
function oneFeedRoutes(app: FastifyInstance, options: RankerContext): void {
  const { storage, refresh, lanes, clock, embedding } = options;
  const { feeds } = storage;
  const change = changing(options);
  const config = { lane: lanes.corrections, domain: 'thread' } as const;
  const params = idSchema;

  app.post<IdInPath & { Body: { title: string; folder: string; full?: string } }>(
    '/feeds/:id/edit',
    { config, schema: { params, body: feedEdit } },
    ({ params: { id }, body: { title, folder, full } }, reply) =>
      change(reply, async (userId, signal) => {
        const edit = { title: title.trim(), folder: folder.trim(), isFullText: full === 'yes' };
        await feeds.edit(userId, id, edit, signal);
        if (edit.isFullText) embedding.wake();
        return { told: 'The feed is changed.' };
      }),
  );
  app.post<IdInPath & { Body: CredentialFields }>(
    '/feeds/:id/credentials',
    { config, schema: { params, body: credentialForm } },
    ({ params: { id }, body }, reply) =>
      change(reply, async (userId, signal) => {
        const credentials = credentialsOf(body);
        await feeds.setCredentials(userId, id, credentials, clock.now(), signal);
        void refresh.look();
        const done = credentials === undefined ? 'are gone' : 'are kept, and shown nowhere';
        return { told: `The credentials of the feed ${done}. It is fetched now.` };
      }),
  );
  app.post<IdInPath>('/feeds/:id/refresh', { config, schema: { params } }, (request, reply) =>
    change(reply, async (userId, signal) => {
      await feeds.hurry(userId, request.params.id, signal);
      void refresh.look();
      return { told: 'The feed is fetched now.' };
    }),
  );
  // Forms can send only GET and POST.
  for (const [method, url] of [
    ['DELETE', '/feeds/:id'],
    ['POST', '/feeds/:id/remove'],
  ] as const) {
    app.route<IdInPath>({
      method,
      url,
      config,
      schema: { params },
      handler: ({ params: { id } }, reply) =>
        change(reply, async (userId, signal) => {
          await feeds.unsubscribe(userId, id, signal);
          return { told: 'The feed is gone.', result: { removed: id } };
        }),
    });
  }
}
