import { createHash } from 'node:crypto';
import { dirname } from 'node:path/posix';
import { ingestError } from '../errors.ts';
import type { Folder } from '../files/folder.ts';
import type { RawEntry } from '../files/raw-file.ts';
import { type DecimalTypes, type RowColumns, usualTypes } from './engine.ts';
import type { RecordTypes } from './records.ts';

/** A Parquet file of the table: trades of one product on one day, by ascending id. */
export interface TableFile {
  /** Path in the folder. */
  readonly path: string;
  readonly exchange: string;
  readonly product: string;
  /** The day in UTC, as `2026-01-28`. */
  readonly date: string;
  readonly rows: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Times of the earliest and the latest trade, in microseconds since 1970 in UTC. */
  readonly firstUs: number;
  readonly lastUs: number;
  readonly bytes: number;
  readonly sha256: string;
  /** Lowest and highest value of the key's first field, as text; for records with a key only. */
  readonly firstKey?: string | undefined;
  readonly lastKey?: string | undefined;
}

/** Column types of a product with trades or with records of a declared source. */
export type ProductTypes = DecimalTypes | RecordTypes;

/** True for records, false for trades. */
export function areRecords(types: ProductTypes): types is RecordTypes {
  return 'columns' in types;
}

/** True for records that replace earlier ones with the same key. */
export function areKeyed(types: ProductTypes): types is RecordTypes {
  return areRecords(types) && types.key.length > 0;
}

/** Returns the columns with the number and the time of a row. */
export function rowColumns(types: ProductTypes): RowColumns {
  return areRecords(types) ? { id: '_seq', time: '_time' } : { id: 'trade_id', time: 'trade_ts' };
}

/** The part of a product's ledger that is in the table. */
export interface MergedProduct {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  /** The last commit of the ledger that is in the table; 0 for none. */
  readonly mergedTo: number;
  /** Lines read from raw files, including repeats. */
  readonly read: number;
  /** Rows in the table, without repeats. */
  readonly rows: number;
  /** Types of all its files, which are rewritten when a value does not fit. */
  readonly types: ProductTypes;
}

/** One state of the table: the files that belong to it. */
export interface Manifest {
  /** Increases by one with each change; 0 for a table that was never written. */
  readonly version: number;
  /** Fencing number of the lease under which it was made; never decreases. */
  readonly fence: number;
  /** By exchange, then product. */
  readonly products: readonly MergedProduct[];
  /** By exchange, product, date, then first id. */
  readonly files: readonly TableFile[];
}

/** The state before the first. */
export const emptyManifest: Manifest = { version: 0, fence: 0, products: [], files: [] };

const format = 'spillway-trades';
/** Increased when an older program could misread the table. */
const formatVersion = 3;

/** Encodes a manifest as JSON with a checksum; the README has its schema. */
function encodeManifest(manifest: Manifest): Uint8Array {
  const sha256 = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
  return Buffer.from(`${JSON.stringify({ format, formatVersion, sha256, ...manifest })}\n`);
}

/** Decodes a manifest; throws `TABLE_CORRUPT` or `TABLE_FUTURE` with the name of the file. */
function decodeManifest(bytes: Uint8Array, version: number, place: string): Manifest {
  const read = parsed(Buffer.from(bytes).toString(), place);
  const { format: found, formatVersion: known, sha256: expected, ...manifest } = read;
  if (found !== format) throw corrupt(place, `it is no manifest of ${format}`);
  if (typeof known === 'number' && known > formatVersion) {
    const what = `${place}: its format is version ${known}, this program knows ${formatVersion}`;
    throw ingestError('TABLE_FUTURE', `${what}; nothing was changed, use a newer program`);
  }
  const sha256 = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
  if (known !== formatVersion) throw corrupt(place, `its format is version ${known}`);
  if (sha256 !== expected) throw corrupt(place, 'its checksum does not fit');
  if (manifest.version === version) return manifest;
  throw corrupt(place, `it is version ${manifest.version}, and has the name of ${version}`);
}

function parsed(text: string, place: string): Manifest & Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw corrupt(place, 'it is no manifest', cause);
  }
}

function corrupt(place: string, why: string, cause?: unknown): Error {
  const remedy =
    'put back a copy, or move the folder "table" away: "ingest transform" makes it anew';
  return ingestError('TABLE_CORRUPT', `${place}: ${why}; nothing was changed; ${remedy}`, {
    cause,
  });
}

const manifestFile = /^table\/manifest\/(\d{9})\.json$/;
/** The number in the name is the version of the table that the file was made for. */
const dataFile = new RegExp(
  '^table/data/exchange=[^/]+/product=[^/]+/date=[-\\d]{10}/' +
    '(\\d{9})-[\\da-f]{16}\\.parquet(\\.new)?$',
);

