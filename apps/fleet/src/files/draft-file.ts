import { createHash, type Hash, randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from 'spillway';
import { renameDurably, syncFolder } from 'spillway/internal';
import { httpError } from 'spillway-http';
import type { Database } from 'spillway-sql';
import type { FleetSchema } from '../storage/fleet-schema.ts';

/** A folder of files, made if it is not there, and the database that has a row for each. */
export interface FolderOptions {
  readonly folder: string;
  readonly database: Database<FleetSchema>;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
}

const suffix = '.part';
/** Longer than any upload may take. */
const draftMsMax = 3_600_000;

/** A file that arrives in pieces; it has a temporary name until it is complete. */
export class DraftFile implements AsyncDisposable {
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #hash: Hash = createHash('sha256');
  #bytes = 0;
  #sha256: string | undefined;
  #isKept = false;

  /** The folder is made if it is not there. */
  static async open(folder: string): Promise<DraftFile> {
    await makeFolder(folder);
    const path = join(folder, `.${randomUUID()}${suffix}`);
    return new DraftFile(path, await open(path, 'wx').catch(fullDisk));
  }

  private constructor(path: string, handle: FileHandle) {
    this.path = path;
    this.#handle = handle;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The digest of all bytes, in hexadecimal; nothing can be written after it was read. */
  get sha256(): string {
    this.#sha256 ??= this.#hash.digest('hex');
    return this.#sha256;
  }

  /** Throws `DISK_FULL` if there is no room for it. */
  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
    for (let at = 0; at < chunk.length; ) {
      at += (await this.#handle.write(chunk, at).catch(fullDisk)).bytesWritten;
    }
  }

  /** Renames the file to a path on the same disk; durable when it resolves. */
  async keep(path: string): Promise<void> {
    await this.#handle.sync().catch(fullDisk);
    await makeFolder(dirname(path));
    await renameDurably(this.path, path);
    this.#isKept = true;
  }

  /** Removes the file unless it was kept. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
    if (!this.#isKept) await unlink(this.path).catch(() => {});
  }
}

/**
 * Removes drafts that a crash has left; `now` is in UNIX milliseconds. Young ones stay: another
 * instance may be writing them.
 */
export async function sweepDrafts(folder: string, now: number): Promise<void> {
  await makeFolder(folder);
  const names = await readdir(folder);
  for (const name of names.filter((one) => one.startsWith('.') && one.endsWith(suffix))) {
    const path = join(folder, name);
    const changedAt = await stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => now,
    );
    if (now - changedAt > draftMsMax) await unlink(path).catch(() => {});
  }
}

/** Names a disk without room: whoever sent the file can send it again when there is some. */
function fullDisk(cause: unknown): never {
  const isFull = ['ENOSPC', 'EDQUOT'].includes(Object(cause).code);
  throw isFull ? httpError('DISK_FULL', 'the disk has no room for this file', { cause }) : cause;
}

async function makeFolder(folder: string): Promise<void> {
  const made = await mkdir(folder, { recursive: true });
  if (made !== undefined) await syncFolder(dirname(made));
}
