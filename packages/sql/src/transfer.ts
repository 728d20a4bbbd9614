import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { CompiledQuery, type Transaction } from 'kysely';
import { wallClock } from 'spillway';
import { nodeSqlite } from 'spillway/internal';
import { Database } from './database.ts';
import type { DatabaseKind, Migration } from './migrate.ts';

/** Tables of a program that are moved from one database to another. */
export interface MovedTables {
  /** Name of the program, in the first line of an export. */
  readonly program: string;
  /** All of them must have been applied: their number identifies the schema of the tables. */
  readonly migrations: readonly Migration[];
  /** False for tables to leave out; those of Spillway and SQLite always are. @default all move */
  readonly isMoved?: ((table: string) => boolean) | undefined;
  /** False for rows to leave out. @default all move */
  readonly isRowMoved?: ((table: string, row: TableRow) => boolean) | undefined;
}

/** Row of a table, by column. */
export type TableRow = Readonly<Record<string, unknown>>;

/** A line of an export that is not a row; only the program knows its meaning. */
export type OtherLine = Readonly<Record<string, unknown>> & { readonly table?: never };

export interface ExportTablesOptions {
  /** As for `Database.open`. */
  readonly url: string;
  /** The tables to move. */
  readonly tables: MovedTables;
  /** Lines of the program itself after the rows, such as pieces of files. @default none */
  readonly others?: AsyncIterable<OtherLine> | undefined;
}

export interface ImportTablesOptions<Schema> {
  /** Open, with all migrations applied and without a deadline. */
  readonly database: Database<Schema>;
  /** The tables to move. */
  readonly tables: MovedTables;
  /** Output of {@link exportTables}, in pieces of any length. */
  readonly source: AsyncIterable<Uint8Array>;
  /** True to delete rows that exist already; otherwise these make it fail. @default false */
  readonly replace?: boolean | undefined;
  /** Called with each line that is not a row. @default such a line makes it fail */
  readonly onOther?: ((line: OtherLine) => Promise<void>) | undefined;
  /** Called when the whole export was read and checked, before the commit. */
  readonly onWhole?: (() => Promise<void>) | undefined;
}

type Run = (sql: string, parameters?: readonly unknown[]) => Promise<readonly TableRow[]>;

/** The first line of an export. */
interface Header {
  readonly export: string;
  readonly version: number;
  /** The number of the last migration. */
  readonly schema: number;
  /** Time of writing, as an ISO date. */
  readonly time: string;
}

const formatVersion = 1;
const pageRows = 500;
const insertRows = 100;
/** A line is a row or a piece of a file, none of which is longer. */
const lineBytesMax = 512 * 1_048_576;
const newline = 0x0a;

/**
 * Writes all rows of the tables as of one moment as lines of JSON, in constant memory; processes
 * that write meanwhile do not wait. Bytes are `{ "$base64": … }`. The last line has a checksum.
 */
export async function* exportTables(options: ExportTablesOptions): AsyncGenerator<string> {
  const hash = createHash('sha256');
  let lines = 0;
  for await (const item of exportedItems(options)) {
    const line = `${JSON.stringify(item)}\n`;
    hash.update(line);
    lines += 1;
    yield line;
  }
  yield `${JSON.stringify({ end: true, lines, sha256: hash.digest('hex') })}\n`;
}

async function* exportedItems({
  url,
  tables,
  others,
}: ExportTablesOptions): AsyncGenerator<object> {
  const { program, migrations, isRowMoved = () => true } = tables;
  const time = new Date(wallClock.now()).toISOString();
  const schema = migrations.length;
  yield { export: program, version: formatVersion, schema, time } satisfies Header;
  const path = /^sqlite:(.+)$/s.exec(url)?.[1];
  const rows = path === undefined ? postgresRows(url, tables) : sqliteRows(path, tables);
  for await (const { table, row } of rows) {
    if (isRowMoved(table, row)) yield { table, row: encoded(row) };
  }
  if (others !== undefined) yield* others;
}

interface RowOfTable {
  readonly table: string;
  readonly row: TableRow;
}

/** Reads in one transaction, which sees one moment and lets others write. */
async function* sqliteRows(path: string, moved: MovedTables): AsyncGenerator<RowOfTable> {
  if (!existsSync(path)) throw new Error(`database: there is no file ${path}; see --data`);
  using file = new (nodeSqlite().DatabaseSync)(path, { timeout: 10_000 });
  file.exec('begin');
  const run: Run = async (sql) => file.prepare(sql).all();
  for (const table of await movedTables(run, 'sqlite', moved)) {
    for (const row of file.prepare(`select * from ${quoted(table)}`).iterate()) {
      yield { table, row };
    }
  }
}

