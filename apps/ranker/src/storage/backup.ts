import { wallClock } from 'spillway';
import { Database, exportTables, importTables, type MovedTables } from 'spillway-sql';
import { rankerMigrations } from './migrations.ts';
import { markName, OnlyRanker } from './only-ranker.ts';
import type { RankerSchema } from './ranker-schema.ts';
import { RankerStorage } from './ranker-storage.ts';

/** All tables but the index of words, which SQLite makes by triggers, and credentials of feeds. */
const tables: MovedTables = {
  program: 'ranker',
  migrations: rankerMigrations,
  isMoved: (table) => !/^(article_(numbers|words)|feed_credentials$)/.test(table),
  isRowMoved: (table, { name }) => !(table === 'documents' && name === markName),
};

/** Everything that the database holds at one moment, line by line; a server may be running. */
export function backup(database: string): AsyncGenerator<string> {
  return exportTables({ url: database, tables });
}

export interface RestoreOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** Output of {@link backup}. */
  readonly source: AsyncIterable<Uint8Array>;
  /** True if the present content may be thrown away. @default false */
  readonly replace?: boolean | undefined;
}

/** Restores a whole backup or nothing; no server may be running. Gives the number of rows. */
export async function restore({ database: url, source, replace }: RestoreOptions): Promise<number> {
  await using database = await Database.open<RankerSchema>({ url, deadlineMs: Infinity });
  await using only = await OnlyRanker.claim({ database, url, onRegained: () => {} });
  await new RankerStorage({ database, clock: wallClock }).migrate();
  const onWhole = async () => only.check();
  return await importTables({ database, tables, source, replace, onWhole });
}
