import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { systemClock } from 'spillway';
import type { LineSql } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';

export interface EngineOptions {
  /** How much it may hold in memory before it uses the disk, in MB. */
  readonly memoryMb: number;
  readonly threads: number;
  /** Where it puts what does not fit into memory. */
  readonly scratch: string;
}

/** A row as JSON has it: decimals and whole numbers of 64 bits are text, to the last digit. */
export type Row = Readonly<Record<string, unknown>>;

const interruptMs = 20;

/** DuckDB in memory, with bounds. Its work is done on threads of its own; one call at a time. */
export class Engine implements AsyncDisposable {
  readonly connection: DuckDBConnection;
  readonly #instance: DuckDBInstance;
  readonly #threads: number;
  readonly #spill: string;

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    threads: number,
    spill: string,
  ) {
    this.#instance = instance;
    this.connection = connection;
    this.#threads = threads;
    this.#spill = spill;
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
    const engine = new Engine(instance, await instance.connect(), threads, spill);
    // Days are those of UTC, whatever the machine's zone is.
    await engine.run("SET GLOBAL TimeZone = 'UTC'");
    await engine.run(exactDecimal);
    return engine;
  }

  async run(sql: string, signal?: AbortSignal): Promise<void> {
    await this.within(signal, () => this.connection.run(sql));
  }

  /**
   * Runs statements side by side, each on one thread. Rows keep their order then, and it takes a
   * third of the memory, and less time, than to have all threads on one after the other (2026-11).
   */
  async runEach(statements: readonly string[], signal: AbortSignal): Promise<void> {
    await this.run('SET threads = 1', signal);
    const rest = statements.values();
    const work = Array.from({ length: this.#threads }, async () => {
      const connection = await this.#instance.connect();
      try {
        for (const sql of rest) await within(connection, signal, () => connection.run(sql));
      } finally {
        connection.closeSync();
      }
    });
    // Also when one fails: none may go on behind the back of the caller.
    await Promise.allSettled(work);
    await this.run(`SET threads = ${this.#threads}`);
    await Promise.all(work);
  }

  async rows(sql: string, signal?: AbortSignal): Promise<readonly Row[]> {
    const read = await this.within(signal, () => this.connection.runAndReadAll(sql));
    return read.getRowObjectsJson();
  }

  /** Runs what uses the connection, and interrupts it when the signal aborts. */
  async within<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return await within(this.connection, signal, work);
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

/**
 * Text to DECIMAL(38,18), to the last digit or not at all: a plain cast rounds what is longer. By
 * way of 64 bits where that is exact, since the direct cast takes 5 µs a value (2026-11, 13 times
 * as long).
 */
const exactDecimal = `CREATE MACRO exact_decimal(t) AS CASE
  WHEN t IS NULL THEN NULL
  WHEN regexp_full_match(t, '-?[0-9]{1,9}([.][0-9]{1,9})?')
    THEN CAST(CAST(t AS DECIMAL(18,9)) AS DECIMAL(38,18))
  WHEN regexp_full_match(t, '-?[0-9]{1,20}([.][0-9]{1,18})?') THEN CAST(t AS DECIMAL(38,18))
  ELSE error('"' || t || '" is no number of up to 20 digits and 18 decimals') END`;

/** A text as SQL writes it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** What DuckDB said; a full disk is told apart. */
export function engineError(
  code: 'RAW_INVALID' | 'TABLE_FAILED' | 'QUERY_FAILED',
  what: string,
  cause: unknown,
): unknown {
  if (!(cause instanceof Error) || 'code' in cause) return cause;
  const isFull = /no space left|max_temp_directory_size|disk quota|file too large/i;
  const kind = isFull.test(cause.message) ? 'FOLDER_FULL' : code;
  return ingestError(kind, `${what}: ${cause.message.trim()}`, { cause });
}

/** The columns that are read from lines. */
export const columns: readonly string[] =
  'trade_id, trade_ts, price, quantity, maker_side, taker_side'.split(', ');

/** Of two trades with the same id the later counts; the rest only makes the choice the same. */
export const newest: string = 'trade_ts DESC, price DESC, quantity DESC, maker_side, taker_side';

/** The columns of the table. */
export const written: string = `trade_id, CAST(trade_id AS VARCHAR) AS trade_id_text, trade_ts,
  price, quantity, maker_side, taker_side`;

/** What the manifest says of a file. */
export const extent: string = `min(trade_id) AS "firstId", max(trade_id) AS "lastId",
  epoch_us(min(trade_ts)) AS "firstUs", epoch_us(max(trade_ts)) AS "lastUs"`;

/**
 * Delta encodings halve the size: 3.4 bytes a trade instead of 6.9. Groups of twice the size took
 * 150 MB more to write (2026-11, made-up trades).
 */
const parquet = 'FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 61440';

/** The columns of the table, from lines of an exchange. */
export function linesSql(paths: readonly string[], { select, options }: LineSql): string {
  return `SELECT CAST(trade_id AS BIGINT) AS trade_id,
    make_timestamptz(epoch_us(trade_ts)) AS trade_ts,
    exact_decimal(price) AS price, exact_decimal(quantity) AS quantity,
    CAST(maker_side AS VARCHAR) AS maker_side, CAST(taker_side AS VARCHAR) AS taker_side
    FROM (SELECT ${select} FROM read_json([${paths.map(quoted).join()}], ${options},
      compression = 'zstd', maximum_object_size = 1048576))`;
}

export function copySql(select: string, path: string): string {
  return `COPY (${select}) TO ${quoted(path)} (${parquet})`;
}

/** A condition on trades. */
export function isOf(date: string): string {
  const day = `CAST(${quoted(date)} AS TIMESTAMPTZ)`;
  return `trade_ts >= ${day} AND trade_ts < ${day} + INTERVAL 1 DAY`;
}

/** How many rows do not have a higher id than the one before them. */
export function lateCount(source: string): string {
  return `(SELECT count(*) FROM
    (SELECT trade_id <= lag(trade_id) OVER () AS late FROM ${source}) WHERE late)`;
}
