import type { BigIntStats } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { field } from '../base/failure.ts';

export interface ReplaceOptions {
  /** Path of the temporary file, in the same folder. Only one call at a time may use it. */
  readonly temporary: string;
  /** Permission bits of the new file. @default 0o600 */
  readonly mode?: number | undefined;
  /** A file whose owner and permissions the new one takes over. @default none */
  readonly like?: BigIntStats | undefined;
  /** Called right before the old file is replaced; nothing is changed if it throws. */
  readonly beforeRename?: (() => void) | undefined;
}

const permissionBits = 0o7777n;

/**
 * Replaces a file as a whole: a reader finds the old content or the new one, also after a crash
 * or a power cut. Gives the new file, open; the caller closes it.
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  { temporary, mode = 0o600, like, beforeRename }: ReplaceOptions,
): Promise<FileHandle> {
  let handle: FileHandle | undefined;
  try {
    // A process that died may have left a temporary file.
    await rm(temporary, { force: true });
    handle = await open(temporary, 'wx', mode);
    if (like !== undefined) await takeOver(handle, like);
    await handle.writeFile(content);
    await handle.sync();
    beforeRename?.();
    await renameDurably(temporary, path);
    return handle;
  } catch (error) {
    await handle?.close();
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** Renames a file whose content is on the disk; returns once the new name is durable, too. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncFolder(dirname(to));
}

/** Writes a folder to the disk: without this, a power cut can undo a rename in it. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function takeOver(handle: FileHandle, { mode, uid, gid }: BigIntStats): Promise<void> {
  const made = await handle.stat({ bigint: true });
  // Only the superuser may change the owner; the permissions matter more, and are kept.
  if (made.uid !== uid || made.gid !== gid) {
    await handle.chown(Number(uid), Number(gid)).catch(unlessForbidden);
  }
  if ((made.mode & permissionBits) !== (mode & permissionBits)) {
    await handle.chmod(Number(mode & permissionBits));
  }
}

function unlessForbidden(error: unknown): void {
  if (field(error, 'code') !== 'EPERM') throw error;
}
