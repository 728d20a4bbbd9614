import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import { formFields } from 'spillway-http';
import { rankerError } from '../errors.ts';
import { findFeed } from '../reader/new-feeds.ts';
import { clean } from '../storage/articles.ts';
import type { NewFeed, ReaderFeed } from '../storage/feeds.ts';
import type { UserArticle } from '../storage/user-articles.ts';
import type { User } from '../storage/users.ts';
import type { RankerContext } from './context.ts';

type Options = Pick<
  RankerContext,
  'storage' | 'reader' | 'fetcher' | 'refresh' | 'lanes' | 'changes' | 'clock'
>;

const state = 'user/-/state/com.google/';
const label = 'user/-/label/';
const itemPrefix = 'tag:google.com,2005:reader/item/';
/** Most articles of one answer, and most articles of a list. */
const itemsMax = 1_000;
const listMax = 10_000;
/** A change of as many articles as a client gets at once, with room for its other fields. */
const fieldsMax = 2 * itemsMax;

/** Parameters of a request, from its address and its body. */
type Fields = URLSearchParams;

/**
 * The Google Reader API as present clients use it, below `/greader`. Any name is accepted, the
 * password is the user's key; articles come newest first.
 */
export const greaderRoutes: FastifyPluginAsync<Options> = async (app, options) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) => done(null, text));
  const config = {
    lane: options.lanes.read,
    domain: 'thread',
    csrf: false,
    bodyTypes: 'any',
  } as const;
  app.route({
    method: ['GET', 'POST'],
    url: '/greader/accounts/ClientLogin',
    config,
    handler: async (request, reply) => {
      const key = fieldsOf(request).get('Passwd') ?? '';
      const user = await options.storage.users.byKey(key, request.permit.signal);
      if (user === undefined)
        return reply.code(401).type('text/plain').send('Error=BadAuthentication');
      return reply.type('text/plain').send(`SID=${key}\nLSID=${key}\nAuth=${key}\n`);
    },
  });
  const add = (path: string, work: Work) => addRoute(app, path, options, work, config);
  add('token', async () => 'a-token-that-is-not-looked-at');
  add('user-info', async (_fields, { user }) => {
    return { userId: user.id, userName: user.name, userProfileId: user.id, userEmail: user.name };
  });
  add('tag/list', async (_fields, { feeds }) => {
    const folders = [...new Set((await feeds()).map(({ folder }) => folder))].filter(Boolean);
    return { tags: [{ id: `${state}starred` }, ...folders.map((one) => ({ id: label + one }))] };
  });
  add('subscription/list', async (_fields, { feeds }) => {
    return { subscriptions: (await feeds()).map(subscriptionOf) };
  });
  add('unread-count', async (_fields, { feeds }) => {
    const counts = (await feeds()).map(({ id, unread }) => ({ id: `feed/${id}`, count: unread }));
    const count = counts.reduce((sum, one) => sum + one.count, 0);
    return { max: itemsMax, unreadcounts: [{ id: `${state}reading-list`, count }, ...counts] };
  });
  add('stream/items/ids', async (fields, asker) => {
    const { items, continuation } = await streamOf(fields, fields.get('s') ?? '', asker);
    const itemRefs = items.map(({ id }) => ({ id: String(BigInt.asIntN(64, numberOf(id))) }));
    return { itemRefs, continuation };
  });
  add('stream/items/contents', async (fields, asker) => {
    const ids = await asker.idsOf(fields.getAll('i'));
    return await contentsOf(await asker.list({ ids, limit: itemsMax }), asker);
  });
  add('stream/contents/*', async (fields, asker) => {
    const { items, continuation } = await streamOf(fields, fields.get('s') ?? asker.rest, asker);
    return { ...(await contentsOf(items, asker)), continuation };
  });
  add('edit-tag', async (fields, { idsOf, user, signal }) => {
    const { reader } = options;
    for (const id of await idsOf(fields.getAll('i'))) {
      for (const isSet of [true, false]) {
        const tags = fields
          .getAll(isSet ? 'a' : 'r')
          .map((tag) => tag.replace(/^user\/[^/]+/, 'user/-'));
        if (tags.includes(`${state}starred`))
          await reader.mark(user.id, id, 'starred', isSet, signal);
        if (!tags.includes(`${state}read`)) continue;
        if (isSet) await reader.markRead(user.id, [id], signal);
        else await reader.markUnread(user.id, { id }, signal);
      }
    }
    return 'OK';
  });
  add('mark-all-as-read', async (fields, asker) => {
    const until = Number(fields.get('ts') ?? Infinity) / 1_000 || Infinity;
    const all = await streamArticles(namedStream(fields), asker);
    const ids = all
      .filter(({ isRead, addedAt }) => !isRead && addedAt <= until)
      .map(({ id }) => id);
    await options.reader.markRead(asker.user.id, ids, asker.signal);
    return 'OK';
  });
  add('subscription/edit', (fields, asker) => editSubscription(fields, asker, options));
  add('subscription/quickadd', async (fields, { user, signal }) => {
    const feed = await findFeed(options.fetcher, {
      address: fields.get('quickadd') ?? '',
      signal,
    });
    await subscribe(options, user.id, feed, signal);
    return { numResults: 1, query: feed.url, streamName: feed.title };
  });
};

