import { statSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  Breaker,
  Bucket,
  type Clock,
  type Part,
  type Random,
  Retry,
  SharedBreaker,
  SharedBucket,
  SpillwayError,
  SqliteFile,
  SqliteStore,
  stack,
  systemRandom,
  type Task,
  wallClock,
} from 'spillway';
import { SettingsError } from 'spillway-cli';
import type { Connector, ConnectorOptions } from './connectors/connector.ts';
import { openConnector } from './connectors/open.ts';
import { ingestError } from './errors.ts';
import { makeDirectories } from './files/directories.ts';
import { demandUsable, type Folder, isReadOnly, LocalFolder } from './files/folder.ts';
import { refuseCopied } from './harvest/copied-store.ts';
import { Harvester, type HarvestRequest, LongPause, QuotaBucket } from './harvest/harvester.ts';
import { type Context, ProductLedger } from './harvest/ledger.ts';
import type { Transformer } from './harvest/transformer.ts';
import type { Settings } from './settings.ts';
import type { TradeTable } from './table/trade-table.ts';

export interface IngestOptions {
  readonly settings: Settings;
  /** Variables of the environment: the keys of a bucket (AWS_…), and secrets of a declaration. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
  /** Changes nothing, so that the data folder may be read-only. @default false */
  readonly readsOnly?: boolean | undefined;
  /** Keeps trying when the exchange does not answer at first. @default false */
  readonly goesOn?: boolean | undefined;
  /** Largest number of requests to the exchange. @default unlimited */
  readonly maxRequests?: number | undefined;
  /** Time that a page may wait for a fuller batch, in ms. @default 5,000 */
  readonly batchMsMax?: number | undefined;
  /** Time by which a lock outlives its process, in ms. @default the setting `leaseSeconds` */
  readonly leaseMs?: number | undefined;
  /** The first pause of the breaker, in milliseconds. @default 10,000 */
  readonly cooldownMs?: number | undefined;
  /** Its `now` is UNIX time in milliseconds. @default the system's */
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** The open store, folder and connector that commands work with. Dispose it at the end. */
export interface Ingest extends Context, AsyncDisposable {
  readonly settings: Settings;
  readonly connector: Connector;
  /** The database of the store, for readiness checks. */
  readonly database: Part;
  readonly bucket: QuotaBucket;
  readonly pause: LongPause;
  readonly breaker: SharedBreaker;
  /** Runs one request at the shared rate and behind the shared breaker, with retries. */
  readonly guard: Guard;
  harvester(request: HarvestRequest): Harvester;
  /** Makes a harvester of the trades in a feed's buffer; it sends no requests. */
  liveHarvester(connector: Connector, request: HarvestRequest): Harvester;
  /** Opens the table at the first call. */
  table(): Promise<TradeTable>;
  transformer(): Promise<Transformer>;
}

/** Attempts of a request outside of a harvest. */
const attemptsMax = 10;
/** Callers that may wait for a token: one for a harvest, and one for each product's plan. */
const waitersMax = 10_000;
/** Pages of a feed a second: no request is made for them, so this is no real limit. */
const liveRate = 10_000;

/** Commits that may wait for a SQLite file, and the time that one may wait. */
const commitsMax = 1_000;
const commitMsMax = 10_000;

/** Opens the store, the folder and the way to the exchange; nothing is asked of it yet. */
export async function openIngest(options: IngestOptions): Promise<Ingest> {
  const { settings, signal, clock = wallClock, random = systemRandom } = options;
  await using stack = new AsyncDisposableStack();
  // The connector needs the guard, and the guard needs the connector's rate.
  const guard: Guard = (request, caller) => guarded(request, caller);
  const pauseMsMax = settings.pauseSecondsMax * 1000;
  const { environment, goesOn } = options;
  const connector = stack.use(
    await openConnector(settings, { guard, pauseMsMax, environment, goesOn }),
  );
  await demandPlaces(options);
  const bucketFolder = await openBucket(options, stack);
  const { store, database } = await openStore(options, stack);
  if (options.readsOnly !== true) await refuseCopied(store, signal);
  // Includes the host: another address has limits and failures of its own.
  const name = `ingest/${connector.name}/${new URL(connector.baseUrl).host}`;
  const shared = { store, name, clock, random };
  const ratePerSecond = settings.ratePerSecond ?? connector.rate.ratePerSecond;
  const burst = burstOf(connector, ratePerSecond);
  const limits = { ratePerSecond, burst, queueMax: waitersMax };
  const tokens = stack.use(new SharedBucket({ ...shared, ...limits }));
  const { cooldownMs } = options;
  // A run that never gets an answer ends by itself, and must not make the next run wait.
  const isFailure = (error: unknown): boolean => {
    const isKnown = goesOn || connector.isReached() || breaker.stats.state !== 'closed';
    return isKnown && (Object(error).status ?? 500) >= 500;
  };
  const breaker = stack.use(new SharedBreaker({ ...shared, cooldownMs, isFailure }));
  const pause = new LongPause(store, name, clock, pauseMsMax);
  await pause.load(signal);
  stack.defer(() => pause.settled());
  const bucket = new QuotaBucket(tokens, options.maxRequests ?? Infinity, pause);
  const guarded = guardOf({ bucket, breaker, clock, random });
  const folder =
    bucketFolder ?? stack.use(await LocalFolder.open(settings.data, options.readsOnly));
  const ledger = new ProductLedger(store, connector.name);
  const { leaseMs = settings.leaseSeconds * 1000 } = options;
  const context: Context = { store, folder, ledger, leaseMs, clock, random };
  const { batchMsMax } = options;
  const harvesting = { ...settings, ...context, batchMsMax, connector, bucket, breaker };
  let table: Promise<TradeTable> | undefined;
  const held = stack.move();
  const theTable = (): Promise<TradeTable> => {
    table ??= openTable(folder, connector, settings).then((opened) => held.use(opened));
    return table;
  };
  return {
    ...context,
    settings,
    connector,
    database,
    bucket,
    pause,
    breaker,
    guard,
    harvester: (request) => new Harvester(harvesting, request),
    liveHarvester: (live, request) => {
      const free = new Bucket({ ratePerSecond: liveRate, queueMax: waitersMax, clock });
      const own = {
        bucket: new QuotaBucket(free, Infinity),
        breaker: new Breaker({ clock, random }),
        isFeed: true,
      };
      return new Harvester({ ...harvesting, ...own, connector: live, batchMsMax: 0 }, request);
    },
    table: theTable,
    async transformer() {
      const { Transformer } = await import('./harvest/transformer.ts');
      return new Transformer(context, await theTable());
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

/** Scales the declared burst to the rate in use, so that it lasts for the same time. */
function burstOf({ name, rate }: Connector, ratePerSecond: number): number | undefined {
  const { burst } = rate;
  if (burst === undefined) return undefined;
  // The shared bucket hands out the tokens of 20 ms at once, as timers are not exact.
  const leastOf = (perSecond: number) => Math.ceil(perSecond / 50);
  const least = leastOf(rate.ratePerSecond);
  if (burst < least) {
    const what = `${name}: limits.burst: must be at least ${least}, what accrues in 20 ms`;
    throw ingestError('SOURCE_INVALID', `${what}, got ${burst}; or declare a lower rate`);
  }
  return Math.max(leastOf(ratePerSecond), Math.floor((burst * ratePerSecond) / rate.ratePerSecond));
}

/** Imports the table late: DuckDB is loaded with it. */
async function openTable(
  folder: Folder,
  { name, lineSql }: Connector,
  { memoryMbMax }: Settings,
): Promise<TradeTable> {
  const { TradeTable } = await import('./table/trade-table.ts');
  return await TradeTable.open({ folder, lines: { [name]: lineSql }, memoryMbMax });
}

/** Opens the S3 bucket of the settings; undefined if there is none. */
async function openBucket(
  { settings, environment }: IngestOptions,
  stack: AsyncDisposableStack,
): Promise<Folder | undefined> {
  const { s3Bucket, s3Prefix: prefix, s3Endpoint, s3Region } = settings;
  if (s3Bucket === undefined) return undefined;
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } =
    environment;
  if (accessKeyId === '' || secretAccessKey === '') {
    const keys = 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';
    throw new SettingsError(`s3Bucket: its keys must be in the environment, as ${keys}`);
  }
  const region = s3Region ?? environment.AWS_REGION ?? 'us-east-1';
  const server = s3Endpoint ?? `https://s3.${region}.amazonaws.com`;
  const { S3Folder } = await import('./files/s3-folder.ts');
  const keys = { accessKeyId, secretAccessKey };
  const endpoint = `${server}/${s3Bucket}`;
  return stack.use(await S3Folder.open({ endpoint, prefix, region, ...keys }));
}

async function openStore(
  { settings, readsOnly, signal }: IngestOptions,
  stack: AsyncDisposableStack,
): Promise<Pick<Ingest, 'store' | 'database'>> {
  const { store: url, storeConnections: connectionsMax } = settings;
  const path = pathOf(url);
  try {
    if (/^rediss?:/.test(url)) {
      const { RedisStore } = await import('spillway-redis');
      const store = stack.use(await RedisStore.open({ url }));
      const database = {
        name: 'redis',
        get ready() {
          return store.ready;
        },
      };
      return { store, database };
    }
    if (path === undefined) {
      const { Database } = await import('spillway-sql');
      const database = stack.use(await Database.open<unknown>({ url, connectionsMax }));
      return { store: stack.use(await database.store({ signal })), database };
    }
    const own = readsOnly ? await writable(path, stack) : path;
    await makeDirectories(dirname(resolve(own)), 0o700);
    const limits = { queueMax: commitsMax, deadlineMs: commitMsMax };
    const file = stack.use(await SqliteFile.open({ path: own, readers: 1, ...limits }));
    return { store: stack.use(await SqliteStore.open({ file })), database: file };
  } catch (cause) {
    throw unusable(path ?? new URL(url).host, cause as Error);
  }
}

/** The path of a store in SQLite; undefined for other stores. */
function pathOf(store: string): string | undefined {
  return /^sqlite:(.+)$/s.exec(store)?.[1];
}

function unusable(store: string, cause: Error): Error {
  const message = `the store ${store} cannot be used: ${cause.message}`;
  return ingestError('STORE_UNUSABLE', message, { cause });
}

/** Refuses places that cannot be written to, before anything is created in any of them. */
async function demandPlaces({ settings, readsOnly }: IngestOptions): Promise<void> {
  if (readsOnly) return;
  const path = pathOf(settings.store);
  if (path !== undefined) {
    await demandUsable(dirname(path)).catch((cause: Error) => {
      throw unusable(path, cause);
    });
  }
  if (settings.s3Bucket === undefined) await demandUsable(settings.data);
}

/** Attempts to copy a store that is being changed. */
const copiesMax = 10;

/** The path of a SQLite file, or of a copy if it is read-only: SQLite has to write beside it. */
async function writable(path: string, stack: AsyncDisposableStack): Promise<string> {
  if (!(await isReadOnly(dirname(resolve(path))))) return path;
  const folder = await mkdtemp(join(tmpdir(), 'ingest-store-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const copy = join(folder, basename(path));
  const log = `${path}-wal`;
  const stamp = () => [path, log].map((file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs);
  // Another process may be writing, so database and log must be copied in the same state.
  for (let copies = 1; ; copies += 1) {
    const before = stamp();
    await copyFile(path, copy);
    if (before[1] !== undefined) await copyFile(log, `${copy}-wal`);
    if (isDeepStrictEqual(stamp(), before)) return copy;
    if (copies === copiesMax) throw new Error('it is read-only here, and changes all the time');
  }
}

type Guard = NonNullable<ConnectorOptions['guard']>;
type GuardParts = Pick<Ingest, 'bucket' | 'breaker' | 'clock' | 'random'>;

/** Sends requests outside of a harvest through the same breaker and bucket. */
function guardOf({ bucket, breaker, clock, random }: GuardParts): Guard {
  const run = stack(new Retry({ attemptsMax, backoffMs: 500, clock, random }), breaker);
  return async <T>(request: Task<T>, signal: AbortSignal): Promise<T> => {
    let failure: unknown;
    const attempt: Task<T> = async (limit) => {
      await bucket.take(1, { signal: limit });
      try {
        return await request(limit);
      } catch (error) {
        failure = error;
        if (error instanceof SpillwayError && error.status === 429) bucket.slow(error);
        throw error;
      }
    };
    try {
      return await run(attempt, { signal });
    } catch (error) {
      // The last answer explains more than the fact that no further attempt was allowed.
      const isOurs = ['BREAKER_OPEN', 'BUDGET_SPENT'].includes(Object(error).code);
      throw isOurs && failure !== undefined ? failure : error;
    }
  };
}
