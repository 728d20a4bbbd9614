import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { systemClock } from 'spillway';
import type { LineSql } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';

export interface EngineOptions {
  /** Memory limit in MB, beyond which data is spilled to disk. */
  readonly memoryMb: number;
  /** Memory limit for statements that fail with less, in MB. @default 1_024 */
  readonly memoryMbMax?: number | undefined;
  readonly threads: number;
  /** Directory for spilled data. */
  readonly scratch: string;
}

/** A row as JSON: decimals and 64-bit integers are texts with all digits. */
export type Row = Readonly<Record<string, unknown>>;

const interruptMs = 20;

/** An in-memory DuckDB with a memory limit. It works on its own threads, one call at a time. */
export class Engine implements AsyncDisposable {
  readonly connection: DuckDBConnection;
  readonly #instance: DuckDBInstance;
  readonly #spill: string;
  readonly #memoryMbMax: number;
  #memoryMb: number;

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    options: EngineOptions & { readonly spill: string },
  ) {
    this.#instance = instance;
    this.connection = connection;
    this.#spill = options.spill;
    this.#memoryMb = options.memoryMb;
    this.#memoryMbMax = options.memoryMbMax ?? 1_024;
  }

  static async open(options: EngineOptions): Promise<Engine> {
    const { memoryMb, threads, scratch } = options;
    const spill = join(scratch, `spill-${randomUUID()}`);
    const instance = await DuckDBInstance.create(':memory:', {
      memory_limit: `${memoryMb}MB`,
      threads: String(threads),
      temp_directory: spill,
      // Returns freed memory to the system soon: 100 MB less at the peak, and no slower (2026-11).
      allocator_flush_threshold: '8MB',
      allocator_bulk_deallocation_flush_threshold: '8MB',
      write_buffer_row_group_count: '1',
      enable_external_file_cache: 'false',
      autoinstall_known_extensions: 'false',
    });
    const engine = new Engine(instance, await instance.connect(), { ...options, spill });
    // Days are UTC days, whatever the machine's time zone.
    await engine.run("SET GLOBAL TimeZone = 'UTC'");
    return engine;
  }

  async run(sql: string, signal?: AbortSignal): Promise<void> {
    await this.within(signal, () => this.connection.run(sql));
  }

  async rows(sql: string, signal?: AbortSignal): Promise<readonly Row[]> {
    const read = await this.within(signal, () => this.connection.runAndReadAll(sql));
    return read.getRowObjectsJson();
  }

  /**
   * Runs work on the connection, and interrupts it when the signal aborts. Work that runs out of
   * memory is repeated with twice as much: DuckDB holds up to 2,048 records at once whatever their
   * length, and cannot spill those.
   */
  async within<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    signal?.throwIfAborted();
    let again: Disposable | undefined;
    const interrupt = (): void => {
      // Repeated, because an interruption between two statements has no effect.
      this.connection.interrupt();
      again = systemClock.after(interruptMs, interrupt);
    };
    signal?.addEventListener('abort', interrupt);
    try {
      return await this.#withMemory(work);
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener('abort', interrupt);
      again?.[Symbol.dispose]();
    }
  }

  async #withMemory<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isOutOfMemory(error) || this.#memoryMb >= this.#memoryMbMax) throw error;
        this.#memoryMb = Math.min(this.#memoryMbMax, this.#memoryMb * 2);
        // Fails if the settings are locked; then the caller has to open another engine.
        const sql = `SET GLOBAL memory_limit = '${this.#memoryMb}MB'`;
        await this.connection.run(sql).catch(() => Promise.reject(error));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.connection.closeSync();
    this.#instance.closeSync();
    await rm(this.#spill, { recursive: true, force: true });
  }
}

/** Quotes a text for SQL; NUL is written as `chr(0)`, as it would end the statement. */
export function quoted(text: string): string {
  const parts = text.split('\0').map((part) => `'${part.replaceAll("'", "''")}'`);
  return parts.length === 1 ? String(parts[0]) : `(${parts.join(' || chr(0) || ')})`;
}