type Work = (fields: Fields, asker: Asker) => Promise<unknown>;

/** A request of one user, with the look-ups that routes need. */
interface Asker {
  readonly user: User;
  readonly signal: AbortSignal;
  /** The end of the path. */
  readonly rest: string;
  readonly feeds: () => Promise<ReaderFeed[]>;
  readonly list: (query: {
    readonly ids?: readonly string[];
    readonly feedId?: string | undefined;
    readonly mark?: 'starred' | undefined;
    readonly limit: number;
  }) => Promise<UserArticle[]>;
  /** The articles of item numbers, which are decimal, or hexadecimal behind a prefix. */
  readonly idsOf: (items: readonly string[]) => Promise<string[]>;
  readonly textOf: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;
}

function addRoute(
  app: FastifyInstance,
  path: string,
  { storage }: Options,
  work: Work,
  config: object,
): void {
  app.route({
    method: ['GET', 'POST'],
    url: `/greader/reader/api/0/${path}`,
    config,
    handler: async (request, reply) => {
      const { signal } = request.permit;
      const [, key = ''] =
        /^GoogleLogin auth=(\S{1,200})$/i.exec(request.headers.authorization ?? '') ?? [];
      const user = await storage.users.byKey(key, signal);
      if (user === undefined)
        throw rankerError('KEY_NEEDED', 'log in by accounts/ClientLogin first');
      const rest = clean(String(Object(request.params)['*'] ?? ''));
      const answer = await work(fieldsOf(request), {
        user,
        signal,
        rest,
        feeds: () => storage.feeds.list(user.id, signal),
        list: (query) => storage.userArticles.list({ userId: user.id, ...query }, signal),
        idsOf: (items) => storage.articles.byPrefix(items.map(prefixOf), signal),
        textOf: async (ids) => {
          const found = await storage.articles.list(ids, signal);
          return new Map(found.map(({ id, text, sharedText }) => [id, sharedText ?? text]));
        },
      });
      return typeof answer === 'string' ? reply.type('text/plain').send(answer) : answer;
    },
  });
}

function fieldsOf({ url, body }: FastifyRequest): Fields {
  const fields = new URLSearchParams();
  for (const text of [url.split('?')[1] ?? '', typeof body === 'string' ? body : '']) {
    for (const [name, values] of Object.entries(formFields(text, fieldsMax))) {
      for (const value of [values].flat()) fields.append(name, clean(value));
    }
  }
  return fields;
}

/** The number of an article for clients: the first 8 bytes of its id. */
function numberOf(id: string): bigint {
  return Buffer.from(id, 'base64url').readBigUInt64BE(0);
}

/** The beginning of the article's id that an item's number was made of. */
function prefixOf(item: string): string {
  const isLong = item.startsWith(itemPrefix);
  const digits = isLong ? item.slice(itemPrefix.length) : item;
  // Some clients leave the prefix out, and keep all 16 digits.
  const isHex = isLong ? /^[\da-f]{1,16}$/i.test(digits) : /^(?=.*[a-f])[\da-f]{16}$/i.test(digits);
  if (!isHex && (isLong || !/^-?\d{1,20}$/.test(digits))) {
    throw rankerError('INPUT_INVALID', 'i: not the number of an item');
  }
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(isHex ? `0x${digits}` : digits)));
  // Ten characters are 60 of the 64 bits.
  return bytes.toString('base64url').slice(0, 10);
}

/** The stream to change; throws without a name, which would mean all articles. */
function namedStream(fields: Fields): string {
  const name = fields.get('s') ?? '';
  if (name === '') throw rankerError('INPUT_INVALID', 's: must name a stream');
  return name;
}

/** All articles of a stream, newest first. */
async function streamArticles(stream: string, asker: Asker): Promise<UserArticle[]> {
  const name = stream.replace(/^user\/[^/]+/, 'user/-');
  if (name.startsWith('feed/')) return asker.list({ feedId: name.slice(5), limit: listMax });
  if (name === `${state}starred`) return asker.list({ mark: 'starred', limit: listMax });
  const all = await asker.list({ limit: listMax });
  if (name === '' || name === `${state}reading-list`) return all;
  if (name === `${state}read`) return all.filter(({ isRead }) => isRead);
  if (!name.startsWith(label)) return [];
  const inFolder = (await asker.feeds()).filter(
    ({ folder }) => folder === name.slice(label.length),
  );
  const ids = new Set(inFolder.map(({ id }) => id));
  return all.filter(({ feedId }) => feedId !== undefined && ids.has(feedId));
}

