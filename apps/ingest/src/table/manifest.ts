import { createHash } from 'node:crypto';
import { ingestError } from '../errors.ts';
import type { Folder, FolderFile } from '../files/folder.ts';
import type { RawEntry } from '../files/raw-file.ts';

/** One Parquet file of the table: the trades of one product on one day, by ascending id. */
export interface TableFile {
  /** Its path in the folder. */
  readonly path: string;
  readonly exchange: string;
  readonly product: string;
  /** The day in UTC, as `2026-01-28`. */
  readonly date: string;
  readonly rows: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Microseconds since 1970 in UTC; of the earliest and the latest trade. */
  readonly firstUs: number;
  readonly lastUs: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** How far the ledger of a product is in the table. */
export interface MergedProduct {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  /** The last commit of the ledger that is in the table; 0 for none. */
  readonly mergedTo: number;
  /** Lines read from raw files, repeats included. */
  readonly read: number;
  /** Trades in the table: lines read without repeats. */
  readonly rows: number;
}

/** One state of the table: which files make it up. Whoever has it sees just this state. */
export interface Manifest {
  /** Grows by one with each change; 0 for a table that has never been written. */
  readonly version: number;
  /** The fencing number of the lease under which it was made; never goes back. */
  readonly fence: number;
  /** By exchange, then product. */
  readonly products: readonly MergedProduct[];
  /** By exchange, product, date, then first id. */
  readonly files: readonly TableFile[];
}

/** The state before the first. */
export const emptyManifest: Manifest = { version: 0, fence: 0, products: [], files: [] };

const format = 'spillway-trades';
/** Grows when a program of before could misread the table. */
const formatVersion = 1;

/** A line that tells what follows, with its checksum, and the manifest itself. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const body = JSON.stringify(manifest);
  const sha256 = createHash('sha256').update(body).digest('hex');
  return Buffer.from(`${JSON.stringify({ format, formatVersion, sha256 })}\n${body}\n`);
}

/** Throws `TABLE_CORRUPT` or `TABLE_FUTURE`, naming the file: it never guesses. */
export function decodeManifest(bytes: Uint8Array, version: number, place: string): Manifest {
  const text = Buffer.from(bytes).toString();
  const end = text.indexOf('\n');
  const head = parsed(text.slice(0, end === -1 ? 0 : end), place) as Record<string, unknown>;
  if (head.format !== format) throw corrupt(place, `it is no manifest of ${format}`);
  const known = head.formatVersion;
  if (typeof known === 'number' && known > formatVersion) {
    const what = `${place}: its format is version ${known}, this program knows ${formatVersion}`;
    throw ingestError('TABLE_FUTURE', `${what}; nothing was changed, use a newer program`);
  }
  const body = text.slice(end + 1, -1);
  const sha256 = createHash('sha256').update(body).digest('hex');
  if (known !== formatVersion || sha256 !== head.sha256) {
    throw corrupt(place, 'its checksum does not fit');
  }
  const manifest = parsed(body, place) as Manifest;
  if (manifest.version === version) return manifest;
  throw corrupt(place, `it is version ${manifest.version}, and has the name of ${version}`);
}

function parsed(text: string, place: string): unknown {
  try {
    return JSON.parse(text) ?? {};
  } catch (cause) {
    throw corrupt(place, 'it is no manifest', cause);
  }
}

function corrupt(place: string, why: string, cause?: unknown): Error {
  const remedy = 'nothing was changed; put back a copy, or delete it to go back to the one before';
  return ingestError('TABLE_CORRUPT', `${place}: ${why}; ${remedy}`, { cause });
}

const manifestFile = /^table\/manifest\/(\d{9})\.json$/;
/** The first number is the version of the table that the file was made for. */
const dataFile =
  /^table\/data\/exchange=[^/]+\/product=[^/]+\/date=[-\d]{10}\/(\d{9})-[\da-f]{16}\.parquet$/;

/**
 * The states of a table, one file each. A state is made by creating the file of the next version,
 * which only one can do: so the states are a chain, and whoever comes late or holds an older lease
 * is refused.
 */
export class ManifestChain {
  readonly #folder: Folder;
  readonly #keep: number;

  constructor(folder: Folder, keep: number) {
    this.#folder = folder;
    this.#keep = keep;
  }

  /** The newest state, or that of a version that is kept. */
  async load(version?: number, signal?: AbortSignal): Promise<Manifest> {
    if (version === 0) return emptyManifest;
    // The one that was listed may be removed before it is read, but not many times in a row.
    for (let looks = 1; ; looks += 1) {
      const wanted = version ?? (await this.#newest(signal));
      if (wanted === 0) return emptyManifest;
      const path = manifestPath(wanted);
      try {
        const bytes = await this.#folder.read(path, signal);
        return decodeManifest(bytes, wanted, `${this.#folder.place}/${path}`);
      } catch (error) {
        const isGone = error instanceof Error && 'code' in error && error.code === 'FOLDER_MISSING';
        if (!isGone || version !== undefined || looks === 5) throw error;
      }
    }
  }

  async #newest(signal?: AbortSignal): Promise<number> {
    const files = await this.#folder.list('table/manifest', signal);
    return Math.max(0, ...files.map(({ path }) => versionOf(path, manifestFile) ?? 0));
  }

