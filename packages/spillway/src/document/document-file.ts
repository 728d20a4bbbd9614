import type { BigIntStats } from 'node:fs';
import {
  type FileHandle,
  lstat,
  open,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';

/** What the file held at one moment. */
export interface DocumentVersion {
  readonly text: string;
  /** Undefined while there is no file. */
  readonly stats: BigIntStats | undefined;
}

const newFileMode = 0o600;
const permissionBits = 0o7777n;

/** Where the document really is: links are followed, and the file itself need not exist yet. */
export async function documentTarget(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (field(error, 'code') !== 'ENOENT') throw failed(path, error);
  }
  try {
    const target = join(await realpath(dirname(path)), basename(path));
    // Writing through a link to nowhere would replace it. A file may have come into being just now.
    const found = await lstat(target).catch(unlessMissing);
    if (found?.isSymbolicLink() !== true) return target;
  } catch (error) {
    throw failed(path, error);
  }
  throw failed(path, new Error('it is a link to a file that does not exist'));
}

/** The file of a {@link Document}: read whole, replaced whole. Writing needs the lock. */
export class DocumentFile {
  readonly path: string;
  readonly #initial: string;
  readonly #bytesMax: number;
  #current: DocumentVersion | undefined;
  /** Held open so that its inode is not given to a later version, which would look the same. */
  #handle: FileHandle | undefined;

  constructor(path: string, initial: string, bytesMax: number) {
    this.path = path;
    this.#initial = initial;
    this.#bytesMax = bytesMax;
  }

  /** The newest version; the file is read only if it is another than last time. */
  async load(): Promise<DocumentVersion> {
    try {
      return await this.#load();
    } catch (error) {
      throw error instanceof SpillwayError ? error : failed(this.path, error);
    }
  }

  async #load(): Promise<DocumentVersion> {
    const found = await stat(this.path, { bigint: true }).catch(unlessMissing);
    const { stats, text = '' } = this.#current ?? {};
    if (found === undefined) return this.#keep({ text: this.#initial, stats: undefined });
    // The mode and the owner may have changed even so.
    if (stats !== undefined && isSame(found, stats)) return { text, stats: found };
    const handle = await open(this.path, 'r');
    try {
      const opened = await handle.stat({ bigint: true });
      this.#checkSize(opened.size);
      return await this.#keep(
        { text: this.#decode(await handle.readFile()), stats: opened },
        handle,
      );
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Replaces the file, and returns once the new one would survive a power cut. */
  async replace(text: string, former: BigIntStats | undefined): Promise<void> {
    const temporary = `${this.path}.tmp`;
    let handle: FileHandle | undefined;
    try {
      if (former !== undefined && (former.mode & 0o222n) === 0n) throw new Error('it is read-only');
      // Only who has the lock writes it: one that is there was left by a process that died.
      await rm(temporary, { force: true });
      handle = await open(temporary, 'wx', newFileMode);
      if (former !== undefined) await likeFormer(handle, former);
      await handle.writeFile(text);
      await handle.sync();
      await rename(temporary, this.path);
      await syncFolder(dirname(this.path));
      await this.#keep({ text, stats: await handle.stat({ bigint: true }) }, handle);
    } catch (error) {
      await handle?.close();
      await rm(temporary, { force: true }).catch(() => {});
      throw failed(this.path, error);
    }
  }

  /** Moves a corrupt file out of the way, with the reason in a file of its own beside it. */
  async setAside(reason: string): Promise<void> {
    let aside = '';
    for (let n = 1; aside === ''; n += 1) {
      const name = `${this.path}.corrupt-${n}`;
      if ((await lstat(name).catch(unlessMissing)) === undefined) aside = name;
    }
    try {
      await writeFile(`${aside}.reason`, `${reason}\n`, { mode: newFileMode, flush: true });
      await rename(this.path, aside);
      await syncFolder(dirname(this.path));
    } catch (error) {
      throw failed(this.path, error);
    }
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
    this.#current = undefined;
  }

  async #keep(version: DocumentVersion, handle?: FileHandle): Promise<DocumentVersion> {
    const former = this.#handle;
    this.#handle = handle;
    this.#current = version;
    await former?.close();
    return version;
  }

  #checkSize(size: bigint): void {
    if (size <= this.#bytesMax) return;
    const message = `${this.path} has ${size} bytes, more than its ${this.#bytesMax}`;
    throw new SpillwayError('DOCUMENT_TOO_LARGE', message);
  }

  #decode(bytes: Buffer): string {
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      JSON.parse(text);
      return text;
    } catch (cause) {
      const message = `${this.path} is not JSON: ${String(field(cause, 'message'))}`;
      throw new SpillwayError('DOCUMENT_CORRUPT', message, { cause });
    }
  }
}

function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.mtimeNs === b.mtimeNs && a.size === b.size;
}

async function likeFormer(handle: FileHandle, { mode, uid, gid }: BigIntStats): Promise<void> {
  const made = await handle.stat({ bigint: true });
  // Only the superuser may give files away; the permissions are what others depend on.
  if (made.uid !== uid || made.gid !== gid) {
    await handle.chown(Number(uid), Number(gid)).catch(unlessForbidden);
  }
  if ((made.mode & permissionBits) !== (mode & permissionBits)) {
    await handle.chmod(Number(mode & permissionBits));
  }
}

/** A rename is in the folder: without this it may be forgotten although the file is not. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function unlessMissing(error: unknown): undefined {
  if (field(error, 'code') !== 'ENOENT') throw error;
}

function unlessForbidden(error: unknown): void {
  if (field(error, 'code') !== 'EPERM') throw error;
}

function failed(path: string, cause: unknown): SpillwayError {
  const message = `${path}: ${String(field(cause, 'message'))}`;
  return new SpillwayError('DOCUMENT_FAILED', message, { cause });
}
