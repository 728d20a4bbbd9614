import { randomUUID } from 'node:crypto';
import { constants, renameSync, unlinkSync } from 'node:fs';
import {
  access,
  type FileHandle,
  link,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { check, renameDurably, syncFolder } from 'spillway/internal';
import { type IngestErrorCode, ingestError } from '../errors.ts';
import { makeDirectories, makeDirectory } from './directories.ts';

/** A file in a listing. */
export interface FolderFile {
  /** Relative to the folder, with `/` between its parts. */
  readonly path: string;
  readonly bytes: number;
}

/** A file that stays readable on this machine until it is disposed. */
export interface HeldFile extends AsyncDisposable {
  readonly path: string;
}

/**
 * Storage of raw files and tables: a directory or a bucket. All paths are relative to it. Files are
 * written atomically, and are durable when the call resolves. Calls reject with a `SpillwayError`
 * that names the file: `FOLDER_FULL`, `FOLDER_READ_ONLY`, `FOLDER_MISSING`, `FOLDER_UNREACHABLE` or
 * `FOLDER_FAILED`.
 */
export interface Folder extends AsyncDisposable {
  /** Its path or address, for messages. */
  readonly place: string;
  /** Creates or replaces the file. */
  write(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** Creates the file; returns false, and changes nothing, if it exists. */
  create(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean>;
  /** Moves a file of {@link scratch} in; replaces an existing one. */
  adopt(file: string, path: string, signal?: AbortSignal): Promise<void>;
  read(path: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Makes the file readable on this machine; dispose it after use. */
  hold(path: string, signal?: AbortSignal): Promise<HeldFile>;
  /**
   * Renames each `<path>.new` to `<path>`, and deletes other files, with as little time in between
   * as possible. Either may have been done before.
   */
  settle(waiting: readonly string[], gone: readonly string[]): Promise<void>;
  /** Lists all files below a directory by path, at most a million, without temporary ones. */
  list(under: string, signal?: AbortSignal): Promise<readonly FolderFile[]>;
  /** Deletes the file if it exists. */
  delete(path: string, signal?: AbortSignal): Promise<void>;
  /** A directory on this machine for files to adopt; deleted on disposal. */
  readonly scratch: string;
}

/** Compares paths by code units, the order of every listing. */
export function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  if (a.path === b.path) return 0;
  return a.path < b.path ? -1 : 1;
}

/** Refuses paths that could leave the folder. */
export function checkFolderPath(path: string): void {
  const parts = path.split('/');
  const isInside = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  check(isInside && !path.includes('\0'), 'path', 'relative, without . and ..', path);
}

/** Several held files. */
export interface HeldFiles extends AsyncDisposable {
  /** In the order of the request. */
  readonly paths: readonly string[];
}

/** Files fetched at once. */
const holdsAtOnce = 8;

/** Holds all files, or none if one fails. */
export async function holdAll(
  folder: Folder,
  paths: readonly string[],
  signal?: AbortSignal,
): Promise<HeldFiles> {
  const held: HeldFile[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next; at < paths.length; at = next) {
      next += 1;
      held[at] = await folder.hold(paths[at] as string, signal);
    }
  };
  const discard = async (): Promise<void> => {
    await Promise.all(held.map((one) => one[Symbol.asyncDispose]()));
  };
  const workers = Array.from({ length: holdsAtOnce }, work);
  const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') {
    await discard();
    throw failed.reason;
  }
  return { paths: held.map(({ path }) => path), [Symbol.asyncDispose]: discard };
}

/** Folder of unfinished files; on the same file system, so that a rename moves them in. */
const scratches = '.scratch';
const listMax = 1_000_000;

/** A directory of this machine. Written files survive a power failure. */
export class LocalFolder implements Folder {
  readonly place: string;
  readonly scratch: string;
  readonly #isReadOnly: boolean;
  #files = 0;

  private constructor(place: string, scratch: string, isReadOnly: boolean) {
    this.place = place;
    this.scratch = scratch;
    this.#isReadOnly = isReadOnly;
  }

  /**
   * Creates the directory if needed, and deletes scratch files of dead processes. With `readsOnly`
   * the directory may be read-only.
   */
  static async open(path: string, readsOnly = false): Promise<LocalFolder> {
    check(typeof path === 'string' && path !== '', 'path', 'the path of a directory', path);
    const place = resolve(path);
    const column = place.split(sep).find((part) => part.includes('='));
    if (column !== undefined) {
      const why = `readers of the table would take "${column}" for a column of it`;
      throw ingestError('FOLDER_FAILED', `${place}: ${why}; use a path without "="`);
    }
    // Host and process are in the name, so that folders of dead processes can be recognized.
    const name = `${hostname()}-${process.pid}-${randomUUID()}`;
    if (readsOnly && (await isReadOnly(place))) {
      return new LocalFolder(place, await mkdtemp(join(tmpdir(), 'ingest-')), true);
    }
    const folder = new LocalFolder(place, join(place, scratches, name), false);
    await folder.#try(folder.scratch, () => makeDirectories(folder.scratch));
    await clearScratches(join(folder.place, scratches));
    return folder;
  }

  async write(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#try(path, async () => {
      const temporary = await this.#temporary(bytes, signal);
      await this.#move(temporary, path);
    });
  }

  async create(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    return await this.#try(path, async () => {
      const target = this.#path(path);
      const temporary = await this.#temporary(bytes, signal);
      try {
        await makeDirectory(dirname(target));
        // `link` fails if the target exists, and gives it the whole content: one atomic step.
        await link(temporary, target);
        await syncFolder(dirname(target));
        return true;
      } catch (error) {
        if (codeOf(error) === 'EEXIST') return false;
        throw error;
      } finally {
        await rm(temporary, { force: true });
      }
    });
  }

  async adopt(file: string, path: string, signal?: AbortSignal): Promise<void> {
    await this.#try(path, async () => {
      signal?.throwIfAborted();
      await using handle = await open(file, 'r+');
      await handle.sync();
      await this.#move(file, path);
    });
  }

  async read(path: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const file = this.#path(path);
    return await this.#try(path, () => readFile(file, signal === undefined ? {} : { signal }));
  }

  /** Gives a file of the table a second name, as its own may be deleted while it is read. */
  async hold(path: string): Promise<HeldFile> {
    const names = ['', '.new', ''].map((end) => `${this.#path(path)}${end}`);
    const inPlace = async (): Promise<HeldFile> => {
      const there = await firstOf(names, (name) => stat(name).then(() => name));
      return { path: there, [Symbol.asyncDispose]: () => Promise.resolve() };
    };
    // In a read-only directory no second name can be given.
    if (!path.startsWith('table/') || this.#isReadOnly) return await this.#try(path, inPlace);
    const own = join(this.scratch, randomUUID());
    // Not called .parquet, so that no reader of all such files takes it for one more.
    const linked = join(own, `${path}.held`);
    const discard = () => rm(own, { recursive: true, force: true });
    return await this.#try(path, async () => {
      await makeDirectories(dirname(linked));
      try {
        await firstOf(names, (name) => link(name, linked));
        return { path: linked, [Symbol.asyncDispose]: discard };
      } catch (error) {
        // Linux refuses hard links to another user's files that are not writable.
        if (codeOf(error) === 'EPERM') return await inPlace();
        throw error;
      }
    });
  }

  async settle(waiting: readonly string[], gone: readonly string[]): Promise<void> {
    await this.#try('', async () => {
      const places = waiting.map((path) => this.#path(path));
      const old = gone.map((path) => this.#path(path));
      // Synchronous, so that readers find old and new files together as briefly as possible.
      for (const place of places) changeIfThere(() => renameSync(`${place}.new`, place));
      for (const file of old) changeIfThere(() => unlinkSync(file));
      for (const folder of new Set([...places, ...old].map(dirname))) {
        await syncFolder(folder).catch(() => {});
      }
    });
  }

  async list(under: string, signal?: AbortSignal): Promise<readonly FolderFile[]> {
    const root = this.#path(under);
    const files: FolderFile[] = [];
    const visit = async (directory: string): Promise<void> => {
      signal?.throwIfAborted();
      for (const entry of (await ifThere(readdir(directory, { withFileTypes: true }))) ?? []) {
        const path = join(directory, entry.name);
        if (entry.isDirectory()) {
          await visit(path);
          continue;
        }
        // A file deleted meanwhile is listed with size 0; it must not end the listing.
        const bytes = (await ifThere(stat(path)))?.size ?? 0;
        files.push({ path: relative(this.place, path).split(sep).join('/'), bytes });
        if (files.length > listMax) {
          throw ingestError('FOLDER_FAILED', `${root}: more than ${listMax} files`);
        }
      }
    };
    await this.#try(under, () => visit(root));
    return files.sort(byPath);
  }

  async delete(path: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await this.#try(path, () => rm(this.#path(path), { force: true }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.scratch, { recursive: true, force: true });
  }

  #path(path: string): string {
    checkFolderPath(path);
    return join(this.place, path);
  }

  async #temporary(bytes: Uint8Array, signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted();
    this.#files += 1;
    const temporary = join(this.scratch, `${this.#files}.tmp`);
    let handle: FileHandle | undefined;
    try {
      handle = await open(temporary, 'wx');
      await handle.writeFile(bytes, signal === undefined ? {} : { signal });
      await handle.sync();
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw error;
    } finally {
      await handle?.close();
    }
    return temporary;
  }

  async #move(temporary: string, path: string): Promise<void> {
    const target = this.#path(path);
    try {
      await makeDirectory(dirname(target));
      await renameDurably(temporary, target);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      throw error;
    }
  }

  async #try<T>(path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw folderError(join(this.place, relative(this.place, resolve(this.place, path))), error);
    }
  }
}