  /** What lies in the table's folder, and the table has not written. */
  async foreign(signal?: AbortSignal): Promise<readonly string[]> {
    const files = await this.#folder.list('table', signal);
    return files
      .map(({ path }) => path)
      .filter((path) => !manifestFile.test(path) && !dataFile.test(path));
  }

  /** Makes it the newest state in one atomic step, or throws `TABLE_STALE`. */
  async commit(before: Manifest, next: Omit<Manifest, 'version'>): Promise<Manifest> {
    const manifest: Manifest = { version: before.version + 1, ...next };
    const path = manifestPath(manifest.version);
    const place = `${this.#folder.place}/${path}`;
    if (next.fence < before.fence) {
      const what = `${place}: made under lease ${next.fence}`;
      throw ingestError('TABLE_STALE', `${what}, but ${before.fence} has been there already`);
    }
    if (await this.#folder.create(path, encodeManifest(manifest))) return manifest;
    const bytes = await this.#folder.read(path);
    // The answer to our own may have been lost on the way.
    if (Buffer.from(encodeManifest(manifest)).equals(bytes)) return manifest;
    throw ingestError('TABLE_STALE', `${place}: another process has changed the table meanwhile`);
  }

  /**
   * Deletes older manifests, and every file that none of those kept names. Files made for a later
   * version are left alone: a newer holder of the lease may be writing them just now.
   */
  async prune(newest: Manifest, signal?: AbortSignal): Promise<void> {
    const files = await this.#folder.list('table', signal);
    const oldest = newest.version - this.#keep + 1;
    const named = new Set(newest.files.map(({ path }) => path));
    for (const { path } of files) {
      const version = versionOf(path, manifestFile);
      if (version === undefined || version < oldest || version >= newest.version) continue;
      const kept = await this.load(version, signal);
      for (const file of kept.files) named.add(file.path);
    }
    // Manifests first: one that is there must never name a file that is not.
    for (const file of files.filter(({ path }) => manifestFile.test(path))) {
      if ((versionOf(file.path, manifestFile) as number) < oldest) await this.#delete(file, signal);
    }
    for (const file of files) {
      const version = versionOf(file.path, dataFile);
      if (version === undefined || version > newest.version || named.has(file.path)) continue;
      await this.#delete(file, signal);
    }
  }

  async #delete({ path }: FolderFile, signal?: AbortSignal): Promise<void> {
    await this.#folder.delete(path, signal);
  }
}

/** Where a Parquet file of the table goes; its name tells the version and what is in it. */
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

/** The product that something is of. */
export interface ProductName {
  readonly exchange: string;
  readonly product: string;
}

/** The next state of a table while it is made; the one before stays as it is. */
export class TableDraft {
  readonly before: Manifest;
  /** By product. */
  readonly #files: Map<string, readonly TableFile[]>;
  readonly #products: Map<string, MergedProduct>;
  /** Days that were written, by product and date. */
  readonly written: Set<string> = new Set();

  constructor(before: Manifest) {
    this.before = before;
    this.#files = Map.groupBy(before.files, keyOf);
    this.#products = new Map(before.products.map((one) => [keyOf(one), one]));
  }

  /** What the files that are made now belong to. */
  get version(): number {
    return this.before.version + 1;
  }

  filesOf(name: ProductName): readonly TableFile[] {
    return this.#files.get(keyOf(name)) ?? [];
  }

  product(name: ProductName): MergedProduct | undefined {
    return this.#products.get(keyOf(name));
  }

  /** Forgets all that is known of the product. */
  drop(name: ProductName): void {
    this.#files.delete(keyOf(name));
    this.#products.delete(keyOf(name));
  }

  replace(name: ProductName, gone: readonly TableFile[], made: readonly TableFile[]): void {
    const left = this.filesOf(name).filter((file) => !gone.includes(file));
    this.#files.set(keyOf(name), [...left, ...made]);
    for (const file of [...gone, ...made]) this.written.add(`${keyOf(name)} ${file.date}`);
  }

  /** Notes that the entries are in. */
  advance(name: ProductName, entries: readonly RawEntry[]): void {
    const { exchange, product } = name;
    const generation = entries[0]?.generation ?? 1;
    const { mergedTo = 0, read = 0 } = this.product(name) ?? {};
    this.#products.set(keyOf(name), {
      exchange,
      product,
      generation,
      mergedTo: Math.max(mergedTo, ...entries.map(({ commit }) => commit)),
      read: read + entries.reduce((sum, { trades }) => sum + trades, 0),
      rows: this.filesOf(name).reduce((sum, { rows }) => sum + rows, 0),
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

/** The same for everything of one product; no exchange has a name with a line break in it. */
export function keyOf({ exchange, product }: ProductName): string {
  return `${exchange}\n${product}`;
}

function byProduct(a: ProductName, b: ProductName): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}