/** Yields rows in pages: the transaction waits until the reader has taken each page. */
async function* postgresRows(url: string, moved: MovedTables): AsyncGenerator<RowOfTable> {
  await using database = await Database.open<object>({ url, deadlineMs: Infinity });
  const pages = new TransformStream<RowOfTable[], RowOfTable[]>();
  const writer = pages.writable.getWriter();
  const reading = database.transaction(async (tx) => {
    const run = runIn(tx);
    await run('set transaction isolation level repeatable read read only');
    for (const table of await movedTables(run, 'postgres', moved)) {
      await run(`declare rows_of_table cursor for select * from ${quoted(table)}`);
      for (;;) {
        const rows = await run(`fetch ${pageRows} from rows_of_table`);
        if (rows.length === 0) break;
        await writer.write(rows.map((row) => ({ table, row })));
      }
      await run('close rows_of_table');
    }
  });
  const ended = reading.then(
    () => writer.close(),
    (error: unknown) => writer.abort(error),
  );
  // A reader that stops gets no error; any other failure is thrown by the pages.
  ended.catch(() => {});
  for await (const page of pages.readable) yield* page;
}

const tableNames = {
  sqlite: "select name from sqlite_master where type = 'table' order by rowid",
  postgres: `select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' order by oid`,
};

/** Tables to move, in the order of creation: referenced rows come before those that refer. */
async function movedTables(
  run: Run,
  kind: DatabaseKind,
  { migrations, isMoved = () => true }: MovedTables,
): Promise<string[]> {
  const names = (await run(tableNames[kind])).map(({ name }) => String(name));
  if (!names.includes('spillway_migrations')) throw new Error('database: there is nothing in it');
  const [{ last } = {}] = await run('select max(number) as last from spillway_migrations');
  if (Number(last) !== migrations.length) {
    throw new Error(
      `database: has tables of version ${last}, and this is version ${migrations.length}\n` +
        'Start the server of this version once, then try again.',
    );
  }
  return names.filter((name) => !/^(spillway|sqlite)_/.test(name) && isMoved(name));
}

/** Reads all of an export in one transaction, or nothing; gives the number of rows. */
export async function importTables<Schema>(options: ImportTablesOptions<Schema>): Promise<number> {
  const { database, tables: moved, replace = false, onWhole } = options;
  return await database.transaction(async (tx) => {
    const run = runIn(tx);
    const tables = await movedTables(run, database.kind, moved);
    if (database.kind === 'sqlite') await run('pragma defer_foreign_keys = on');
    for (const table of tables.toReversed()) {
      if (replace) await run(`delete from ${quoted(table)}`);
      else await demandEmpty(run, database.kind, table, moved);
    }
    const rows = new RowWriter(run, database.kind, tables);
    await readLines(options, rows);
    await rows.flush();
    if (database.kind === 'postgres') await countOn(run, tables);
    await onWhole?.();
    return rows.count;
  });
}

/** Looks at all rows of a table, a page at a time, since rows to leave out may come first. */
async function demandEmpty(
  run: Run,
  kind: DatabaseKind,
  table: string,
  { isRowMoved = () => true }: MovedTables,
): Promise<void> {
  // SQLite reads a table in the same order each time; Postgres only with this setting.
  const order = kind === 'postgres' ? ' order by ctid' : '';
  for (let from = 0; ; from += pageRows) {
    const page = `${order} limit ${pageRows} offset ${from}`;
    const rows = await run(`select * from ${quoted(table)}${page}`);
    if (rows.some((row) => isRowMoved(table, row))) {
      throw new Error(`database: is not empty (${table}); --replace throws away what is there`);
    }
    if (rows.length < pageRows) return;
  }
}

/** Reads the lines; the last one has the checksum of all before it. */
async function readLines<Schema>(
  { source, tables, onOther }: ImportTablesOptions<Schema>,
  rows: RowWriter,
): Promise<void> {
  const hash = createHash('sha256');
  let count = 0;
  let isEnded = false;
  for await (const bytes of byteLines(source)) {
    const line = parsed(bytes, count + 1);
    if (isEnded) throw new Error(`line ${count + 2}: follows the end`);
    if (line.end === true) {
      const isWhole = line.lines === count && line.sha256 === hash.digest('hex');
      if (!isWhole) throw new Error('the checksum is wrong: it is not what was exported');
      isEnded = true;
      continue;
    }
    hash.update(bytes).update('\n');
    count += 1;
    if (count === 1) checkHeader(line, tables);
    else if (typeof line.table === 'string') await rows.add(line.table, Object(line.row));
    else if (onOther !== undefined) await onOther(line as OtherLine);
    else throw new Error(`line ${count}: is no row`);
  }
  if (!isEnded) throw new Error(`it ends after ${count} lines, without the last one`);
}