/** True if DuckDB has reached its memory limit and could not spill. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('Out of Memory Error');
}

/** Turns an error of DuckDB into ours; a full disk and too little memory have their own codes. */
export function engineError(
  code: 'RAW_INVALID' | 'TABLE_FAILED' | 'QUERY_FAILED',
  what: string,
  cause: unknown,
): unknown {
  if (!(cause instanceof Error) || 'code' in cause) return cause;
  if (isOutOfMemory(cause)) {
    const [reason = ''] = cause.message.split('\n');
    const remedy = 'DuckDB has too little memory for its records; set memoryMbMax higher';
    return ingestError('MEMORY_SHORT', `${what}: ${remedy} (${reason})`, { cause });
  }
  const isFull = /no space left|max_temp_directory_size|disk quota|file too large/i;
  const reason = cause.message.trim();
  if (!isFull.test(reason)) return ingestError(code, `${what}: ${reason}`, { cause });
  const remedy = 'there is no room on the disk; make room and run it again, nothing is lost';
  return ingestError('FOLDER_FULL', `${what}: ${remedy} (${reason})`, { cause });
}

/** Type of a decimal column of a product. */
export interface DecimalType {
  readonly width: 18 | 38;
  readonly scale: 9 | 12 | 18;
}

/** Types of both decimal columns of a product. */
export interface DecimalTypes {
  readonly price: DecimalType;
  readonly quantity: DecimalType;
}

/**
 * The type for every product that it fits, as engines take the type of the first file and round all
 * others to it. With 9 decimals, `price * quantity` keeps 18 digits before the point.
 */
export const usual: DecimalType = { width: 18, scale: 9 };
export const usualTypes: DecimalTypes = { price: usual, quantity: usual };

export function decimalType({ width, scale }: DecimalType): string {
  return `DECIMAL(${width},${scale})`;
}

/** Widens a type so that it also holds numbers with so many digits and decimals. */
export function widened(type: DecimalType, digits: number, decimals: number): DecimalType {
  const scale = decimals <= 9 ? 9 : decimals <= 12 ? 12 : 18;
  const isUsual = type.width === 18 && digits <= 9 && decimals <= 9;
  return isUsual ? usual : { width: 38, scale: scale > type.scale ? scale : type.scale };
}

const usualText = "'-?[0-9]{1,9}([.][0-9]{1,9}0*)?'";
const anyText = "'-?[0-9]{1,20}([.][0-9]{1,18}0*)?'";
/** Message of the SQL error for a number that needs a wider type. */
export const isTooWide = 'a wider type is needed';

/**
 * Makes SQL that casts text to a decimal exactly, or fails: a plain cast rounds. It goes by way of
 * 64 bits where that is exact, as the direct cast takes 5 µs a value, 13 times as long (2026-11).
 */
function exactDecimal(column: string, type: DecimalType): string {
  const { width, scale } = type;
  const text = `'-?[0-9]{1,${Math.min(20, width - scale)}}([.][0-9]{1,${scale}}0*)?'`;
  return `CASE WHEN ${column} IS NULL THEN NULL
    WHEN regexp_full_match(${column}, ${usualText})
      THEN CAST(CAST(${column} AS DECIMAL(18,9)) AS ${decimalType(type)})
    WHEN regexp_full_match(${column}, ${text}) THEN CAST(${column} AS ${decimalType(type)})
    WHEN regexp_full_match(${column}, ${anyText}) THEN error('${isTooWide}')
    ELSE error('"' || ${column} || '" is no number of up to 20 digits and 18 decimals') END`;
}

/** The columns of the table. */
export const columns: readonly string[] =
  'trade_id, trade_ts, price, quantity, maker_side, taker_side'.split(', ');

/** Order that prefers the later of trades with one id; the rest makes it deterministic. */
export const newest: string = 'trade_ts DESC, price DESC, quantity DESC, maker_side, taker_side';

