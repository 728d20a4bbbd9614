import { type Clock, every, Panel, type Part, Service, wallClock } from 'spillway';
import { createServer, type HttpServer, type OperatorOptions, RecentErrors } from 'spillway-http';
import { Database } from 'spillway-sql';
import { Fetcher, type FetcherOptions } from './fetching/fetcher.ts';
import { Embedder, type EmbedderOptions } from './learn/embedder.ts';
import type { DocumentEmbedder } from './ranking/library.ts';
import { type RankingParts, rankingParts } from './ranking/ranking-parts.ts';
import { FeedRefresh } from './reader/feed-refresh.ts';
import { Images } from './reader/images.ts';
import { ListCache, type ListCacheOptions } from './reader/list-cache.ts';
import { readerPages } from './reader/reader-pages.ts';
import { compatRoutes } from './server/compat-routes.ts';
import { type RankerLanes, rankerLanes } from './server/ranker-lanes.ts';
import { serverRoutes } from './server/server-routes.ts';
import { userRoutes } from './server/user-routes.ts';
import { OnlyRanker } from './storage/only-ranker.ts';
import type { RankerSchema } from './storage/ranker-schema.ts';
import { RankerStorage } from './storage/ranker-storage.ts';

export interface OpenRankerOptions {
  /** `sqlite:<path>` or `postgres://…`. */
  readonly database: string;
  /** Connections of this process to Postgres at most. @default 10 */
  readonly databaseConnections?: number | undefined;
  /**
   * The longest wait for another ranker on the database, in ms: one that crashed holds a Postgres
   * for up to 15 s. @default 3_000, on Postgres 18_000
   */
  readonly claimMs?: number | undefined;
  /** Time for which it says that it is not ready before it closes, in ms. @default 0 */
  readonly lameDuckMs?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** @default a free one */
  readonly port?: number | undefined;
  /** Answers there as news-score does, without keys, for the oldest user. @default it does not */
  readonly compatPort?: number | undefined;
  /** The operators' way to the server, and the configuration they see. @default none */
  readonly operator?: Pick<OperatorOptions, 'socket' | 'remote' | 'config'> | undefined;
  /** The proxies whose `X-Forwarded-*` headers are believed, as Fastify has it. @default none */
  readonly trustProxy?: boolean | string | readonly string[] | number | undefined;
  /** Warnings too as lines of JSON on stderr; false for nothing. @default unforeseen failures */
  readonly log?: boolean | undefined;
  /** Options of the embedder, or an open one. @default the model that comes with the app */
  readonly embedder?: EmbedderOptions | DocumentEmbedder | undefined;
  readonly fetcher?: FetcherOptions | undefined;
  /** The time limit of an answer, in milliseconds. @default 30,000 */
  readonly rankMs?: number | undefined;
  /** The time until a fetched text is fetched again, in milliseconds. @default a day */
  readonly freshMs?: number | undefined;
  /** The time that unrated articles are kept, in milliseconds. @default 90 days */
  readonly keepMs?: number | undefined;
  /** The interval of intensive training of changed tastes, in milliseconds. @default 2 hours */
  readonly retrainMs?: number | undefined;
  /** Tastes in memory. From 1. @default 64 */
  readonly tastesMax?: number | undefined;
  /** The folder of pictures that articles show. @default they are fetched each time */
  readonly imageFolder?: string | undefined;
  /** The bytes kept there. An integer from 1. @default 512 MiB */
  readonly imageBytesMax?: number | undefined;
  /** A rating counts half after so many days. @default 365 */
  readonly ratingHalfLifeDays?: number | undefined;
  /** Options of the lists on the reader page. */
  readonly lists?:
    | Omit<ListCacheOptions, 'reader' | 'changes' | 'storage' | 'clock' | 'onFailure'>
    | undefined;
  /** Called when the operator asks for the end. @default stops the service */
  readonly shutdown?: (() => void) | undefined;
  /** Its `now` is UNIX time in milliseconds. @default the system's */
  readonly clock?: Clock | undefined;
}

