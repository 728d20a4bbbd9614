import type { Clock } from 'spillway';
import type { Database } from 'spillway-sql';
import type { Contributors } from './contributors/contributors.ts';
import type { FleetFiles } from './files/fleet-files.ts';
import type { WorldFeed } from './pages/feed.ts';
import type { Primary } from './primary/primary.ts';
import type { StoredRuns } from './read/stored-runs.ts';
import type { FleetLanes } from './server/fleet-lanes.ts';
import type { FleetSchema } from './storage/fleet-schema.ts';
import type { FleetStorage } from './storage/fleet-storage.ts';
import type { Users } from './users/users.ts';

/** The parts of a fleet server, one of each, that its routes, pages and jobs work with. */
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
  /** Address of the server for people, without a slash at the end. Undefined: as it is asked. */
  readonly baseUrl: string | undefined;
  /** True if all accounts may test engines that are no fork of the official one. */
  readonly foreignRepos: boolean;
  /** The checksum of a book, without which workers cannot play from it. */
  readonly bookSri: (book: string) => string | undefined;
  /** Names of users that are older than the rule for names. */
  readonly legacyUsernames: ReadonlySet<string>;
  /** Told of what failed in the background; it is done again at its time. */
  readonly onFailure: (job: string, error: unknown) => void;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
}

/** The parts that operations work with; a command opens them where no server runs. */
export type OperationContext = Pick<
  Context,
  'storage' | 'users' | 'primary' | 'files' | 'source' | 'baseUrl' | 'foreignRepos' | 'clock'
>;
