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
import { engineError } from './engine.ts';
import { storageError } from './storage-error.ts';
import type { TableView } from './table-view.ts';

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
      throw storageError('QUERY_REFUSED', `${why}: ${error.message}`, { cause: error });
    }
    throw engineError('QUERY_FAILED', 'the query failed', error);
  }
}

async function prepared(
  connection: DuckDBConnection,
  sql: string,
): Promise<DuckDBPreparedStatement> {
  if (sql.trim() === '') throw storageError('QUERY_REFUSED', 'there is no statement in it');
  const statements = await connection.extractStatements(sql);
  if (statements.count !== 1) {
    throw storageError('QUERY_REFUSED', `one statement at a time, not ${statements.count}`);
  }
  const statement = await statements.prepare(0);
  if (statement.statementType === StatementType.SELECT) return statement;
  const kind = StatementType[statement.statementType];
  throw storageError('QUERY_REFUSED', `the table is for reading: SELECT is allowed, not ${kind}`);
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
