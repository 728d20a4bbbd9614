import { join } from 'node:path';
import { type Clock, every, Panel, type Part, Service, wallClock } from 'spillway';
import { createServer, type HttpServer, type OperatorOptions, RecentErrors } from 'spillway-http';
import { Database } from 'spillway-sql';
import { Fetcher } from './fetching/fetcher.ts';
import { Embedder } from './learn/embedder.ts';
import type { DocumentEmbedder } from './ranking/library.ts';
import { type RankingParts, type RankingWorld, rankingParts } from './ranking/ranking-parts.ts';
import { FeedRefresh } from './reader/feed-refresh.ts';
import { Images } from './reader/images.ts';
import { ListCache } from './reader/list-cache.ts';
import { readerPages } from './reader/reader-pages.ts';
import { compatRoutes } from './server/compat-routes.ts';
import { type RankerLanes, rankerLanes } from './server/ranker-lanes.ts';
import { serverRoutes } from './server/server-routes.ts';
import { userRoutes } from './server/user-routes.ts';
import { embedderOptions, fetcherOptions, operatorOptions, type Settings } from './settings.ts';
import { OnlyRanker } from './storage/only-ranker.ts';
import type { RankerSchema } from './storage/ranker-schema.ts';
import { RankerStorage } from './storage/ranker-storage.ts';

export interface OpenRankerOptions {
  readonly settings: Settings;
  /** Makes vectors. @default the model of the settings */
  readonly embedder?: DocumentEmbedder | undefined;
  /**
   * The longest wait for another ranker on the database, in ms: one that crashed holds a Postgres
   * for up to 15 s. @default 3_000, on Postgres 18_000
   */
  readonly claimMs?: number | undefined;
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
/** The time in which a proxy notices that the server is about to close, in milliseconds. */
const lameDuckMs = 2_000;

/**
 * Opens the database, brings its tables up to date and starts the threads. Nothing listens before
 * the service is started; stopping that closes all of it.
 */
export async function openRanker(options: OpenRankerOptions): Promise<RankerService> {
  const { settings, clock = wallClock, claimMs } = options;
  const operator = operatorOptions(settings);
  await using opened = new AsyncDisposableStack();
  const { database: url, databaseConnections: connectionsMax } = settings;
  const database = opened.use(await Database.open<RankerSchema>({ url, connectionsMax }));
  let reloadTastes = () => {};
  const onRegained = () => reloadTastes();
  const only = opened.use(await OnlyRanker.claim({ database, url, claimMs, onRegained }));
  const storage = new RankerStorage({ database, clock, fenced: only });
  await storage.migrate();
  await only.mark();
  const fetcher = opened.use(await Fetcher.open(fetcherOptions(settings)));
  const embedder = options.embedder ?? (await Embedder.open(embedderOptions(settings)));
  opened.defer(() => embedder.close());
  const errors = new RecentErrors({ clock });
  const onFailure = (job: string, error: unknown) => {
    const message = String(Object(error).message ?? error);
    errors.add({ id: undefined, route: `job ${job}`, code: 'JOB', status: 500, message });
  };
  const world = { settings, storage, fetcher, embedder, clock };
  const parts = await rankingParts(world);
  reloadTastes = () => parts.tastes.forgetAll();
  opened.defer(() => parts.training.close());
  opened.defer(() => parts.tastes.close());
  const lanes = rankerLanes(clock, settings.rankMs);
  const refresh = new FeedRefresh({
    reader: parts.reader,
    feeds: storage.feeds,
    fetcher,
    clock,
    onFailure: (error) => onFailure('feeds', error),
  });
  const job = (name: string, periodMs: number, run: () => Promise<unknown>) =>
    every({ name, periodMs, run, clock, onError: (error) => onFailure(name, error) });
  const jobs = [
    job('prune', hourMs, () => storage.articles.prune(clock.now() - settings.keepDays * dayMs)),
    job('retrain', settings.retrainMs, async () => parts.training.addChanged()),
    job('embed', hourMs, async () => parts.embedding.wake()),
  ];
  const stop = () => void service.close().catch(() => {});
  const { shutdown = stop } = options;
  const own = { operator, lanes, errors, refresh, shutdown, only, onFailure };
  const all = { ...world, ...parts, ...own };
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

type ServerParts = RankingWorld &
  Pick<RankerService, 'lanes'> & {
    readonly operator: OperatorOptions;
    readonly errors: RecentErrors;
    readonly only: OnlyRanker;
    readonly refresh: FeedRefresh;
    readonly onFailure: (job: string, error: unknown) => void;
    readonly shutdown: () => void;
  };

async function openServer(parts: ServerParts): Promise<HttpServer> {
  const { settings, errors, clock, lanes } = parts;
  const { host, port, trustProxy, data } = settings;
  const hasProxy = trustProxy.length > 0;
  const panel = new Panel();
  panel.watch('lanes', lanes.process);
  const { embedder, fetcher, tastes, training, embedding, library, refresh } = parts;
  const watched = { embedder, fetcher, tastes, training, embedding, library, refresh };
  for (const [name, part] of Object.entries(watched)) panel.watch(name, part);
  panel.watch('database', parts.storage.database);
  const key = await parts.storage.secret('session_key');
  const folder = join(data, 'images');
  const bytesMax = settings.imageBytes;
  const images = await Images.open({ fetcher, key, folder, bytesMax, clock });
  panel.watch('images', images);
  const server = await createServer({
    host,
    port,
    trustProxy: hasProxy ? trustProxy : false,
    log: settings.log || undefined,
    errors,
    lameDuckMs: hasProxy ? lameDuckMs : 0,
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
    settings,
    reader: parts.reader,
    changes: parts.changes,
    storage: parts.storage,
    clock,
    onFailure: (error) => parts.onFailure('lists', error),
  });
  panel.watch('lists', lists);
  server.app.addHook('onClose', async () => lists[Symbol.dispose]());
  await server.app.register(serverRoutes, { ...parts, lists });
  await server.app.register(readerPages, { ...parts, lists, images });
  server.app.get('/', async (_request, reply) => reply.redirect('/reader', 303));
  return server;
}

/** Nobody needs a key there, so it listens to this machine alone by default. */
async function openCompat(parts: ServerParts): Promise<HttpServer | undefined> {
  const { settings, errors, clock, lanes, storage, only } = parts;
  const { compat, compatPort: port, host, log } = settings;
  if (!compat) return undefined;
  const server = await createServer({
    name: 'compat',
    host,
    port,
    log: log || undefined,
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