/** Selects the columns of files, with decimals cast to the current types. */
export function columnsAs({ price, quantity }: DecimalTypes): string {
  return `trade_id, trade_ts, CAST(price AS ${decimalType(price)}) AS price,
    CAST(quantity AS ${decimalType(quantity)}) AS quantity, maker_side, taker_side`;
}

/** Names of the columns with the number and the time of a row. */
export interface RowColumns {
  readonly id: string;
  readonly time: string;
}

/** Selects the figures of a file that the manifest keeps. */
export function extentSql({ id, time }: RowColumns): string {
  return `min(${id}) AS "firstId", max(${id}) AS "lastId",
    epoch_us(min(${time})) AS "firstUs", epoch_us(max(${time})) AS "lastUs",
    CAST(CAST(min(${time}) AS DATE) AS VARCHAR) AS date`;
}

/**
 * Version 2 has delta encodings: 8.3 bytes for a simulated trade, where plain ones take 11. Row
 * groups of twice the size took 150 MB more memory to write, and more space (2026-11).
 */
const parquet = 'FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2';
/**
 * Without the limit DuckDB makes a dictionary of 12,000 prices, which takes 0.7 bytes more per
 * trade. Level 7 gives 9.5 bytes instead of 9.8 at level 3 where prices jump by 20 dollars, in the
 * same time; level 15 gives 9.45, in four times the time (2026-11).
 */
const tradeParquet = `${parquet}, COMPRESSION_LEVEL 7, DICTIONARY_SIZE_LIMIT 2048`;
const groupRowsMax = 61_440;
/** Bytes of a row group in memory; DuckDB holds three times as much while it writes one. */
const groupBytes = 16 * 2 ** 20;

function linesAsText(paths: readonly string[], { select, options }: LineSql): string {
  return `(SELECT ${select} FROM read_json([${paths.map(quoted).join()}], ${options},
    compression = 'zstd', maximum_object_size = 1048576))`;
}

/** Selects the columns of the table from raw lines of trades. */
export function linesSql(paths: readonly string[], lines: LineSql, types: DecimalTypes): string {
  return `SELECT CAST(trade_id AS BIGINT) AS trade_id,
    make_timestamptz(epoch_us(trade_ts)) AS trade_ts,
    ${exactDecimal('price', types.price)} AS price,
    ${exactDecimal('quantity', types.quantity)} AS quantity,
    CAST(maker_side AS VARCHAR) AS maker_side, CAST(taker_side AS VARCHAR) AS taker_side
    FROM ${linesAsText(paths, lines)}`;
}

/** Selects the largest numbers of digits before and after the point in raw lines. */
export function digitsSql(paths: readonly string[], lines: LineSql): string {
  const most = (column: string): string => {
    const fits = `FILTER (regexp_full_match(${column}, ${anyText}))`;
    return `max(length(split_part(ltrim(${column}, '-0'), '.', 1))) ${fits} AS ${column}_digits,
      max(length(rtrim(split_part(${column}, '.', 2), '0'))) ${fits} AS ${column}_decimals`;
  };
  return `SELECT ${most('price')}, ${most('quantity')} FROM ${linesAsText(paths, lines)}`;
}

/** Writes trades to a Parquet file, or records of about `recordBytes` bytes each. */
export function copySql(select: string, path: string, recordBytes: number | undefined): string {
  const format = recordBytes === undefined ? tradeParquet : parquet;
  const fitting = Math.floor(groupBytes / (recordBytes ?? 1));
  const rows = Math.max(2_048, Math.min(groupRowsMax, fitting));
  return `COPY (${select}) TO ${quoted(path)} (${format}, ROW_GROUP_SIZE ${rows})`;
}

/** Makes the condition that a row is of a day. */
export function isOf(date: string, time: string): string {
  const day = `CAST(${quoted(date)} AS TIMESTAMPTZ)`;
  return `${time} >= ${day} AND ${time} < ${day} + INTERVAL 1 DAY`;
}

/** Counts rows whose id is not above that of the row before. */
export function lateCount(source: string, id: string): string {
  return `(SELECT count(*) FROM
    (SELECT ${id} <= lag(${id}) OVER () AS late FROM ${source}) WHERE late)`;
}
