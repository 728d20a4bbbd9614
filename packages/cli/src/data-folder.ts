import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** Makes the folder that a SQLite file will lie in; only its owner may look into it. */
export async function makeDatabaseFolder(database: string): Promise<void> {
  const path = /^sqlite:(.+)$/s.exec(database)?.[1];
  if (path !== undefined) await mkdir(dirname(resolve(path)), { recursive: true, mode: 0o700 });
}