/** Rejects if the directory cannot be written to, or does not exist and cannot be created. */
export async function demandUsable(path: string): Promise<void> {
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      // The dot makes this fail for a file.
      return await access(`${at}${sep}.`, constants.W_OK);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || at === dirname(at)) throw folderError(at, error);
    }
  }
}

/** True for an existing directory that cannot be written to. */
export async function isReadOnly(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK);
    return false;
  } catch (error) {
    return codeOf(error) !== 'ENOENT';
  }
}

/** Tries names until one exists; rejects with the error of the last. */
export async function firstOf<T>(
  names: readonly string[],
  read: (name: string) => Promise<T>,
): Promise<T> {
  for (const name of names.slice(0, -1)) {
    try {
      return await read(name);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'FOLDER_MISSING') throw error;
    }
  }
  return await read(names.at(-1) as string);
}

/** Resolves with undefined where the file or directory does not exist. */
async function ifThere<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function changeIfThere(change: () => void): void {
  try {
    change();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}

const faults: Readonly<Record<string, IngestErrorCode>> = {
  EACCES: 'FOLDER_READ_ONLY',
  EDQUOT: 'FOLDER_FULL',
  EFBIG: 'FOLDER_FULL',
  ENOENT: 'FOLDER_MISSING',
  ENOSPC: 'FOLDER_FULL',
  EPERM: 'FOLDER_READ_ONLY',
  EROFS: 'FOLDER_READ_ONLY',
};

/** Turns an error of the file system into one with our code and the name of the file. */
export function folderError(path: string, error: unknown): unknown {
  const code = codeOf(error);
  const isSystem = error instanceof Error && 'syscall' in error;
  if (!isSystem || code === undefined) return error;
  return ingestError(faults[code] ?? 'FOLDER_FAILED', `${path}: ${error.message}`, {
    cause: error,
  });
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Deletes scratch folders of this machine whose process is dead; others may be in use. */
async function clearScratches(path: string): Promise<void> {
  const mine = `${hostname()}-`;
  for (const name of await readdir(path)) {
    const pid = Number(name.slice(mine.length).split('-')[0]);
    if (!name.startsWith(mine) || !Number.isInteger(pid) || isAlive(pid)) continue;
    await rm(join(path, name), { recursive: true, force: true }).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) !== 'ESRCH';
  }
}
