import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncFolder } from 'spillway/internal';

/**
 * Makes a directory and its parents; returns the topmost that it made. Node's own `recursive`
 * option never ends where a parent exists in which nothing can be created, as in `/proc`.
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

/** Makes a directory durably: also its parents are synced, as they contain its entry. */
export async function makeDirectory(path: string): Promise<void> {
  const first = await makeDirectories(path);
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) {
    await syncFolder(dirname(made));
  }
}