/**
 * The states of a table. A commit creates the manifest of the next version, which only one process
 * can do: so states form a chain, and a process that is late or has an older lease is refused. New
 * files are called `.parquet.new` until the commit and are renamed after it, so that a reader of
 * all `.parquet` files sees committed data only.
 */
export class ManifestChain {
  readonly #folder: Folder;

  constructor(folder: Folder) {
    this.#folder = folder;
  }

  /** Loads the newest state. */
  async load(signal?: AbortSignal): Promise<Manifest> {
    // A listed manifest may be deleted before it is read, but not many times in a row.
    for (let looks = 1; ; looks += 1) {
      const files = await this.#folder.list('table/manifest', signal);
      const newest = Math.max(0, ...files.map(({ path }) => versionOf(path, manifestFile) ?? 0));
      if (newest === 0) return emptyManifest;
      const path = manifestPath(newest);
      try {
        const bytes = await this.#folder.read(path, signal);
        return decodeManifest(bytes, newest, `${this.#folder.place}/${path}`);
      } catch (error) {
        if (Object(error).code !== 'FOLDER_MISSING' || looks === 5) throw error;
      }
    }
  }

  /** Lists files in the table's folder that do not belong to this state. */
  async strays(state: Manifest, signal?: AbortSignal): Promise<Strays> {
    const named = new Set(state.files.map(({ path }) => path));
    const strays: Record<keyof Strays, string[]> = {
      foreign: [],
      waiting: [],
      left: [],
      later: [],
    };
    for (const { path } of await this.#folder.list('table', signal)) {
      const version = versionOf(path, manifestFile) ?? versionOf(path, dataFile);
      const isWaiting = path.endsWith('.new') && named.has(path.slice(0, -'.new'.length));
      if (version === undefined) strays.foreign.push(path);
      else if (isWaiting) strays.waiting.push(path.slice(0, -'.new'.length));
      else if (named.has(path) || path === manifestPath(state.version)) continue;
      else if (version <= state.version) strays.left.push(path);
      // A `.new` file of a later version may be in work by a newer holder of the lease.
      else if (path.endsWith('.parquet')) strays.later.push(path);
    }
    return strays;
  }

  /**
   * Completes a commit whose process was killed before it had renamed all files, and deletes files
   * that crashes left. Rejects with `TABLE_FOREIGN` for files of other programs.
   */
  async recover(state: Manifest, signal?: AbortSignal): Promise<void> {
    const { foreign, waiting, left, later } = await this.strays(state, signal);
    // A file gets its final name after its manifest exists, so that manifest must be lost.
    if (later[0] !== undefined) throw corrupt(`${this.#folder.place}/${later[0]}`, noManifest);
    if (foreign[0] !== undefined) {
      const what = `${this.#folder.place}/${foreign[0]}: this file is not of the table`;
      throw ingestError('TABLE_FOREIGN', `${what}; nothing was changed, move it elsewhere`);
    }
    await this.#folder.settle(waiting, left);
  }

