import { Panel, type Part, Service, wallClock } from 'spillway';
import { createServer, type HttpServer, type OperatorOptions, RecentErrors } from 'spillway-http';
import { type Context, type ContextOptions, openContext } from './context.ts';
import { fileRoutes } from './files/file-routes.ts';
import { fleetPages } from './pages/pages.ts';
import { jobs } from './primary/jobs.ts';
import { readRoutes } from './read/read-routes.ts';
import { workerApi } from './server/worker-api.ts';
import { systemUser } from './world/records.ts';

export interface OpenFleetOptions extends Omit<ContextOptions, 'patienceMs'> {
  /** Time that the server reports not to be ready before it closes, in ms. @default 0 */
  readonly lameDuckMs?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** @default a free one */
  readonly port?: number | undefined;
  /** Access for operators, and the configuration they see. @default none */
  readonly operator?: Pick<OperatorOptions, 'socket' | 'remote' | 'config'> | undefined;
  /** Proxies whose `X-Forwarded-*` headers are believed, as in Fastify. @default none */
  readonly trustProxy?: boolean | string | readonly string[] | number | undefined;
  /** True also logs warnings to stderr, false logs nothing. @default unexpected failures only */
  readonly log?: boolean | undefined;
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
  const errors = new RecentErrors({ clock });
  const context = await openContext(options, (job, error) => {
    const message = String(Object(error).message ?? error);
    errors.add({ id: undefined, route: `job ${job}`, code: 'JOB', status: 500, message });
  });
  const { database, files, feed, primary, contributors } = context;
  try {
    const server = await openServer(options, context, errors);
    const last = [jobs(context), lifeLog(context, server)];
    const parts = [database, files, feed, primary, contributors, server, ...last];
    const service = new Service({ parts, clock });
    return { service, server, ...context };
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
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
    lane: lanes.others,
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

/** Logs the start and the stop of the server as events. */
function lifeLog({ storage, primary, clock }: Context, server: HttpServer): Part {
  const write = async (what: 'start' | 'stop') => {
    if (!primary.isPrimary) return;
    const message = `${what} fishtest@${new URL(server.url).port}`;
    const time = clock.now() / 1000;
    await storage.log({ time, action: 'system_event', username: systemUser, message });
  };
  return { name: 'life log', start: () => write('start'), close: () => write('stop') };
}
