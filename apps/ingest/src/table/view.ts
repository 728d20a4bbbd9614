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
import {
  type DecimalType,
  type DecimalTypes,
  decimalType,
  Engine,
  type EngineOptions,
  engineError,
  quoted,
  usual,
  widened,
} from './engine.ts';
import { areRecords, keyOf, type Manifest, type TableFile } from './manifest.ts';
import { named, type RecordColumn } from './records.ts';

/** An empty relation with the columns of the files. */
const noTrades = `SELECT '' AS exchange, '' AS product, DATE '1970-01-01' AS date,
  0::BIGINT AS trade_id, TIMESTAMPTZ '1970-01-01' AS trade_ts, 0::DECIMAL(18,9) AS price,
  0::DECIMAL(18,9) AS quantity, '' AS maker_side, '' AS taker_side WHERE false`;

/** Candles, as in `FROM ohlcv('BTC-USD', '1m')`. */
const ohlcv = `CREATE MACRO ohlcv(product_id, step) AS TABLE
  SELECT exchange, product, time_bucket(CAST(step AS INTERVAL), trade_ts) AS start,
    arg_min(price, trade_id) AS open, max(price) AS high, min(price) AS low,
    arg_max(price, trade_id) AS "close", sum(quantity) AS volume, sum(notional) AS notional,
    sum(notional) / sum(quantity) AS vwap, count(*) AS trades
  FROM trades WHERE product = product_id GROUP BY exchange, product, start ORDER BY ALL`;

function tradesSql(source: string, { products }: Manifest): string {
  const { price, quantity } = commonTypes(products);
  // The product has as many decimals as both factors together, and at most 38 digits in all.
  const isExact = price.scale + quantity.scale <= 21;
  const notional = isExact
    ? 'price * quantity'
    : 'CAST(price AS DOUBLE) * CAST(quantity AS DOUBLE)';
  return `CREATE VIEW trades AS SELECT exchange, product, date, trade_id,
    CAST(trade_id AS VARCHAR) AS trade_id_text, trade_ts, price, quantity, maker_side, taker_side,
    ${notional} AS notional FROM ${source}`;
}

/** Returns types that hold the numbers of all products. */
function commonTypes(products: Manifest['products']): DecimalTypes {
  const all = products.flatMap(({ types }) => (areRecords(types) ? [] : [types]));
  const widest = (column: 'price' | 'quantity'): DecimalType =>
    all.reduce((type, { [column]: one }) => widened(type, one.width - 9, one.scale), usual);
  return { price: widest('price'), quantity: widest('quantity') };
}

/** Returns the name of a declared source's view, which needs no quotes in SQL. */
export function viewName(source: string): string {
  return source.replaceAll('-', '_');
}

/** Finds columns with types that DuckDB would mix up (true and 1) or cannot read together. */
function mixedColumns(columns: readonly RecordColumn[]): ReadonlySet<string> {
  const kind = ({ type }: RecordColumn): string => (type === 'BIGINT' ? 'DOUBLE' : type);
  const all = [...Map.groupBy(columns, ({ name }) => named(name))];
  return new Set(all.filter(([, same]) => new Set(same.map(kind)).size > 1).map(([name]) => name));
}

const hive = `hive_partitioning = true,
  hive_types = {exchange: VARCHAR, product: VARCHAR, date: DATE}`;

/** One state of the table, open for SQL. */
export class TableView implements AsyncDisposable {
  readonly engine: Engine;
  readonly manifest: Manifest;
  /** The selected files, in the order of the manifest. */
  readonly files: readonly TableFile[];
  /** Their paths on this machine. */
  readonly paths: readonly string[];
  readonly #held: HeldFiles;
  readonly #turn: Disposable;

  private constructor(
    engine: Engine,
    { manifest, files }: Pick<TableView, 'manifest' | 'files'>,
    held: HeldFiles,
    turn: Disposable,
  ) {
    this.engine = engine;
    this.manifest = manifest;
    this.files = files;
    this.paths = held.paths;
    this.#held = held;
    this.#turn = turn;
  }

