import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat, open, realpath, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { renameDurably, replaceFile } from './atomic-file.ts';

/** Content of the file at one moment. */
export interface DocumentVersion {
  readonly text: string;
  /** Undefined while there is no file. */
  readonly stats: BigIntStats | undefined;
}

const newFileMode = 0o600;

/** Finds the file behind a path: links are followed, and the file need not exist yet. */
export async function documentTarget(path: string): Promise<string> {
  try {
    const found = await realpath(path).catch(unlessMissing);
    if (found !== undefined) return found;
    const target = join(await realpath(dirname(path)), basename(path));
    // A write would replace a link to nowhere. A file that was made after `realpath` is no link.
    const isLink = (await lstat(target).catch(unlessMissing))?.isSymbolicLink() === true;
    if (isLink) throw new Error('it is a link to a file that does not exist');
    return target;
  } catch (error) {
    throw failed(path, error);
  }
}

/** The file of a {@link Document}, read and replaced as a whole. A writer holds the lock. */
export class DocumentFile {
  readonly path: string;
  readonly #initial: string;
  readonly #bytesMax: number;
  #current: DocumentVersion | undefined;
  /** Kept open, or a later version might get the same inode and look unchanged. */
  #handle: FileHandle | undefined;

  constructor(path: string, initial: string, bytesMax: number) {
    this.path = path;
    this.#initial = initial;
    this.#bytesMax = bytesMax;
  }

  /** Gives the newest version; reads the file only if it was replaced since the last read. */
  async load(): Promise<DocumentVersion> {
    try {
      const found = await stat(this.path, { bigint: true }).catch(unlessMissing);
      if (found === undefined) return await this.#keep({ text: this.#initial, stats: undefined });
      const { stats, text = '' } = this.#current ?? {};
      // The new stats are returned, since the mode or the owner may have changed.
      if (stats !== undefined && isSame(found, stats)) return { text, stats: found };
      return await this.#read();
    } catch (error) {
      throw failed(this.path, error);
    }
  }

  async #read(): Promise<DocumentVersion> {
    const handle = await open(this.path, 'r');
    try {
      const stats = await handle.stat({ bigint: true });
      if (stats.size > this.#bytesMax) {
        const message = `${this.path} has ${stats.size} bytes, more than its ${this.#bytesMax}`;
        throw new SpillwayError('DOCUMENT_TOO_LARGE', message);
      }
      return await this.#keep({ text: this.#decode(await handle.readFile()), stats }, handle);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Replaces the file, and returns once the new one would survive a power cut. */
  async replace(
    text: string,
    former: BigIntStats | undefined,
    beforeRename: () => void,
  ): Promise<void> {
    try {
      if (former !== undefined && (former.mode & 0o222n) === 0n) throw new Error('it is read-only');
      // All processes use one temporary name: only the holder of the lock writes it.
      const temporary = `${this.path}.tmp`;
      const handle = await replaceFile(this.path, text, { temporary, like: former, beforeRename });
      await this.#keep({ text, stats: await handle.stat({ bigint: true }) }, handle);
    } catch (error) {
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
      await renameDurably(this.path, aside);
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

function unlessMissing(error: unknown): undefined {
  if (field(error, 'code') !== 'ENOENT') throw error;
}

/** Names the file in an error of the file system; a SpillwayError names it already. */
function failed(path: string, cause: unknown): SpillwayError {
  if (cause instanceof SpillwayError) return cause;
  const message = `${path}: ${String(field(cause, 'message'))}`;
  return new SpillwayError('DOCUMENT_FAILED', message, { cause });
}
