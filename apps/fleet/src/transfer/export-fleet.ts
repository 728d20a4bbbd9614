import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { CompiledQuery } from 'kysely';
import { wallClock } from 'spillway';
import { Database } from 'spillway-sql';
import {
  type ExportEnd,
  type ExportHeader,
  type ExportPiece,
  type ExportRow,
  fileFolders,
  formatVersion,
  isFilePath,
  isOwnRow,
  isOwnTable,
  schemaVersion,
} from './transfer-format.ts';

export interface ExportOptions {
  /** As for `Database.open`. */
  readonly database: string;
  /** The folder that holds games, nets and books. */
  readonly data: string;
  /** True if files are written too. */
  readonly files: boolean;
}

const pieceBytes = 262_144;
const pageRows = 500;

/** All that the database holds at one moment, then files, line by line in constant memory. */
export async function* exportFleet(options: ExportOptions): AsyncGenerator<string> {
  const hash = createHash('sha256');
  let lines = 0;
  for await (const item of items(options)) {
    const line = `${JSON.stringify(item)}\n`;
    hash.update(line);
    lines += 1;
    yield line;
  }
  const end: ExportEnd = { end: true, lines, sha256: hash.digest('hex') };
  yield `${JSON.stringify(end)}\n`;
}

async function* items(
  options: ExportOptions,
): AsyncGenerator<ExportHeader | ExportRow | ExportPiece> {
  const time = new Date(wallClock.now()).toISOString();
  yield { fleet: 'export', version: formatVersion, schema: schemaVersion, time };
  const path = /^sqlite:(.+)$/s.exec(options.database)?.[1];
  yield* path === undefined ? postgresRows(options.database) : sqliteRows(path);
  if (options.files) yield* pieces(options.data);
}

/** A reading transaction sees one moment, and a server that writes meanwhile does not wait. */
async function* sqliteRows(path: string): AsyncGenerator<ExportRow> {
  if (!existsSync(path)) throw new Error(`database: there is no file ${path}; see --data`);
  using file = new DatabaseSync(path, { timeout: 10_000 });
  file.exec('begin');
  const names = "select name from sqlite_master where type = 'table' order by name";
  const tables = file
    .prepare(names)
    .all()
    .map(({ name }) => String(name));
  assertSchema(tables, () => {
    return Number(file.prepare('select max(number) as last from spillway_migrations').get()?.last);
  });
  for (const table of tables.filter(isOwnTable)) {
    for (const row of file.prepare(`select * from "${table}"`).iterate()) {
      if (isOwnRow(table, row)) yield { table, row: plain(row) };
    }
  }
}

/** Rows that a transaction gives are passed on in pages: it waits until each was taken. */
async function* postgresRows(url: string): AsyncGenerator<ExportRow> {
  await using database = await Database.open<object>({ url, deadlineMs: Infinity });
  const pages = new TransformStream<ExportRow[], ExportRow[]>();
  const writer = pages.writable.getWriter();
  const reading = database.transaction(async (tx) => {
    const run = async (sql: string) => {
      const { rows } = await tx.executeQuery(CompiledQuery.raw(sql));
      return rows as Readonly<Record<string, unknown>>[];
    };
    await run('set transaction isolation level repeatable read read only');
    const schema = 'select table_name as name from information_schema.tables where';
    const found = await run(`${schema} table_schema = current_schema() order by table_name`);
    const tables = found.map(({ name }) => String(name));
    const [{ last } = {}] = tables.includes('spillway_migrations')
      ? await run('select max(number) as last from spillway_migrations')
      : [];
    assertSchema(tables, () => Number(last));
    for (const table of tables.filter(isOwnTable)) {
      await run(`declare rows_of_table cursor for select * from "${table}"`);
      for (;;) {
        const rows = await run(`fetch ${pageRows} from rows_of_table`);
        if (rows.length === 0) break;
        const own = rows.filter((row) => isOwnRow(table, row));
        await writer.write(own.map((row) => ({ table, row: plain(row) })));
      }
      await run('close rows_of_table');
    }
  });
  const ended = reading.then(
    () => writer.close(),
    (error: unknown) => writer.abort(error),
  );
  // Whoever stops reading does not want to hear of it; a failure comes out of the pages.
  ended.catch(() => {});
  for await (const page of pages.readable) yield* page;
}

function assertSchema(tables: readonly string[], last: () => number): void {
  if (!tables.includes('spillway_migrations')) throw new Error('database: there is nothing in it');
  const found = last();
  if (found === schemaVersion) return;
  throw new Error(
    `database: has tables of version ${found}, and this is version ${schemaVersion}\n` +
      'Start the server of this version once, then try again.',
  );
}

function plain(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const pairs = Object.entries(row).map(([name, value]) => {
    if (!(value instanceof Uint8Array)) return [name, value];
    return [name, { $base64: Buffer.from(value).toString('base64') }];
  });
  return Object.fromEntries(pairs) as Record<string, unknown>;
}

async function* pieces(data: string): AsyncGenerator<ExportPiece> {
  for (const folder of fileFolders) {
    const found = await readdir(join(data, folder), {
      recursive: true,
      withFileTypes: true,
    }).catch(() => []);
    for (const entry of found.filter((one) => one.isFile())) {
      const path = join(entry.parentPath, entry.name);
      const file = relative(data, path).split(sep).join('/');
      // Names with a dot in front are files that are not whole yet.
      if (!isFilePath(file)) continue;
      let at = 0;
      for await (const chunk of createReadStream(path, { highWaterMark: pieceBytes })) {
        yield { file, at, base64: (chunk as Buffer).toString('base64') };
        at += (chunk as Buffer).length;
      }
    }
  }
}