  /** Creates the view `trades` and one for each source; releases `turn` on disposal. */
  static async open(
    folder: Folder,
    state: Pick<TableView, 'manifest' | 'files'>,
    options: EngineOptions,
    turn: Disposable,
    signal?: AbortSignal,
  ): Promise<TableView> {
    const { manifest, files } = state;
    const held = await holdAll(
      folder,
      files.map(({ path }) => path),
      signal,
    );
    let engine: Engine | undefined;
    try {
      engine = await Engine.open(options);
      const view = new TableView(engine, state, held, turn);
      await engine.run(tradesSql(view.source() ?? `(${noTrades})`, manifest), signal);
      await engine.run(ohlcv, signal);
      for (const name of view.sources) {
        const sql = view.#recordsSql(name);
        await engine.run(`CREATE VIEW ${named(viewName(name))} AS ${sql}`, signal);
      }
      return view;
    } catch (error) {
      await engine?.[Symbol.asyncDispose]();
      await held[Symbol.asyncDispose]();
      throw engineError('TABLE_FAILED', `${folder.place}/table`, error);
    }
  }

  /** The declared sources that have records in the table. */
  get sources(): readonly string[] {
    const { products } = this.manifest;
    const all = products.filter(({ types }) => areRecords(types)).map(({ exchange }) => exchange);
    return [...new Set(all)].filter((name) => {
      return this.files.some(({ exchange }) => exchange === name);
    });
  }

  /** Makes the SQL that reads all files with trades; undefined if there are none. */
  source(more = ''): string | undefined {
    const trades = this.manifest.products.filter(({ types }) => !areRecords(types));
    const types = new Map(trades.map((one) => [keyOf(one), JSON.stringify(one.types)]));
    const files = [...this.files.entries()].filter(([, file]) => types.has(keyOf(file)));
    const groups = Map.groupBy(files, ([, file]) => types.get(keyOf(file)));
    const reads = [...groups.values()].map((group) => {
      const list = group.map(([at]) => quoted(this.paths[at] as string)).join();
      return `read_parquet([${list}], ${hive}${more})`;
    });
    if (reads.length < 2) return reads[0];
    // Read together, DuckDB would use the first file's type or one with fewer decimals, and round.
    const { price, quantity } = commonTypes(trades);
    const select = `SELECT * REPLACE (CAST(price AS ${decimalType(price)}) AS price,
      CAST(quantity AS ${decimalType(quantity)}) AS quantity) FROM`;
    return `(${select} ${reads.join(` UNION ALL ${select} `)})`;
  }

  /** Selects the records of a source; a column with different kinds of types becomes text. */
  #recordsSql(source: string): string {
    const { products } = this.manifest;
    const all = products.flatMap(({ exchange, product, types }) => {
      return exchange === source && areRecords(types) ? [{ product, columns: types.columns }] : [];
    });
    const mixed = mixedColumns(all.flatMap(({ columns }) => columns));
    const select = (product?: string, texts = ''): string => {
      const paths = this.paths.filter((_, at) => {
        const file = this.files[at];
        return file?.exchange === source && (product ?? file.product) === file.product;
      });
      const list = paths.map(quoted).join();
      const from = `read_parquet([${list}], ${hive}, union_by_name = true)`;
      return list === '' ? '' : `SELECT * EXCLUDE (exchange)${texts} FROM ${from}`;
    };
    if (mixed.size === 0) return select();
    const parts = all.map(({ product, columns }) => {
      const texts = columns.map(({ name }) => named(name)).filter((name) => mixed.has(name));
      const replaced = texts.map((name) => `CAST(${name} AS VARCHAR) AS ${name}`);
      return select(product, texts.length > 0 ? ` REPLACE (${replaced})` : '');
    });
    return parts.filter((part) => part !== '').join(' UNION ALL BY NAME ');
  }

  /** Restricts SQL to the files of the table, and locks all settings. */
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
  /** Largest number of rows, from 1. @default 10,000 */
  readonly rowsMax?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The result of a query; decimals, and integers beyond 2^53, are texts with all digits. */
export interface QueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly Readonly<Record<string, Json>>[];
  /** There were more rows than `rowsMax`. */
  readonly cut: boolean;
}

/** Runs one SELECT on a locked view. */
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