  /** Commits the next state in one atomic step, or throws `TABLE_STALE`. */
  async commit(before: Manifest, next: Omit<Manifest, 'version'>): Promise<Manifest> {
    const manifest: Manifest = { version: before.version + 1, ...next };
    const path = manifestPath(manifest.version);
    const place = `${this.#folder.place}/${path}`;
    if (next.fence < before.fence) {
      const what = `${place}: made under lease ${next.fence}`;
      throw ingestError('TABLE_STALE', `${what}, but ${before.fence} has been there already`);
    }
    const bytes = encodeManifest(manifest);
    const isMade = await this.#folder.create(path, bytes);
    // If only the answer was lost, the file is our own.
    if (!isMade && !Buffer.from(bytes).equals(await this.#folder.read(path))) {
      throw ingestError('TABLE_STALE', `${place}: another process has changed the table meanwhile`);
    }
    for (const { placed, gone } of steps(before, manifest)) await this.#folder.settle(placed, gone);
    await this.#folder.delete(manifestPath(before.version));
    return manifest;
  }
}

/**
 * Plans the renames and deletions of a commit. A day whose number of rows stays the same, as when
 * files are joined, is a step of its own, so that readers of all files see both for a moment only.
 * All other days are one step, since a trade may move from one to another.
 */
function steps(before: Manifest, now: Manifest) {
  const old = new Set(before.files.map(({ path }) => path));
  const kept = new Set(now.files.map(({ path }) => path));
  const placed = now.files.filter(({ path }) => !old.has(path));
  const gone = before.files.filter(({ path }) => !kept.has(path));
  const rows = new Map<string, number>();
  const add = ({ path }: TableFile, more: number) =>
    rows.set(dirname(path), (rows.get(dirname(path)) ?? 0) + more);
  for (const file of placed) add(file, file.rows);
  for (const file of gone) add(file, -file.rows);
  const stepOf = (path: string): string => (rows.get(dirname(path)) === 0 ? dirname(path) : '');
  const pathsOf = (files: readonly TableFile[], step: string): readonly string[] =>
    files.map(({ path }) => path).filter((path) => stepOf(path) === step);
  const all = new Set([...placed, ...gone].map(({ path }) => stepOf(path)));
  return [...all].map((step) => ({ placed: pathsOf(placed, step), gone: pathsOf(gone, step) }));
}

/** Reason why a file of a later state is wrong. */
export const noManifest = 'the manifest that names it is gone';

/** Files in the table's folder that do not belong to its state. */
export interface Strays {
  /** Files of other programs. */
  readonly foreign: readonly string[];
  /** Files of the state that are not renamed yet. */
  readonly waiting: readonly string[];
  /** Files of earlier states, or of changes that were not committed. */
  readonly left: readonly string[];
  /** Files of a later state, whose manifest is lost or was made meanwhile. */
  readonly later: readonly string[];
}

/** Makes the path of a Parquet file; its name has the version and a hash of its bytes. */
export function dataPath(dayFolder: string, version: number, sha256: string): string {
  return `table/data/${dayFolder}/${padded(version)}-${sha256.slice(0, 16)}.parquet`;
}

function manifestPath(version: number): string {
  return `table/manifest/${padded(version)}.json`;
}

function padded(version: number): string {
  return String(version).padStart(9, '0');
}

function versionOf(path: string, pattern: RegExp): number | undefined {
  const digits = pattern.exec(path)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** The full name of a product. */
export interface ProductName {
  readonly exchange: string;
  readonly product: string;
}

/** The next state of a table while it is being made. */
export class TableDraft {
  readonly before: Manifest;
  /** By {@link keyOf}. */
  readonly #files: Map<string, readonly TableFile[]>;
  readonly #products: Map<string, MergedProduct>;
  readonly #types = new Map<string, ProductTypes>();
  /** Descriptions of changed types. */
  readonly changes: string[] = [];
  /** Written days, as product and date. */
  readonly written: Set<string> = new Set();

  constructor(before: Manifest) {
    this.before = before;
    this.#files = Map.groupBy(before.files, keyOf);
    this.#products = new Map(before.products.map((one) => [keyOf(one), one]));
  }

  /** Version of the next state. */
  get version(): number {
    return this.before.version + 1;
  }

  filesOf(name: ProductName): readonly TableFile[] {
    return this.#files.get(keyOf(name)) ?? [];
  }

  product(name: ProductName): MergedProduct | undefined {
    return this.#products.get(keyOf(name));
  }

  typesOf(name: ProductName): ProductTypes {
    return this.#types.get(keyOf(name)) ?? this.product(name)?.types ?? usualTypes;
  }

  widen(name: ProductName, types: ProductTypes): void {
    this.#types.set(keyOf(name), types);
  }

  /** Removes the product with its files. */
  drop(name: ProductName): void {
    this.#files.delete(keyOf(name));
    this.#products.delete(keyOf(name));
  }

  replace(name: ProductName, gone: readonly TableFile[], made: readonly TableFile[]): void {
    const left = this.filesOf(name).filter((file) => !gone.includes(file));
    this.#files.set(keyOf(name), [...left, ...made]);
    for (const file of [...gone, ...made]) this.written.add(`${keyOf(name)} ${file.date}`);
  }

  /** Notes that the entries have been merged. */
  advance(name: ProductName, entries: readonly RawEntry[]): void {
    const { exchange, product } = name;
    const generation = entries[0]?.generation ?? 1;
    const { mergedTo = 0, read = 0 } = this.product(name) ?? {};
    this.#products.set(keyOf(name), {
      exchange,
      product,
      generation,
      mergedTo: entries.reduce((most, { commit }) => Math.max(most, commit), mergedTo),
      read: read + entries.reduce((sum, { trades }) => sum + trades, 0),
      rows: this.filesOf(name).reduce((sum, { rows }) => sum + rows, 0),
      types: this.typesOf(name),
    });
  }

  finish(fence: number): Omit<Manifest, 'version'> {
    const products = [...this.#products.values()].sort(byProduct);
    const files = products.flatMap((name) => {
      return this.filesOf(name).toSorted((a, b) => {
        return a.date === b.date ? a.firstId - b.firstId : a.date < b.date ? -1 : 1;
      });
    });
    return { fence, products, files };
  }
}

/** Makes a map key of a product; names of exchanges have no line breaks. */
export function keyOf({ exchange, product }: ProductName): string {
  return `${exchange}\n${product}`;
}

function byProduct(a: ProductName, b: ProductName): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}
