import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from 'spillway/internal';
import { UsageError } from 'spillway-cli';
import type { Settings } from '../settings.ts';

type Used = Pick<Settings, 'data' | 'database'>;

/** The file that names the database of the last server, without its password. */
function noteOf({ data }: Used): string {
  return join(data, 'database-used');
}

/** Notes which database a server uses, for commands that know only the data folder. */
export async function noteDatabase(settings: Used): Promise<void> {
  const path = noteOf(settings);
  const text = `${withoutPassword(settings.database)}\n`;
  await using _file = await replaceFile(path, text, { temporary: `${path}.${process.pid}.tmp` });
}

/**
 * Refuses the default database of a data folder if the last server used another one, which would
 * not see the changes of a command.
 */
export async function demandUsedDatabase(settings: Used): Promise<void> {
  if (settings.database !== `sqlite:${join(settings.data, 'fleet.db')}`) return;
  const used = (await readFile(noteOf(settings), 'utf8').catch(() => '')).trim();
  if (used === '' || used === settings.database || used.startsWith('sqlite:')) return;
  throw new UsageError(
    `--database: the server of ${settings.data} used ${used}; give the same one here\n` +
      `(or set it for all: "database" in ${join(settings.data, 'fleet.json')}). ` +
      `To go back to a file, remove ${noteOf(settings)}.`,
  );
}

/** Prints that a missing database is made; throws for a command that only reads. */
export function checkNewDatabase({ data, database }: Used, isReader: boolean): void {
  const path = /^sqlite:(.+)$/s.exec(database)?.[1];
  if (path === undefined || existsSync(path)) return;
  const missing = `No server runs in ${data}, and there is no database`;
  if (isReader) {
    throw new UsageError(`${missing}: name its folder with --data, or make it with "fleet serve"`);
  }
  process.stderr.write(`${missing}: ${path} is made (see --data).\n`);
}

function withoutPassword(database: string): string {
  return database.replace(/^(\w+:\/\/[^/@:]*):[^@]*@/, '$1:***@');
}
