import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createGunzip } from 'node:zlib';
import { CompiledQuery } from 'kysely';
import { wallClock } from 'spillway';
import { makeDatabaseFolder } from 'spillway-cli';
import { byteLines, type Database } from 'spillway-sql';
import { patterns } from '../protocol/patterns.ts';
import { fenceQuery } from '../storage/change-writer.ts';
import type { FleetSchema } from '../storage/fleet-schema.ts';
import { type UpsertTable, upserts } from '../storage/rows.ts';
import { type Collection, collections, type Entry, extendedJson } from './fishtest-collections.ts';
import { DocumentFault } from './fishtest-records.ts';
import { openTarget, type Target } from './import-fleet.ts';

export interface ImportFishtestOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** Holds `runs.json`, `users.json`, `actions.json`, `nns.json` and `workers.json`. */
  readonly folder: string;
  /** Called about once a second. */
  readonly onProgress: (progress: ImportProgress) => void;
}

export interface ImportProgress {
  readonly collection: string;
  readonly documents: number;
  /** Share of the file that was read, from 0 to 1. */
  readonly share: number;
}

/** Number of documents with the same fault, and the first of them. */
export interface Refusal {
  readonly reason: string;
  count: number;
  readonly examples: string[];
}

/** Result of one file. */
export interface ImportedCollection {
  readonly collection: string;
  documents: number;
  /** New, or newer than what was here. */
  taken: number;
  /** Not newer than what was here. */
  kept: number;
  readonly refused: Refusal[];
  /** Fields that have no place here, with the number of documents that had them. */
  readonly leftOut: Record<string, number>;
}

const batchRows = 2_000;
const batchBytes = 4 * 1_048_576;
const progressMs = 1_000;
const examplesMax = 3;
/** Most different reasons that are listed, and most fields. */
const reasonsMax = 100;
/** Keys in one query. */
const askedMax = 500;

/**
 * Imports the output of `mongoexport` from a fishtest server in batches, each in one transaction.
 * Existing records stay, except runs that have changed since, so it can be repeated, also after an
 * interruption. No server may run meanwhile.
 */
export async function importFishtest(
  options: ImportFishtestOptions,
): Promise<ImportedCollection[]> {
  const files = await filesIn(options.folder);
  await using parts = new AsyncDisposableStack();
  let target: Promise<Target> | undefined;
  // Opened with the first document, so that a wrong folder makes no new database.
  const open = () => {
    target ??= makeDatabaseFolder(options.database).then(() => openTarget(options.database, parts));
    return target;
  };
  const done: ImportedCollection[] = [];
  for (const [collection, file] of files) {
    const writer = new CollectionWriter(collection, open);
    done.push(await readCollection(collection, file, writer, options.onProgress));
    if (writer.oldNames.size > 0) await keepOldNames(await open(), writer.oldNames);
  }
  return done;
}

async function filesIn(folder: string): Promise<[Collection, FoundFile][]> {
  const found = await stat(folder).catch(() => undefined);
  if (found === undefined) throw new Error(`${folder}: there is no such folder`);
  if (!found.isDirectory()) throw new Error(`${folder}: is a file; name the folder that it is in`);
  const files: [Collection, FoundFile][] = [];
  for (const collection of collections) {
    const file = await fileOf(folder, collection.name);
    if (file !== undefined) files.push([collection, file]);
  }
  if (files.length > 0) return files;
  const names = collections.map(({ name }) => `${name}.json`).join(', ');
  throw new Error(`${folder}: has none of ${names}`);
}

interface FoundFile {
  readonly path: string;
  readonly bytes: number;
}

async function fileOf(folder: string, name: string): Promise<FoundFile | undefined> {
  for (const end of ['.json', '.json.gz']) {
    const path = join(folder, `${name}${end}`);
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile()) return { path, bytes: found.size };
  }
  return undefined;
}

async function readCollection(
  collection: Collection,
  file: FoundFile,
  writer: CollectionWriter,
  onProgress: ImportFishtestOptions['onProgress'],
): Promise<ImportedCollection> {
  const result: ImportedCollection = {
    collection: collection.name,
    documents: 0,
    taken: 0,
    kept: 0,
    refused: [],
    leftOut: {},
  };
  const raw = createReadStream(file.path, { highWaterMark: 262_144 });
  const source = file.path.endsWith('.gz') ? raw.pipe(createGunzip()) : raw;
  raw.on('error', (error) => source.destroy(error));
  let toldAt = wallClock.now();
  for await (const line of byteLines(source)) {
    if (line.length === 0) continue;
    result.documents += 1;
    const entry = readEntry(collection, line, result);
    if (entry !== undefined) await writer.add(entry, line.length, result);
    const now = wallClock.now();
    if (now - toldAt < progressMs) continue;
    toldAt = now;
    const { documents } = result;
    onProgress({ collection: collection.name, documents, share: raw.bytesRead / file.bytes });
  }
  await writer.flush(result);
  return result;
}

