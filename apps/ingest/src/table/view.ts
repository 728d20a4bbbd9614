import {
  type DuckDBConnection,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  type DuckDBType,
  type DuckDBValue,
  type DuckDBValueConverter,
  type Json,
  JsonDuckDBValueConverter,
  StatementType,
} from '@duckdb/node-api';
import { ingestError } from '../errors.ts';
import { type Folder, type HeldFiles, holdAll } from '../files/folder.ts';
import { Engine, type EngineOptions, engineError, quoted } from './engine.ts';
import type { Manifest } from './manifest.ts';

/** The trades as a query sees them, in this order. */
const shown = `exchange, product, date, trade_id, trade_id_text, trade_ts, price, quantity,
  maker_side, taker_side`;

/** No rows, with the columns of the table. */
const noTrades = `SELECT '' AS exchange, '' AS product, DATE '1970-01-01' AS date,
  0::BIGINT AS trade_id, '' AS trade_id_text, TIMESTAMPTZ '1970-01-01' AS trade_ts,
  0::DECIMAL(38,18) AS price, 0::DECIMAL(38,18) AS quantity, '' AS maker_side, '' AS taker_side
  WHERE false`;

/** What one state of the table is made of, readable by SQL. */
export class TableView implements AsyncDisposable {
  readonly engine: Engine;
  /** The files of the manifest on this machine, in its order. */
  readonly paths: readonly string[];
  readonly manifest: Manifest;
  readonly #held: HeldFiles;
  readonly #turn: Disposable;

  private constructor(engine: Engine, manifest: Manifest, held: HeldFiles, turn: Disposable) {
    this.engine = engine;
    this.manifest = manifest;
    this.paths = held.paths;
    this.#held = held;
    this.#turn = turn;
  }

  /** Makes the view `trades`; gives back the turn when it is disposed. */
  static async open(
    folder: Folder,
    manifest: Manifest,
    options: EngineOptions,
    turn: Disposable,
    signal?: AbortSignal,
  ): Promise<TableView> {
    const files = manifest.files.map(({ path }) => ({ file: path }));
    const held = await holdAll(folder, files, signal);
    let engine: Engine | undefined;
    try {
      engine = await Engine.open(options);
      const view = new TableView(engine, manifest, held, turn);
      const source = files.length === 0 ? `(${noTrades})` : view.source();
      await engine.run(`CREATE VIEW trades AS SELECT ${shown} FROM ${source}`, signal);
      return view;
    } catch (error) {
      await engine?.[Symbol.asyncDispose]();
      await held[Symbol.asyncDispose]();
      throw engineError('TABLE_FAILED', `${folder.place}/table`, error);
    }
  }

  /** The files as SQL names them; `extra` are further arguments of `read_parquet`. */
  source(extra = ''): string {
    const types = '{exchange: VARCHAR, product: VARCHAR, date: DATE}';
    return `read_parquet([${this.paths.map(quoted).join()}],
      hive_partitioning = true, hive_types = ${types}${extra})`;
  }

  /** From now on nothing but the files of the table can be read, and nothing can be set. */
  async lock(): Promise<void> {
    await this.engine.run(`SET allowed_paths = [${this.paths.map(quoted).join()}]`);
    await this.engine.run('SET enable_external_access = false');
    await this.engine.run('SET lock_configuration = true');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
    await this.#held[Symbol.asyncDispose]();
    this.#turn[Symbol.dispose]();
  }
}

export interface QueryOptions {
  /** Rows after which the rest is left out; from 1, default 10,000. */
  readonly rowsMax?: number | undefined;
  /** The version to look at, of those that are kept. @default the newest */
  readonly version?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a query gave: decimals, and whole numbers beyond 2^53, are text to the last digit. */
export interface QueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Readonly<Record<string, Json>>[];
  /** There were more rows than `rowsMax`. */
  readonly cut: boolean;
}

/** Runs one statement that only reads, on a view that is locked. */
export async function runQuery(
  view: TableView,
  sql: string,
  rowsMax: number,
  signal?: AbortSignal,
): Promise<QueryResult> {
  const { engine } = view;
  try {
    return await engine.within(signal, async () => {
      const statement = await prepared(engine.connection, sql);
      return await collected(await statement.stream(), rowsMax);
    });
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof Error && error.message.startsWith('Permission Error')) {
      const why = 'it reaches for more than the table';
      throw ingestError('QUERY_REFUSED', `${why}: ${error.message}`, { cause: error });
    }
    throw engineError('QUERY_FAILED', 'the query failed', error);
  }
}

async function prepared(
  connection: DuckDBConnection,
  sql: string,
): Promise<DuckDBPreparedStatement> {
  if (sql.trim() === '') throw ingestError('QUERY_REFUSED', 'there is no statement in it');
  const statements = await connection.extractStatements(sql);
  if (statements.count !== 1) {
    throw ingestError('QUERY_REFUSED', `one statement at a time, not ${statements.count}`);
  }
  const statement = await statements.prepare(0);
  if (statement.statementType === StatementType.SELECT) return statement;
  const kind = StatementType[statement.statementType];
  throw ingestError('QUERY_REFUSED', `the table is for reading: SELECT is allowed, not ${kind}`);
}

async function collected(result: DuckDBResult, rowsMax: number): Promise<QueryResult> {
  const names = result.deduplicatedColumnNames();
  const types = result.columnTypes();
  const columns = names.map((name, at) => ({ name, type: String(types[at]) }));
  const rows: Record<string, Json>[] = [];
  for (;;) {
    const chunk = await result.fetchChunk();
    if (chunk === null || chunk.rowCount === 0) return { columns, rows, cut: false };
    for (const values of chunk.convertRows(exact)) {
      if (rows.length === rowsMax) return { columns, rows, cut: true };
      rows.push(Object.fromEntries(names.map((name, at) => [name, values[at] ?? null])));
    }
  }
}

const exact: DuckDBValueConverter<Json> = (
  value: DuckDBValue,
  type: DuckDBType,
  converter: DuckDBValueConverter<Json>,
): Json | null => {
  const isSafe = typeof value === 'bigint' && BigInt.asIntN(53, value) === value;
  return isSafe ? Number(value) : JsonDuckDBValueConverter(value, type, converter);
};
