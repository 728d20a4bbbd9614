import { type Clock, type Random, systemRandom, wallClock } from 'spillway';
import { Database } from 'spillway-sql';
import { Contributors } from './contributors/contributors.ts';
import { FleetFiles, type FleetFilesOptions } from './files/fleet-files.ts';
import { WorldFeed } from './pages/feed.ts';
import { primaryLockPath } from './primary/claim.ts';
import { Primary } from './primary/primary.ts';
import { StoredRuns } from './read/stored-runs.ts';
import { type FleetLanes, fleetLanes } from './server/fleet-lanes.ts';
import type { FleetSchema } from './storage/fleet-schema.ts';
import { FleetStorage } from './storage/fleet-storage.ts';
import { Users } from './users/users.ts';

/** The parts of a fleet, one of each, that its routes, pages, jobs and commands work with. */
export interface Context {
  readonly database: Database<FleetSchema>;
  readonly storage: FleetStorage;
  readonly users: Users;
  readonly primary: Primary;
  readonly lanes: FleetLanes;
  readonly files: FleetFiles;
  readonly contributors: Contributors;
  readonly source: StoredRuns;
  readonly feed: WorldFeed;
  /** Public address without a slash at the end; if undefined, that of each request is used. */
  readonly baseUrl: string | undefined;
  /** True if all accounts may test engines that are no fork of the official one. */
  readonly foreignRepos: boolean;
  /** Names of users who were accepted before the rule for names. */
  readonly legacyUsernames: ReadonlySet<string>;
  /** Called when a background job fails; the job runs again at its next time. */
  readonly onFailure: (job: string, error: unknown) => void;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
}

export interface ContextOptions
  extends Pick<FleetFilesOptions, 'github' | 'netsUrl' | 'proxy'>,
    Partial<Pick<Context, 'baseUrl' | 'foreignRepos' | 'clock'>> {
  /** `sqlite:<path>` or `postgres://…`. */
  readonly database: string;
  /** Most connections of this process to Postgres. @default 10 */
  readonly databaseConnections?: number | undefined;
  /** Holds games, nets and books. @default the database's path with `-files` */
  readonly folder?: string | undefined;
  /** Lifetime of the primary's lease on Postgres after a crash, in milliseconds. @default 5,000 */
  readonly leaseMs?: number | undefined;
  /** Shortest wait for another primary, in milliseconds. @default 0 */
  readonly patienceMs?: number | undefined;
  readonly random?: Random | undefined;
}

/** Opens the database and brings its tables up to date; no part of it is started. */
export async function openContext(
  options: ContextOptions,
  onFailure: Context['onFailure'],
): Promise<Context> {
  const { database: url, databaseConnections: connectionsMax, patienceMs } = options;
  const { clock = wallClock, random = systemRandom, leaseMs = 5_000 } = options;
  // The database does not get the clock: a database is real even where the fleet's time is virtual.
  await using opened = new AsyncDisposableStack();
  const database = opened.use(await Database.open<FleetSchema>({ url, connectionsMax }));
  const storage = new FleetStorage(database);
  await storage.migrate();
  const feed = new WorldFeed(clock);
  const terms = { leaseMs, lockPath: primaryLockPath(url), patienceMs };
  const onStored = feed.note.bind(feed);
  const primary = new Primary({ storage, clock, random, ...terms, onStored });
  const folder = options.folder ?? folderOf(url);
  const files = new FleetFiles({ ...options, database, folder, onFailure, clock });
  const legacy = (await storage.document('legacy_usernames')) as string[] | undefined;
  opened.move();
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
    baseUrl: options.baseUrl,
    foreignRepos: options.foreignRepos ?? false,
    legacyUsernames: new Set(legacy),
    onFailure,
    clock,
  };
}

function folderOf(database: string): string {
  return database.startsWith('sqlite:') ? `${database.slice(7)}-files` : 'fleet-files';
}