/** A document as rows; undefined, with an entry in the result, if it cannot be taken. */
function readEntry(
  collection: Collection,
  line: Uint8Array,
  result: ImportedCollection,
): Entry | undefined {
  const { leftOut } = result;
  const seen = new Set<string>();
  const onLeftOut = (path: string) => {
    if (seen.has(path)) return;
    seen.add(path);
    const isKnown = path in leftOut || Object.keys(leftOut).length < reasonsMax;
    const name = isKnown ? path : 'others';
    leftOut[name] = (leftOut[name] ?? 0) + 1;
  };
  let id: unknown;
  try {
    const value = extendedJson(Buffer.from(line).toString());
    if (Array.isArray(value)) throw new DocumentFault(isList);
    id = Object(value)._id;
    return collection.read(value, onLeftOut);
  } catch (error) {
    if (error instanceof DocumentFault) refuse(result, error.message, id);
    else if (!(error instanceof SyntaxError)) throw error;
    else refuse(result, line[0] === 0x5b ? isList : 'the line is not JSON', id);
    return undefined;
  }
}

const isList = 'it is a list of documents: export without --jsonArray, one document a line';

function refuse({ refused, documents }: ImportedCollection, reason: string, id: unknown): void {
  const known = (name: string) => refused.find((one) => one.reason === name);
  const name = known(reason) || refused.length < reasonsMax ? reason : 'other reasons';
  const same = known(name) ?? { reason: name, count: 0, examples: [] };
  if (same.count === 0) refused.push(same);
  same.count += 1;
  if (same.examples.length >= examplesMax) return;
  same.examples.push(id === undefined ? `line ${documents}` : `line ${documents} (${String(id)})`);
}

/** Writes the rows of one collection, a batch at a time. */
class CollectionWriter {
  readonly #collection: Collection;
  readonly #open: () => Promise<Target>;
  /** By key: a statement may not have the same row twice. */
  #batch = new Map<string, Entry>();
  #rows = 0;
  #bytes = 0;
  /** Users whose names are older than the rule for names. */
  readonly oldNames: Set<string> = new Set();

  constructor(collection: Collection, open: () => Promise<Target>) {
    this.#collection = collection;
    this.#open = open;
  }

  async add(entry: Entry, bytes: number, result: ImportedCollection): Promise<void> {
    if (this.#batch.has(entry.key)) await this.flush(result);
    this.#batch.set(entry.key, entry);
    if (this.#collection.table === 'users' && !patterns.username.test(entry.key)) {
      this.oldNames.add(entry.key);
    }
    for (const rows of Object.values(entry.rows)) this.#rows += rows.length;
    this.#bytes += bytes;
    if (this.#rows >= batchRows || this.#bytes >= batchBytes) await this.flush(result);
  }

  /** Resolves when all is durable. */
  async flush(result: ImportedCollection): Promise<void> {
    const entries = [...this.#batch.values()];
    if (entries.length === 0) return;
    this.#batch = new Map();
    this.#rows = 0;
    this.#bytes = 0;
    const { database, claim } = await this.#open();
    claim.signal.throwIfAborted();
    const known = await this.#known(database, entries);
    const taken = entries.filter(({ key, updated }) => (known.get(key) ?? -1) < updated);
    result.kept += entries.length - taken.length;
    if (taken.length === 0) return;
    const replaced = taken.filter(({ key }) => known.has(key)).map(({ key }) => key);
    const queries = [fenceQuery({ database, fence: claim.fence })];
    for (const key of replaced) {
      for (const table of ['tasks', 'bad_tasks'] as const) {
        queries.push(database.kysely.deleteFrom(table).where('run_id', '=', key).compile());
      }
    }
    for (const table of Object.keys(taken[0]?.rows ?? {}) as UpsertTable[]) {
      const rows = taken.flatMap((entry) => entry.rows[table] ?? []);
      queries.push(...upserts(database.kind, table, rows));
    }
    await database.batch(queries);
    result.taken += taken.length;
  }

  /** Times of the last change of entries that are here; 0 where only runs have one. */
  async #known(
    { kind, kysely }: Database<FleetSchema>,
    entries: readonly Entry[],
  ): Promise<Map<string, number>> {
    const { table, key } = this.#collection;
    const updated = table === 'runs' ? 'last_updated' : '0';
    const known = new Map<string, number>();
    for (let at = 0; at < entries.length; at += askedMax) {
      const keys = entries.slice(at, at + askedMax).map((entry) => entry.key);
      const place = (index: number) => (kind === 'postgres' ? `$${index + 1}` : '?');
      const places = keys.map((_, index) => place(index)).join(', ');
      const sql = `select "${key}" as key, ${updated} as updated from ${table} where "${key}" in`;
      const query = CompiledQuery.raw(`${sql} (${places})`, keys);
      const { rows } = await kysely.executeQuery(query);
      for (const row of rows as { key: string; updated: number }[]) {
        known.set(row.key, Number(row.updated));
      }
    }
    return known;
  }
}

/** Stores old names of users: workers with such a name are accepted. */
async function keepOldNames({ storage }: Target, names: ReadonlySet<string>): Promise<void> {
  const before = ((await storage.document('legacy_usernames')) ?? []) as string[];
  await storage.setDocument('legacy_usernames', [...new Set([...before, ...names])]);
}
