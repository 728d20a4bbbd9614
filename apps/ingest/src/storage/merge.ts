import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { LineSql } from '../connectors/connector.ts';
import { type Engine, engineError, quoted, type Row } from './engine.ts';
import { type Folder, holdAll } from './folder.ts';
import type { TableFile } from './manifest.ts';
import { dataPath } from './manifest-chain.ts';
import { dayFolder, type RawEntry } from './raw-file.ts';
import { storageError } from './storage-error.ts';
import type { ProductName, TableDraft } from './table-draft.ts';

/** Lines that are in work at once: some 60 bytes of memory each. */
const pieceTrades = 1_000_000;

const columns = ['trade_id', 'trade_ts', 'price', 'quantity', 'maker_side', 'taker_side'] as const;

/** Of two trades with the same id the later counts; the rest only makes the choice the same. */
const newest = 'trade_ts DESC, price DESC, quantity DESC, maker_side, taker_side';

const written = `trade_id, CAST(trade_id AS VARCHAR) AS trade_id_text, trade_ts, price, quantity,
  maker_side, taker_side`;

/** Delta encodings halve the size: 3.4 bytes a trade instead of 6.9 (2026-11, made-up trades). */
const parquet = 'FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 122880';

/** Brings raw files into a draft, piece by piece, so that memory does not grow with the history. */
export class Merge {
  readonly #engine: Engine;
  readonly #folder: Folder;
  readonly #draft: TableDraft;
  readonly #signal: AbortSignal;
  #copies = 0;

  constructor(engine: Engine, folder: Folder, draft: TableDraft, signal: AbortSignal) {
    this.#engine = engine;
    this.#folder = folder;
    this.#draft = draft;
    this.#signal = signal;
  }

  /** All of one product and generation; the draft has none of them yet. */
  async add(name: ProductName, entries: readonly RawEntry[], lines: LineSql): Promise<void> {
    const byId = entries.toSorted((a, b) => a.firstId - b.firstId);
    for (let from = 0; from < byId.length; ) {
      const piece = pieceOf(byId.slice(from), this.#draft.filesOf(name));
      await this.#addPiece(name, piece, lines);
      from += piece.length;
    }
    this.#draft.advance(name, entries);
  }

  /** Makes one file of several of the same day. */
  async join(name: ProductName, files: readonly TableFile[]): Promise<void> {
    await this.#run(
      `CREATE OR REPLACE TEMP TABLE stage AS SELECT ${columns.join()} FROM no_trades`,
    );
    await this.#addRows(files);
    const made = await this.#writeDays(name);
    const [before, after] = [rowsOf(files), rowsOf(made)];
    if (before !== after) {
      const what = files.map(({ path }) => path).join(', ');
      throw storageError('TABLE_CORRUPT', `${what}: ${after} different trades, not ${before}`);
    }
    this.#draft.replace(name, files, made);
  }