async function streamOf(fields: Fields, stream: string, asker: Asker) {
  const count = Math.min(itemsMax, Math.max(1, Number(fields.get('n') ?? 20) || 20));
  const from = Math.max(0, Number(fields.get('c') ?? 0) || 0);
  const since = 1_000 * (Number(fields.get('ot') ?? 0) || 0);
  const until = 1_000 * (Number(fields.get('nt') ?? 0) || Infinity);
  const has = ({ isRead, isStarred, vote }: UserArticle, tag: string) => {
    if (tag.endsWith('/com.google/read')) return isRead || vote !== undefined;
    return tag.endsWith('/com.google/starred') ? isStarred : undefined;
  };
  const found = (await streamArticles(stream, asker)).filter(
    (article) =>
      article.addedAt >= since &&
      article.addedAt <= until &&
      fields.getAll('it').every((tag) => has(article, tag) !== false) &&
      !fields.getAll('xt').some((tag) => has(article, tag)),
  );
  if (fields.get('r') === 'o') found.reverse();
  const hasMore = found.length > from + count;
  const continuation = hasMore ? String(from + count) : undefined;
  return { items: found.slice(from, from + count), continuation };
}

async function contentsOf(articles: readonly UserArticle[], asker: Asker) {
  const texts = await asker.textOf(articles.map(({ id }) => id));
  const feeds = new Map((await asker.feeds()).map((feed) => [feed.id, feed]));
  const items = articles.map((article) => {
    const { id, title, url, author, isRead, isStarred, addedAt, publishedAt = addedAt } = article;
    const feed = feeds.get(article.feedId ?? '');
    const tags = [isRead && 'read', isStarred && 'starred', 'reading-list'].filter(Boolean);
    return {
      id: itemPrefix + numberOf(id).toString(16).padStart(16, '0'),
      crawlTimeMsec: String(Math.round(addedAt)),
      timestampUsec: String(Math.round(addedAt) * 1_000),
      published: Math.floor(publishedAt / 1_000),
      title,
      author,
      categories: [
        ...tags.map((tag) => state + tag),
        ...(feed?.folder ? [label + feed.folder] : []),
      ],
      canonical: [{ href: url }],
      alternate: [{ href: url, type: 'text/html' }],
      origin: { streamId: `feed/${article.feedId ?? ''}`, title: feed?.title ?? article.source },
      summary: { direction: 'ltr', content: paragraphs(texts.get(id) ?? '') },
    };
  });
  return { id: `${state}reading-list`, updated: Math.floor(Date.now() / 1_000), items };
}

function paragraphs(text: string): string {
  const marks: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
  const safe = text.replace(/[&<>]/g, (mark) => marks[mark] as string);
  return safe
    .split(/\n+/)
    .filter(Boolean)
    .map((one) => `<p>${one}</p>`)
    .join('');
}

function subscriptionOf({ id, title, url, siteUrl, folder }: ReaderFeed): object {
  const categories = folder === '' ? [] : [{ id: label + folder, label: folder }];
  return { id: `feed/${id}`, title: title || url, categories, url, htmlUrl: siteUrl ?? url };
}

async function editSubscription(
  fields: Fields,
  { user, signal, feeds }: Asker,
  options: Options,
): Promise<string> {
  const { fetcher, changes } = options;
  const known = options.storage.feeds;
  const id = (fields.get('s') ?? '').replace(/^feed\//, '');
  const added = fields.get('a')?.replace(/^user\/[^/]+\/label\//, '');
  if (fields.get('ac') === 'subscribe') {
    const feed = await findFeed(fetcher, { address: id, signal });
    const own = fields.get('t') ?? '';
    const named = { title: own || feed.title, isNamed: own !== '', folder: added ?? '' };
    await subscribe(options, user.id, { ...feed, ...named }, signal);
    return 'OK';
  }
  if (fields.get('ac') === 'unsubscribe') {
    await known.unsubscribe(user.id, id, signal);
  } else {
    const {
      folder = '',
      title = '',
      isNamed,
      isFullText = false,
    } = (await feeds()).find((feed) => feed.id === id) ?? {};
    const edit = {
      title: fields.get('t') ?? (isNamed ? title : ''),
      folder: added ?? (fields.has('r') ? '' : folder),
      isFullText,
    };
    await known.edit(user.id, id, edit, signal);
  }
  changes.tell(user.id, 'all');
  return 'OK';
}

async function subscribe(
  { storage, changes, refresh, clock }: Options,
  userId: string,
  feed: NewFeed,
  signal: AbortSignal,
): Promise<void> {
  await storage.feeds.subscribe(userId, [feed], clock.now(), signal);
  changes.tell(userId, 'all');
  void refresh.look();
}
