import { createReadStream, createWriteStream, existsSync, statSync } from 'node:fs';
import { access, constants, mkdtemp, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { UsageError } from './program.ts';
import { makeDatabaseFolder } from './serve.ts';

/** Writes lines to a file that only its user can read; without `file`, to standard output. */
export async function writeBackup(
  lines: AsyncIterable<string>,
  file: string | undefined,
): Promise<void> {
  if (file === undefined) {
    await pipeline(lines, process.stdout, { end: false });
    return;
  }
  if (isFolder(file)) throw new UsageError(`${file}: is a folder; name a file in it`);
  if (!isFolder(dirname(file))) {
    throw new UsageError(`${file}: there is no folder ${dirname(file)}; make it first`);
  }
  // Renamed when it is complete, so that `file` is never half a backup.
  const part = `${file}.part`;
  try {
    // One that is there may be readable by others, and would stay so.
    await rm(part, { force: true });
    await pipeline(lines, createWriteStream(part, { flags: 'wx', flush: true, mode: 0o600 }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  process.stderr.write(`The backup is in ${file}. It may hold secrets: keep it private.\n`);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

export interface RestoreBackupOptions {
  /** File that is read. @default standard input */
  readonly file: string | undefined;
  /** As for `Database.open`. */
  readonly database: string;
}

/** A backup to read, and the URL of the database that its rows go to. */
export interface OpenBackup {
  readonly source: AsyncIterable<Uint8Array>;
  readonly database: string;
}

/**
 * Restores a backup into a database. A SQLite file that does not exist yet is made in a folder of
 * its own and moved when all is in it, so that a refused backup leaves none behind.
 */
export async function restoreBackup<T>(
  { file, database }: RestoreBackupOptions,
  restore: (backup: OpenBackup) => Promise<T>,
): Promise<T> {
  const source = await readBackup(file);
  await makeDatabaseFolder(database);
  const path = /^sqlite:(.+)$/s.exec(database)?.[1];
  if (path === undefined || existsSync(path)) return await restore({ source, database });
  const folder = await mkdtemp(`${resolve(path)}.part-`);
  const part = join(folder, basename(path));
  try {
    const restored = await restore({ source, database: `sqlite:${part}` });
    if (existsSync(path)) throw new Error(`database: another process has made ${path} meanwhile`);
    // SQLite would replay a log left by an older file. The new log is in place before its file.
    for (const log of ['-wal', '-shm']) await rm(`${path}${log}`, { force: true });
    if (existsSync(`${part}-wal`)) await rename(`${part}-wal`, `${path}-wal`);
    await rename(part, path);
    return restored;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Opens the backup for reading; without `file`, standard input. */
async function readBackup(file: string | undefined): Promise<AsyncIterable<Uint8Array>> {
  if (file !== undefined) {
    if (isFolder(file)) throw new UsageError(`${file}: is a folder; name a file`);
    try {
      await access(file, constants.R_OK);
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const why = code === 'ENOENT' ? 'there is no such file' : `cannot be read: ${message}`;
      throw new UsageError(`${file}: ${why}`, { cause });
    }
    return chunksOf(file);
  }
  if (!process.stdin.isTTY) return process.stdin;
  throw new UsageError('file: is required where standard input is a terminal');
}

/** Opens the file when the first chunk is asked for, so that its reader gets the error. */
async function* chunksOf(file: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(file);
}