  async #addPiece(name: ProductName, piece: readonly RawEntry[], lines: LineSql): Promise<void> {
    await this.#stage(piece, lines);
    const [firstId, lastId] = [piece[0]?.firstId ?? 0, hullEnd(piece)];
    // Of any day: the time of a trade may be another than it was when it was first read.
    const touched = this.#draft.filesOf(name).filter((file) => {
      return file.firstId <= lastId && file.lastId >= firstId;
    });
    await this.#addRows(touched);
    const made = await this.#writeDays(name);
    this.#draft.replace(name, touched, made);
  }

  async #stage(piece: readonly RawEntry[], lines: LineSql): Promise<void> {
    try {
      await this.#stageAll(piece, lines);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (piece.length === 1) {
        const [{ file }] = piece as [RawEntry];
        throw engineError('RAW_INVALID', `${this.#folder.place}/${file}`, error);
      }
      // One by one, to find the file that it is about.
      for (const entry of piece) await this.#stage([entry], lines);
      throw error;
    }
  }

  async #stageAll(piece: readonly RawEntry[], lines: LineSql): Promise<void> {
    await using held = await holdAll(this.#folder, piece, this.#signal);
    const list = held.paths.map(quoted).join();
    const source = `SELECT ${lines.select} FROM read_json([${list}], ${lines.options},
      compression = 'zstd', maximum_object_size = 1048576)`;
    const types = await this.#rows(`DESCRIBE ${source}`);
    const decimal = (column: string): string => {
      const type = types.find(({ column_name }) => column_name === column)?.column_type;
      return type === 'VARCHAR' ? `exact_decimal(${column})` : column;
    };
    await this.#run(`CREATE OR REPLACE TEMP TABLE stage AS SELECT
      CAST(trade_id AS BIGINT) AS trade_id, CAST(trade_ts AS TIMESTAMPTZ) AS trade_ts,
      CAST(${decimal('price')} AS DECIMAL(38,18)) AS price,
      CAST(${decimal('quantity')} AS DECIMAL(38,18)) AS quantity,
      CAST(maker_side AS VARCHAR) AS maker_side, CAST(taker_side AS VARCHAR) AS taker_side
      FROM (${source})`);
    await this.#checkStage(piece);
  }

  /** Nothing may be lost between the ledger and the table. */
  async #checkStage(piece: readonly RawEntry[]): Promise<void> {
    const counts = columns.map((column) => `count(${column}) AS ${column}`).join();
    const [row = {}] = await this.#rows(
      `SELECT count(*) AS lines, min(trade_id) AS first, max(trade_id) AS last, ${counts} FROM stage`,
    );
    const trades = piece.reduce((sum, entry) => sum + entry.trades, 0);
    if (Number(row.lines) !== trades)
      throw new Error(`${row.lines} trades, the ledger has ${trades}`);
    const empty = columns.find((column) => Number(row[column]) !== trades);
    if (empty !== undefined) throw new Error(`${empty}: there is a trade without it`);
    const [first, last] = [piece[0]?.firstId, hullEnd(piece)];
    if (Number(row.first) === first && Number(row.last) === last) return;
    const found = `trades from ${row.first} to ${row.last}`;
    throw new Error(`${found}, the ledger has those from ${first} to ${last}`);
  }

  async #addRows(files: readonly TableFile[]): Promise<void> {
    if (files.length === 0) return;
    await using held = await holdAll(
      this.#folder,
      files.map(({ path }) => ({ file: path })),
      this.#signal,
    );
    const list = held.paths.map(quoted).join();
    await this.#run(`INSERT INTO stage SELECT ${columns.join()} FROM
      read_parquet([${list}], hive_partitioning = false)`);
  }

  /** What is staged, each trade once, as one file for each day. */
  async #writeDays(name: ProductName): Promise<readonly TableFile[]> {
    const [{ all, different } = {}] = await this.#rows(
      'SELECT count(*) AS all, count(DISTINCT trade_id) AS different FROM stage',
    );
    if (all !== different) {
      await this.#run(`CREATE OR REPLACE TEMP TABLE once AS SELECT * FROM stage
        QUALIFY row_number() OVER (PARTITION BY trade_id ORDER BY ${newest}) = 1`);
      await this.#run('DROP TABLE stage');
      await this.#run('ALTER TABLE once RENAME TO stage');
    }
    const days = await this.#rows(`SELECT CAST(CAST(trade_ts AS DATE) AS VARCHAR) AS date,
      count(*) AS rows, min(trade_id) AS "firstId", max(trade_id) AS "lastId",
      epoch_us(min(trade_ts)) AS "firstUs", epoch_us(max(trade_ts)) AS "lastUs"
      FROM stage GROUP BY CAST(trade_ts AS DATE) ORDER BY date`);
    const made: TableFile[] = [];
    for (const day of days) made.push(await this.#writeDay(name, day));
    await this.#run('DROP TABLE stage');
    return made;
  }

  async #writeDay({ exchange, product }: ProductName, day: Row): Promise<TableFile> {
    const date = String(day.date);
    this.#copies += 1;
    const copy = join(this.#folder.scratch, `${this.#draft.version}-${this.#copies}.parquet`);
    const next = `CAST(${quoted(date)} AS TIMESTAMPTZ)`;
    await this.#run(`COPY (SELECT ${written} FROM stage
      WHERE trade_ts >= ${next} AND trade_ts < ${next} + INTERVAL 1 DAY ORDER BY trade_id)
      TO ${quoted(copy)} (${parquet})`);
    const sha256 = await hashOf(copy);
    const bytes = (await stat(copy)).size;
    const path = dataPath(dayFolder(exchange, product, date), this.#draft.version, sha256);
    await this.#folder.adopt(copy, path, this.#signal);
    const { rows, firstId, lastId, firstUs, lastUs } = day;
    const [extent, times] = [
      { rows: Number(rows), firstId: Number(firstId), lastId: Number(lastId) },
      { firstUs: Number(firstUs), lastUs: Number(lastUs) },
    ];
    return { path, exchange, product, date, ...extent, ...times, bytes, sha256 };
  }

  async #run(sql: string): Promise<void> {
    await this.#engine.run(sql, this.#signal);
  }

  async #rows(sql: string): Promise<readonly Row[]> {
    return await this.#engine.rows(sql, this.#signal);
  }
}

/** The first entries that are done at once: not too many, and no file of the table between them. */
function pieceOf(entries: readonly RawEntry[], files: readonly TableFile[]): readonly RawEntry[] {
  let trades = 0;
  let end = -1;
  const stop = entries.findIndex((entry, at) => {
    const { firstId, lastId } = entry;
    const isApart = files.some((file) => file.firstId > end && file.lastId < firstId);
    if (at > 0 && (isApart || trades + entry.trades > pieceTrades)) return true;
    trades += entry.trades;
    end = Math.max(end, lastId);
    return false;
  });
  return stop === -1 ? entries : entries.slice(0, stop);
}

function hullEnd(piece: readonly RawEntry[]): number {
  return Math.max(...piece.map(({ lastId }) => lastId));
}

function rowsOf(files: readonly TableFile[]): number {
  return files.reduce((sum, { rows }) => sum + rows, 0);
}

/** Of a file of this machine, in hex. */
export async function hashOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const stream = createReadStream(path, signal === undefined ? {} : { signal });
  for await (const chunk of stream) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}
