import { randomUUID } from 'node:crypto';
import { appendFile, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { deadline, systemRandom, wallClock } from 'spillway';
import { Database, importTables, type OtherLine } from 'spillway-sql';
import { type Claim, claim, primaryLockPath } from '../primary/claim.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { FleetStorage } from '../storage/fleet-storage.ts';
import { fleetTables, isFilePath } from './export-fleet.ts';

export interface ImportOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** The folder that will hold games, nets and books. */
  readonly data: string;
  /** Output of `exportFleet`. */
  readonly source: AsyncIterable<Uint8Array>;
  /** True if the present content may be deleted. */
  readonly replace: boolean;
}

/** Time that the lease of a crashed server lasts, on Postgres. */
const leaseMs = 5_000;
/** The lock of a SQLite file is free as soon as its holder dies, so the wait is short. */
const lockMsMax = 500;

/** Reads all of an export into the database, or nothing; no server may run meanwhile. */
export async function importFleet(options: ImportOptions) {
  const { data, source, replace } = options;
  await using parts = new AsyncDisposableStack();
  const { database, claim: mine } = await openTarget(options.database, parts);
  const staging = join(data, `.import-${randomUUID()}`);
  await using files = new StagedFiles(staging);
  const rows = await importTables({
    database,
    tables: fleetTables,
    source,
    replace,
    onOther: (line) => files.add(line),
    onWhole: async () => {
      mine.signal.throwIfAborted();
      await files.keep(data);
    },
  });
  return { rows, files: files.count };
}

/** A database without deadlines on which no other process decides. */
export interface Target {
  readonly storage: FleetStorage;
  readonly database: Database<FleetSchema>;
  readonly claim: Claim;
}

export async function openTarget(url: string, parts: AsyncDisposableStack): Promise<Target> {
  const database = parts.use(await Database.open<FleetSchema>({ url, deadlineMs: Infinity }));
  const storage = new FleetStorage(database);
  await storage.migrate();
  return { storage, database, claim: parts.use(await claimed(storage, url)) };
}

/** Makes this process the only one on the database, as a server would be. */
async function claimed(storage: FleetStorage, database: string): Promise<Claim> {
  const lockPath = primaryLockPath(database);
  const options = { storage, clock: wallClock, random: systemRandom, leaseMs, lockPath };
  using limit = deadline(wallClock, lockPath === undefined ? 1.5 * leaseMs : lockMsMax);
  try {
    return await claim(options, limit.signal);
  } catch (error) {
    if (!limit.signal.aborted) throw error;
    throw new Error('database: a server has it open; stop that first', { cause: error });
  }
}

/** Holds files in a temporary folder until the import is complete. */
class StagedFiles implements AsyncDisposable {
  readonly #folder: string;
  /** Bytes received of each file. */
  readonly #bytes = new Map<string, number>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  get count(): number {
    return this.#bytes.size;
  }

  async add({ file, at, base64 }: OtherLine): Promise<void> {
    if (typeof file !== 'string' || typeof base64 !== 'string' || !isFilePath(file)) {
      throw new Error(`a line is neither a row nor a file that belongs here: ${file}`);
    }
    const before = this.#bytes.get(file) ?? 0;
    if (at !== before) throw new Error(`${file}: a piece is missing`);
    const bytes = Buffer.from(base64, 'base64');
    const path = join(this.#folder, file);
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, bytes);
    this.#bytes.set(file, before + bytes.length);
  }

  async keep(data: string): Promise<void> {
    for (const file of this.#bytes.keys()) {
      const staged = join(this.#folder, file);
      await using handle = await open(staged, 'r+');
      await handle.sync();
      await mkdir(dirname(join(data, file)), { recursive: true });
      await rename(staged, join(data, file));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}