/** All parts of a ranker. Start the service, then it answers at its server's address. */
export interface RankerService extends RankingParts {
  readonly service: Service;
  readonly server: HttpServer;
  /** The server that answers as news-score does. */
  readonly compat: HttpServer | undefined;
  readonly storage: RankerStorage;
  readonly fetcher: Fetcher;
  readonly embedder: DocumentEmbedder;
  readonly lanes: RankerLanes;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/**
 * Opens the database, brings its tables up to date and starts the threads. Nothing listens before
 * the service is started; stopping that closes all of it.
 */
export async function openRanker(options: OpenRankerOptions): Promise<RankerService> {
  const { clock = wallClock, rankMs = 30_000, claimMs } = options;
  await using opened = new AsyncDisposableStack();
  const { database: url, databaseConnections: connectionsMax } = options;
  const database = opened.use(await Database.open<RankerSchema>({ url, connectionsMax }));
  let reloadTastes = () => {};
  const onRegained = () => reloadTastes();
  const only = opened.use(await OnlyRanker.claim({ database, url, claimMs, onRegained }));
  const storage = new RankerStorage({ database, clock, fenced: only });
  await storage.migrate();
  await only.mark();
  const fetcher = opened.use(await Fetcher.open(options.fetcher));
  const embedder = await openEmbedder(options.embedder);
  opened.defer(() => embedder.close());
  const errors = new RecentErrors({ clock });
  const onFailure = (job: string, error: unknown) => {
    const message = String(Object(error).message ?? error);
    errors.add({ id: undefined, route: `job ${job}`, code: 'JOB', status: 500, message });
  };
  const { freshMs, tastesMax, ratingHalfLifeDays } = options;
  const world = { storage, fetcher, embedder, clock, onFailure };
  const parts = await rankingParts({ ...world, freshMs, tastesMax, ratingHalfLifeDays });
  reloadTastes = () => parts.tastes.forgetAll();
  opened.defer(() => parts.training.close());
  opened.defer(() => parts.tastes.close());
  const lanes = rankerLanes(clock, rankMs);
  const refresh = new FeedRefresh({
    reader: parts.reader,
    feeds: storage.feeds,
    fetcher,
    clock,
    onFailure: (error) => onFailure('feeds', error),
  });
  const { keepMs = 90 * dayMs, retrainMs = 7_200_000 } = options;
  const job = (name: string, periodMs: number, run: () => Promise<unknown>) =>
    every({ name, periodMs, run, clock, onError: (error) => onFailure(name, error) });
  const jobs = [
    job('prune', hourMs, () => storage.articles.prune(clock.now() - keepMs)),
    job('retrain', retrainMs, async () => parts.training.addChanged()),
    job('embed', hourMs, async () => parts.embedding.wake()),
  ];
  const stop = () => void service.close().catch(() => {});
  const { shutdown = stop } = options;
  const all = { ...options, ...world, ...parts, lanes, errors, refresh, rankMs, shutdown, only };
  const server = await openServer(all);
  const compat = await openCompat(all);
  const closing: Part[] = [
    database,
    only,
    { name: 'fetcher', close: () => fetcher.close() },
    { name: 'embedder', close: () => embedder.close() },
    { name: 'tastes', close: () => parts.tastes.close() },
    { name: 'training', close: () => parts.training.close() },
    {
      name: 'embedding',
      start: () => parts.embedding.wake(),
      close: () => parts.embedding.close(),
    },
  ];
  const service: Service = new Service({
    parts: [...closing, server, ...(compat === undefined ? [] : [compat]), refresh, ...jobs],
    clock,
  });
  opened.move();
  return { service, server, compat, ...parts, storage, fetcher, embedder, lanes };
}

type ServerParts = OpenRankerOptions &
  RankingParts &
  Pick<RankerService, 'storage' | 'fetcher' | 'embedder' | 'lanes'> & {
    readonly errors: RecentErrors;
    readonly only: OnlyRanker;
    readonly refresh: FeedRefresh;
    readonly onFailure: (job: string, error: unknown) => void;
    readonly rankMs: number;
    readonly shutdown: () => void;
    readonly clock: Clock;
  };

async function openServer(parts: ServerParts): Promise<HttpServer> {
  const { host, port, trustProxy, log, errors, lameDuckMs, clock, lanes } = parts;
  const panel = new Panel();
  panel.watch('lanes', lanes.process);
  const { embedder, fetcher, tastes, training, embedding, library, refresh } = parts;
  const watched = { embedder, fetcher, tastes, training, embedding, library, refresh };
  for (const [name, part] of Object.entries(watched)) panel.watch(name, part);
  panel.watch('database', parts.storage.database);
  const key = await parts.storage.secret('session_key');
  const { imageFolder: folder, imageBytesMax: bytesMax } = parts;
  const images = await Images.open({ fetcher, key, folder, bytesMax, clock });
  panel.watch('images', images);
  const server = await createServer({
    host,
    port,
    trustProxy,
    log,
    errors,
    lameDuckMs,
    clock,
    lane: lanes.read,
    operator: { ...parts.operator, panel, ready: [parts.storage.database, parts.only] },
    sessions: { keys: [key] },
    live: {},
  });
  const { shutdown } = parts;
  await server.operator.app.register(userRoutes, { users: parts.storage.users, shutdown });
  server.app.addHook('onRequest', async () => parts.only.check());
  const lists = new ListCache({
    ...parts.lists,
    reader: parts.reader,
    changes: parts.changes,
    storage: parts.storage,
    clock,
    onFailure: (error) => parts.onFailure('lists', error),
  });
  panel.watch('lists', lists);
  server.app.addHook('onClose', async () => lists[Symbol.dispose]());
  await server.app.register(serverRoutes, { ...parts, lists });
  const { reader, ranking, storage } = parts;
  const pages = { reader, ranking, storage, lists, images, clock };
  const pageLanes = { lane: lanes.read, imageLane: lanes.images };
  await server.app.register(readerPages, { ...pages, ...pageLanes });
  server.app.get('/', async (_request, reply) => reply.redirect('/reader', 303));
  return server;
}

/** Nobody needs a key there: it listens to this machine alone unless it is told otherwise. */
async function openCompat(parts: ServerParts): Promise<HttpServer | undefined> {
  const { compatPort: port, host, log, errors, clock, lanes, storage, only } = parts;
  if (port === undefined) return undefined;
  const server = await createServer({
    name: 'compat',
    host,
    port,
    log,
    errors,
    clock,
    lane: lanes.read,
  });
  const userId = async (): Promise<string> => {
    const [oldest] = await storage.users.list();
    if (oldest !== undefined) return oldest.id;
    return (await storage.users.add('reader')).user.id;
  };
  server.app.addHook('onRequest', async () => only.check());
  await server.app.register(compatRoutes, { ...parts, userId });
  return server;
}

async function openEmbedder(
  options: OpenRankerOptions['embedder'] = {},
): Promise<DocumentEmbedder> {
  return 'embed' in options ? options : await Embedder.open(options);
}
