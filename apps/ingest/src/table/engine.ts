import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { systemClock } from 'spillway';
import type { LineSql } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';

export interface EngineOptions {
  /** Memory that it may hold before it uses the disk, in MB. */
  readonly memoryMb: number;
  /** Memory that statements get which cannot do with less, in MB. @default 1_024 */
  readonly memoryMbMax?: number | undefined;
  readonly threads: number;
  /** Directory for what does not fit into memory. */
  readonly scratch: string;
}

/** A row as JSON has it: decimals and whole numbers of 64 bits are text, to the last digit. */
export type Row = Readonly<Record<string, unknown>>;

const interruptMs = 20;

/** DuckDB in memory, with bounds. Its work is done on threads of its own; one call at a time. */
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
      // Given back to the machine soon: 100 MB less at the peak (2026-11), and no slower.
      allocator_flush_threshold: '8MB',
      allocator_bulk_deallocation_flush_threshold: '8MB',
      write_buffer_row_group_count: '1',
      enable_external_file_cache: 'false',
      autoinstall_known_extensions: 'false',
    });
    const engine = new Engine(instance, await instance.connect(), { ...options, spill });
    // Days are those of UTC, whatever the machine's zone is.
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
   * Runs what uses the connection, and interrupts it when the signal aborts. Work that has too
   * little memory is run again with twice as much: DuckDB holds up to 2,048 records at once
   * whatever their length, and cannot put those on the disk.
   */
  async within<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await within(this.connection, signal, work);
      } catch (error) {
        if (!isOutOfMemory(error) || this.#memoryMb >= this.#memoryMbMax) throw error;
        this.#memoryMb = Math.min(this.#memoryMbMax, this.#memoryMb * 2);
        // Refused after the settings were locked: then it is the caller's to begin again.
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

async function within<T>(
  connection: DuckDBConnection,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  let again: Disposable | undefined;
  const interrupt = (): void => {
    // Again and again, because an interruption between two statements has no effect.
    connection.interrupt();
    again = systemClock.after(interruptMs, interrupt);
  };
  signal?.addEventListener('abort', interrupt);
  try {
    return await work();
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', interrupt);
    again?.[Symbol.dispose]();
  }
}

/** A text as SQL writes it; a statement ends at a NUL. */
export function quoted(text: string): string {
  const parts = text.split('\0').map((part) => `'${part.replaceAll("'", "''")}'`);
  return parts.length === 1 ? String(parts[0]) : `(${parts.join(' || chr(0) || ')})`;
}

/** DuckDB has reached its limit, and could not put anything more on the disk. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('Out of Memory Error');
}

/** Error of DuckDB; a full disk and too little memory are told apart. */
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

/** The type of one decimal column of a product. */
export interface DecimalType {
  readonly width: 18 | 38;
  readonly scale: 9 | 12 | 18;
}

/** The types of both decimal columns of a product. */
export interface DecimalTypes {
  readonly price: DecimalType;
  readonly quantity: DecimalType;
}

/**
 * The same for every product that it fits: engines take the type of the first file that they read,
 * and round the others to it. With 9 decimals, `price * quantity` has 18 digits before the point.
 */
export const usual: DecimalType = { width: 18, scale: 9 };
export const usualTypes: DecimalTypes = { price: usual, quantity: usual };

export function decimalType({ width, scale }: DecimalType): string {
  return `DECIMAL(${width},${scale})`;
}

/** The type that holds what either holds, and numbers with so many digits. */
export function widened(type: DecimalType, digits: number, decimals: number): DecimalType {
  const scale = decimals <= 9 ? 9 : decimals <= 12 ? 12 : 18;
  const isUsual = type.width === 18 && digits <= 9 && decimals <= 9;
  return isUsual ? usual : { width: 38, scale: scale > type.scale ? scale : type.scale };
}

const usualText = "'-?[0-9]{1,9}([.][0-9]{1,9}0*)?'";
const anyText = "'-?[0-9]{1,20}([.][0-9]{1,18}0*)?'";
/** Begins the message about a number that takes a wider type. */
export const isTooWide = 'a wider type is needed';

/**
 * Text to a decimal, to the last digit or not at all: a plain cast rounds what is longer. By way of
 * 64 bits where that is exact: the direct cast takes 5 µs a value, 13 times as long (2026-11).
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

/** Of two trades with the same id the later counts; the rest only makes the choice the same. */
export const newest: string = 'trade_ts DESC, price DESC, quantity DESC, maker_side, taker_side';

/** The columns as files have them; what was written with a narrower type is widened. */
export function columnsAs({ price, quantity }: DecimalTypes): string {
  return `trade_id, trade_ts, CAST(price AS ${decimalType(price)}) AS price,
    CAST(quantity AS ${decimalType(quantity)}) AS quantity, maker_side, taker_side`;
}

/** The columns that number the rows of a product and tell their time. */
export interface RowColumns {
  readonly id: string;
  readonly time: string;
}

/** Columns of a file that the manifest keeps. */
export function extentSql({ id, time }: RowColumns): string {
  return `min(${id}) AS "firstId", max(${id}) AS "lastId",
    epoch_us(min(${time})) AS "firstUs", epoch_us(max(${time})) AS "lastUs",
    CAST(CAST(min(${time}) AS DATE) AS VARCHAR) AS date`;
}

/**
 * Delta encodings make 8.3 bytes of a made-up trade, plain ones 11. Groups of twice the size took
 * 150 MB more to write, and more room (2026-11).
 */
const parquet = 'FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2';
/**
 * A dictionary of 12,000 prices, which DuckDB makes by itself, took 0.7 bytes more a trade. Level 7
 * in place of 3 makes 9.5 bytes of 9.8 where prices jump by 20 dollars, and takes no longer; 15
 * makes no less than 9.45, and takes four times as long (2026-11).
 */
const tradeParquet = `${parquet}, COMPRESSION_LEVEL 7, DICTIONARY_SIZE_LIMIT 2048`;
const groupRowsMax = 61_440;
/** Bytes of a group in memory: DuckDB holds about three times as much while it writes it. */
const groupBytes = 16 * 2 ** 20;

function linesAsText(paths: readonly string[], { select, options }: LineSql): string {
  return `(SELECT ${select} FROM read_json([${paths.map(quoted).join()}], ${options},
    compression = 'zstd', maximum_object_size = 1048576))`;
}

/** The columns of the table, from lines of an exchange. */
export function linesSql(paths: readonly string[], lines: LineSql, types: DecimalTypes): string {
  return `SELECT CAST(trade_id AS BIGINT) AS trade_id,
    make_timestamptz(epoch_us(trade_ts)) AS trade_ts,
    ${exactDecimal('price', types.price)} AS price,
    ${exactDecimal('quantity', types.quantity)} AS quantity,
    CAST(maker_side AS VARCHAR) AS maker_side, CAST(taker_side AS VARCHAR) AS taker_side
    FROM ${linesAsText(paths, lines)}`;
}

/** The most digits before and after the point, of the prices and quantities in the lines. */
export function digitsSql(paths: readonly string[], lines: LineSql): string {
  const most = (column: string): string => {
    const fits = `FILTER (regexp_full_match(${column}, ${anyText}))`;
    return `max(length(split_part(ltrim(${column}, '-0'), '.', 1))) ${fits} AS ${column}_digits,
      max(length(rtrim(split_part(${column}, '.', 2), '0'))) ${fits} AS ${column}_decimals`;
  };
  return `SELECT ${most('price')}, ${most('quantity')} FROM ${linesAsText(paths, lines)}`;
}

/** Writes trades, or records of so many bytes each, to a file. */
export function copySql(select: string, path: string, recordBytes: number | undefined): string {
  const format = recordBytes === undefined ? tradeParquet : parquet;
  const fitting = Math.floor(groupBytes / (recordBytes ?? 1));
  const rows = Math.max(2_048, Math.min(groupRowsMax, fitting));
  return `COPY (${select}) TO ${quoted(path)} (${format}, ROW_GROUP_SIZE ${rows})`;
}

/** A condition on the time of a row. */
export function isOf(date: string, time: string): string {
  const day = `CAST(${quoted(date)} AS TIMESTAMPTZ)`;
  return `${time} >= ${day} AND ${time} < ${day} + INTERVAL 1 DAY`;
}

/** Counts rows that do not have a higher id than the one before them. */
export function lateCount(source: string, id: string): string {
  return `(SELECT count(*) FROM
    (SELECT ${id} <= lag(${id}) OVER () AS late FROM ${source}) WHERE late)`;
}
