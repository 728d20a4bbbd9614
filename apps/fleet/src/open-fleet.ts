import {
  type Clock,
  Panel,
  type Part,
  type Random,
  Service,
  systemRandom,
  wallClock,
} from 'spillway';
import { createServer, type HttpServer, type OperatorOptions, RecentErrors } from 'spillway-http';
import { Database } from 'spillway-sql';
import type { Context } from './context.ts';
import { Contributors } from './contributors/contributors.ts';
import { fileRoutes } from './files/file-routes.ts';
import { FleetFiles, type FleetFilesOptions } from './files/fleet-files.ts';
import { WorldFeed } from './pages/feed.ts';
import { fleetPages } from './pages/pages.ts';
import { primaryLockPath } from './primary/claim.ts';
import { jobs } from './primary/jobs.ts';
import { Primary } from './primary/primary.ts';
import { readRoutes } from './read/read-routes.ts';
import { StoredRuns } from './read/stored-runs.ts';
import { fleetLanes } from './server/fleet-lanes.ts';
import { workerApi } from './server/worker-api.ts';
import type { FleetSchema } from './storage/fleet-schema.ts';
import { FleetStorage } from './storage/fleet-storage.ts';
import { Users } from './users/users.ts';
import { type Changes, systemUser } from './world/records.ts';

export interface OpenFleetOptions extends Pick<FleetFilesOptions, 'github' | 'netsUrl' | 'proxy'> {
  /** `sqlite:<path>` or `postgres://…`. */
  readonly database: string;
  /** Connections of this process to Postgres at most. @default 10 */
  readonly databaseConnections?: number | undefined;
  /** Time for which it says that it is not ready before it closes, in ms. @default 0 */
  readonly lameDuckMs?: number | undefined;
  /** Holds games, nets and books. @default the database's path with `-files` */
  readonly folder?: string | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** @default a free one */
  readonly port?: number | undefined;
  /** Address of the server for people, without a slash at the end. @default as it is asked */
  readonly baseUrl?: string | undefined;
  /** True if all accounts may test engines that are no fork of the official one. @default false */
  readonly foreignRepos?: boolean | undefined;
  /** Access for operators, and the configuration they see. @default none */
  readonly operator?: Pick<OperatorOptions, 'socket' | 'remote' | 'config'> | undefined;
  /** Proxies whose `X-Forwarded-*` headers are believed, as in Fastify. @default none */
  readonly trustProxy?: boolean | string | readonly string[] | number | undefined;
  /** Lease of the primary on Postgres, which outlives a crash, in milliseconds. @default 5,000 */
  readonly leaseMs?: number | undefined;
  /** The checksum of a book. @default as the list of books says */
  readonly bookSri?: ((book: string) => string | undefined) | undefined;
  /** Warnings too as lines of JSON on stderr; false for nothing. @default unforeseen failures */
  readonly log?: boolean | undefined;
  /** Its `now` is UNIX time in milliseconds. @default the system's */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

const dayMs = 86_400_000;
/** The shortest time between two changes that an open page is sent, in ms. */
const liveMs = 1_000;

/** All parts of a fleet server. Start the service, then it answers at its server's address. */
export interface FleetService extends Context {
  readonly service: Service;
  readonly server: HttpServer;
}

/**
 * Opens the database, brings its tables up to date and prepares the server. Nothing listens before
 * the service is started; closing that closes the database too.
 */
export async function openFleet(options: OpenFleetOptions): Promise<FleetService> {
  const { clock = wallClock } = options;
  // The database is real in virtual time too: its deadlines are not the fleet's.
  const { database: url, databaseConnections: connectionsMax } = options;
  const database = await Database.open<FleetSchema>({ url, connectionsMax });
  try {
    const errors = new RecentErrors({ clock });
    const context = await contextOf(options, database, errors, clock);
    const server = await openServer(options, context, errors);
    const { files, feed, primary, contributors } = context;
    const last = [jobs(context), lifeLog(context, server)];
    const parts = [database, files, feed, primary, contributors, server, ...last];
    const service = new Service({ parts, clock });
    return { service, server, ...context };
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
}

async function contextOf(
  options: OpenFleetOptions,
  database: Database<FleetSchema>,
  errors: RecentErrors,
  clock: Clock,
): Promise<Context> {
  const { random = systemRandom, leaseMs = 5_000, baseUrl, foreignRepos = false } = options;
  const storage = new FleetStorage(database);
  await storage.migrate();
  const lockPath = primaryLockPath(options.database);
  const feed = new WorldFeed(clock);
  const onStored = (changes: Changes) => feed.note(changes);
  const primary = new Primary({ storage, clock, random, leaseMs, lockPath, onStored });
  const onFailure = (job: string, error: unknown) => {
    const message = String(Object(error).message ?? error);
    errors.add({ id: undefined, route: `job ${job}`, code: 'JOB', status: 500, message });
  };
  const folder = options.folder ?? folderOf(options.database);
  const files = new FleetFiles({ ...options, database, folder, onFailure, clock });
  const legacy = (await storage.document('legacy_usernames')) as string[] | undefined;
  return {
    database,
    storage,
    users: new Users({ database, clock }),
    primary,
    lanes: fleetLanes(clock),
    files,
    contributors: new Contributors({ storage, primary, onFailure, clock }),
    source: new StoredRuns({ primary, storage }),
    feed,
    baseUrl,
    foreignRepos,
    bookSri: options.bookSri ?? ((book) => files.books.sri(book)),
    legacyUsernames: new Set(legacy),
    onFailure,
    clock,
  };
}

async function openServer(
  options: OpenFleetOptions,
  context: Context,
  errors: RecentErrors,
): Promise<HttpServer> {
  const { host, port, trustProxy, log, lameDuckMs } = options;
  const { primary, users, storage, lanes, files, clock } = context;
  const keys: [string] = [await storage.secretKey()];
  const panel = new Panel();
  panel.watch('lanes', lanes.process);
  panel.watch('primary', primary);
  panel.watch('users', users);
  panel.watch('files', files);
  panel.watch('database', storage.database);
  const decider = {
    name: primary.name,
    get ready() {
      return primary.isPrimary;
    },
  };
  const server = await createServer({
    host,
    port,
    trustProxy,
    log,
    errors,
    lameDuckMs,
    clock,
    lane: lanes.readers,
    sessions: { keys, name: 'fishtest_session', rememberMs: 400 * dayMs, ageMs: 30 * dayMs },
    csrf: { keys, field: 'csrf_token', ageMs: dayMs },
    live: { intervalMs: liveMs },
    connectionsMax: 20_000,
    primaryOnly: { primary: () => primary.decides() },
    operator: { ...options.operator, panel, ready: [storage.database, decider] },
  });
  for (const routes of [workerApi, fleetPages, readRoutes, fileRoutes]) {
    await server.app.register(routes, context);
  }
  return server;
}

function folderOf(database: string): string {
  return database.startsWith('sqlite:') ? `${database.slice(7)}-files` : 'fleet-files';
}

/** Writes down when the server began and ended. */
function lifeLog({ storage, primary, clock }: Context, server: HttpServer): Part {
  const write = async (what: 'start' | 'stop') => {
    if (!primary.isPrimary) return;
    const message = `${what} fishtest@${new URL(server.url).port}`;
    const time = clock.now() / 1000;
    await storage.log({ time, action: 'system_event', username: systemUser, message });
  };
  return { name: 'life log', start: () => write('start'), close: () => write('stop') };
}
