import type { Folder, FolderFile } from './folder.ts';
import { decodeManifest, emptyManifest, encodeManifest, type Manifest } from './manifest.ts';
import { storageError } from './storage-error.ts';

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
      throw storageError('TABLE_STALE', `${what}, but ${before.fence} has been there already`);
    }
    if (await this.#folder.create(path, encodeManifest(manifest))) return manifest;
    const bytes = await this.#folder.read(path);
    // The answer to our own may have been lost on the way.
    if (Buffer.from(encodeManifest(manifest)).equals(bytes)) return manifest;
    throw storageError('TABLE_STALE', `${place}: another process has changed the table meanwhile`);
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
