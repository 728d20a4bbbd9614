import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncFolder } from 'spillway/internal';

/**
 * Makes a directory and those above it; gives the first that it made. Not by `recursive` of Node:
 * that never ends where a parent is there and nothing can be made in it, as in `/proc`.
 */
export async function makeDirectories(path: string, mode?: number): Promise<string | undefined> {
  const parent = dirname(path);
  const isThere = await stat(parent).then(
    () => true,
    () => parent === path,
  );
  const first = isThere ? undefined : await makeDirectories(parent, mode);
  try {
    await mkdir(path, { mode });
    return first ?? path;
  } catch (error) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isDirectory() !== true) throw error;
    return first;
  }
}

/** The same, and durable: a directory that was made is so only when its parent is. */
export async function makeDirectory(path: string): Promise<void> {
  const first = await makeDirectories(path);
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) {
    await syncFolder(dirname(made));
  }
}
