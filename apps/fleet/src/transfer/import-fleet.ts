import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CompiledQuery, type Transaction } from 'kysely';
import { deadline, systemRandom, wallClock } from 'spillway';
import { Database } from 'spillway-sql';
import { type Claim, claim, primaryLockPath } from '../primary/claim.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { FleetStorage } from '../storage/fleet-storage.ts';
import { byteLines } from './byte-lines.ts';
import { RowWriter } from './row-writer.ts';
import {
  type ExportEnd,
  type ExportHeader,
  type ExportPiece,
  type ExportRow,
  formatVersion,
  isFilePath,
  isOwnTable,
  schemaVersion,
} from './transfer-format.ts';

export interface ImportOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** The folder that will hold games, nets and books. */
  readonly data: string;
  /** Output of `exportFleet`. */
  readonly source: AsyncIterable<Uint8Array>;
  /** True if the present content may be thrown away. */
  readonly replace: boolean;
}

export interface Imported {
  readonly rows: number;
  readonly files: number;
}

type Line = Partial<ExportHeader & ExportRow & ExportPiece & ExportEnd>;

/** For how long a server that crashed keeps others from a database that is not a file. */
const leaseMs = 5_000;
/** A lock is free at once when its holder dies, so that others need not wait for it. */
const lockMsMax = 500;

/** Reads all of an export into the database, or nothing; no server may run meanwhile. */
export async function importFleet(options: ImportOptions): Promise<Imported> {
  const { data, source, replace } = options;
  await using database = await Database.open<FleetSchema>({
    url: options.database,
    deadlineMs: Infinity,
  });
  const storage = new FleetStorage(database);
  await storage.migrate();
  await using mine = await claimed(storage, options.database);
  const staging = join(data, `.import-${randomUUID()}`);
  const tables = await tablesOf(database);
  try {
    return await database.transaction(async (tx) => {
      await empty(tx, tables, replace);
      await using files = new StagedFiles(staging);
      const rows = new RowWriter(tx, tables);
      await readLines(source, rows, files);
      mine.signal.throwIfAborted();
      await files.keep(data);
      return { rows: rows.count, files: files.count };
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** Makes this process the only one on the database, as a server would be. */
export async function claimed(storage: FleetStorage, database: string): Promise<Claim> {
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

async function tablesOf({ kysely }: Database<FleetSchema>): Promise<string[]> {
  const tables = await kysely.introspection.getTables();
  return tables.map(({ name }) => name).filter(isOwnTable);
}

async function empty(
  tx: Transaction<FleetSchema>,
  tables: readonly string[],
  replace: boolean,
): Promise<void> {
  for (const table of tables) {
    const run = (sql: string) => tx.executeQuery(CompiledQuery.raw(sql));
    // The address of the last server is no reason to keep anything.
    const rest = table === 'documents' ? " where name <> 'server_address'" : '';
    if (replace) await run(`delete from "${table}"`);
    else if ((await run(`select 1 from "${table}"${rest} limit 1`)).rows.length > 0) {
      throw new Error(`database: is not empty (${table}); --replace throws away what is there`);
    }
  }
}

/** Checks each line; the last one says whether all before it have come as they were written. */
async function readLines(
  source: AsyncIterable<Uint8Array>,
  rows: RowWriter,
  files: StagedFiles,
): Promise<void> {
  const hash = createHash('sha256');
  let count = 0;
  let isEnded = false;
  for await (const bytes of byteLines(source)) {
    const line = parse(bytes, count + 1);
    if (isEnded) throw new Error(`line ${count + 2}: follows the end`);
    if (line.end === true) {
      const isWhole = line.lines === count && line.sha256 === hash.digest('hex');
      if (!isWhole) throw new Error('the checksum is wrong: it is not what was exported');
      isEnded = true;
      continue;
    }
    hash.update(bytes).update('\n');
    count += 1;
    if (count === 1) assertHeader(line);
    else if (line.table !== undefined) await rows.add(line.table, line.row);
    else await files.add(line);
  }
  if (!isEnded) throw new Error(`it ends after ${count} lines, without the last one`);
  await rows.flush();
  await files.flush();
}

function parse(bytes: Uint8Array, number: number): Line {
  try {
    return Object(JSON.parse(Buffer.from(bytes).toString())) as Line;
  } catch (cause) {
    throw new Error(`line ${number}: is not JSON`, { cause });
  }
}

function assertHeader({ fleet, version, schema }: Line): void {
  if (fleet !== 'export') throw new Error('line 1: this is not what fleet export writes');
  if (version === formatVersion && schema === schemaVersion) return;
  throw new Error(
    `line 1: this is version ${version} of tables ${schema}, and here is version ` +
      `${formatVersion} of tables ${schemaVersion}\nImport it with the version that wrote it.`,
  );
}

/** Files lie aside until all has come. */
class StagedFiles implements AsyncDisposable {
  readonly #folder: string;
  readonly #paths: string[] = [];
  #open: { readonly file: string; readonly handle: FileHandle; bytes: number } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get count(): number {
    return this.#paths.length;
  }

  async add({ file, at, base64 }: Line): Promise<void> {
    if (typeof file !== 'string' || typeof base64 !== 'string' || !isFilePath(file)) {
      throw new Error(`a line is neither a row nor a file that belongs here: ${file}`);
    }
    if (this.#open?.file !== file) await this.#begin(file);
    const current = this.#open;
    if (current === undefined || at !== current.bytes)
      throw new Error(`${file}: a piece is missing`);
    const bytes = Buffer.from(base64, 'base64');
    await current.handle.writeFile(bytes);
    current.bytes += bytes.length;
  }

  async flush(): Promise<void> {
    await this.#open?.handle.sync();
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open?.handle.close();
    this.#open = undefined;
  }

  async keep(data: string): Promise<void> {
    for (const path of this.#paths) {
      await mkdir(dirname(join(data, path)), { recursive: true });
      await rename(join(this.#folder, path), join(data, path));
    }
  }

  async #begin(file: string): Promise<void> {
    await this.flush();
    const path = join(this.#folder, file);
    await mkdir(dirname(path), { recursive: true });
    this.#open = { file, handle: await open(path, 'wx'), bytes: 0 };
    this.#paths.push(file);
  }
}