function parsed(bytes: Uint8Array, number: number): TableRow {
  try {
    return Object(JSON.parse(Buffer.from(bytes).toString()));
  } catch (cause) {
    throw new Error(`line ${number}: is not JSON`, { cause });
  }
}

function checkHeader(line: Partial<Header>, { program, migrations }: MovedTables): void {
  if (line.export !== program) {
    throw new Error(`line 1: this is not what ${program} has written`);
  }
  if (line.version === formatVersion && line.schema === migrations.length) return;
  throw new Error(
    `line 1: this is version ${line.version} of tables ${line.schema}, and here is version ` +
      `${formatVersion} of tables ${migrations.length}\nImport it with the version that wrote it.`,
  );
}

/** Puts rows of any table into a transaction, many at once. */
class RowWriter {
  readonly #run: Run;
  readonly #kind: DatabaseKind;
  readonly #tables: ReadonlySet<string>;
  #table = '';
  #columns = '';
  #rows: TableRow[] = [];
  #count = 0;

  constructor(run: Run, kind: DatabaseKind, tables: readonly string[]) {
    this.#run = run;
    this.#kind = kind;
    this.#tables = new Set(tables);
  }

  get count(): number {
    return this.#count;
  }

  async add(table: string, row: TableRow): Promise<void> {
    if (!this.#tables.has(table)) throw new Error(`there is no table ${table} here`);
    const columns = Object.keys(row).map(quoted).join();
    const isNext = table === this.#table && columns === this.#columns;
    if (!isNext || this.#rows.length >= insertRows) await this.flush();
    this.#table = table;
    this.#columns = columns;
    this.#rows.push(row);
    this.#count += 1;
  }

  async flush(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    if (rows.length === 0) return;
    const isPostgres = this.#kind === 'postgres';
    let number = 0;
    const place = () => {
      number += 1;
      return isPostgres ? `$${number}` : '?';
    };
    const places = rows.map((row) => `(${Object.keys(row).map(place).join()})`);
    // Numbers that the database would generate are inserted as they were.
    const own = isPostgres ? ' overriding system value' : '';
    const into = `insert into ${quoted(this.#table)} (${this.#columns})${own}`;
    const values = rows.flatMap((row) => Object.values(row).map(decoded));
    await this.#run(`${into} values ${places.join()}`, values);
  }
}

/** Lets generated numbers continue after those of the imported rows. */
async function countOn(run: Run, tables: readonly string[]): Promise<void> {
  const counted = await run(
    `select table_name, column_name,
       pg_get_serial_sequence(quote_ident(table_name), column_name) as sequence
     from information_schema.columns where table_schema = current_schema()
       and (is_identity = 'YES' or column_default like 'nextval(%')`,
  );
  for (const { table_name: table, column_name: column, sequence } of counted) {
    if (sequence === null || !tables.includes(String(table))) continue;
    const last = `select coalesce(max(${quoted(String(column))}), 0) from ${quoted(String(table))}`;
    await run(`select setval($1::regclass, (${last}) + 1, false)`, [sequence]);
  }
}

/** Lines as bytes, without line ends; bytes after the last line end are a line, too. */
export async function* byteLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      parts.push(chunk.subarray(from, at));
      yield Buffer.concat(parts);
      parts = [];
      bytes = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    parts.push(chunk.subarray(from));
    bytes += chunk.length - from;
    if (bytes > lineBytesMax) throw new Error(`a line has more than ${lineBytesMax} bytes`);
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}

function runIn<Schema>(tx: Transaction<Schema>): Run {
  return async (sql, parameters = []) => {
    const { rows } = await tx.executeQuery(CompiledQuery.raw(sql, [...parameters]));
    return rows as TableRow[];
  };
}

function encoded(row: TableRow): TableRow {
  const pairs = Object.entries(row).map(([name, value]) => {
    if (!(value instanceof Uint8Array)) return [name, value];
    return [name, { $base64: Buffer.from(value).toString('base64') }];
  });
  return Object.fromEntries(pairs);
}

function decoded(value: unknown): unknown {
  const { $base64 } = Object(value) as { $base64?: unknown };
  return typeof $base64 === 'string' ? Buffer.from($base64, 'base64') : value;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
