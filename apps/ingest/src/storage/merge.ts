import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { LineSql } from '../connectors/connector.ts';
import { type Engine, engineError, quoted, type Row } from './engine.ts';
import { type Folder, type HeldFiles, holdAll } from './folder.ts';
import type { TableFile } from './manifest.ts';
import { dataPath } from './manifest-chain.ts';
import { dayFolder, dayOf, type RawEntry } from './raw-file.ts';
import { storageError } from './storage-error.ts';
import type { ProductName, TableDraft } from './table-draft.ts';

/** Lines that are in work at once: some 80 bytes of memory each. */
const pieceTrades = 250_000;

/** Files that are made durable together. */
const adoptsAtOnce = 16;

const dayUs = 86_400_000_000;

const columns = ['trade_id', 'trade_ts', 'price', 'quantity', 'maker_side', 'taker_side'] as const;

/** Of two trades with the same id the later counts; the rest only makes the choice the same. */
const newest = 'trade_ts DESC, price DESC, quantity DESC, maker_side, taker_side';

const written = `trade_id, CAST(trade_id AS VARCHAR) AS trade_id_text, trade_ts, price, quantity,
  maker_side, taker_side`;

const extent = `min(trade_id) AS "firstId", max(trade_id) AS "lastId",
  epoch_us(min(trade_ts)) AS "firstUs", epoch_us(max(trade_ts)) AS "lastUs"`;

/**
 * Delta encodings halve the size: 3.4 bytes a trade instead of 6.9. Groups of twice the size took
 * 150 MB more to write (2026-11, made-up trades).
 */
const parquet = 'FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 61440';

/** Brings raw files into a draft, piece by piece, so that memory does not grow with the history. */
export class Merge {
  readonly #engine: Engine;
  readonly #folder: Folder;
  readonly #draft: TableDraft;
  readonly #signal: AbortSignal;

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

  /** Makes one file of several of the same day, which are given by ascending id. */
  async join(name: ProductName, files: readonly TableFile[]): Promise<void> {
    await using held = await this.#hold(files);
    const source = `read_parquet([${held.paths.map(quoted).join()}], hive_partitioning = false)`;
    const [row = {}] = await this.#rows(`SELECT count(*) AS rows, ${lateCount(source)} AS late,
      ${extent} FROM ${source}`);
    const rows = rowsOf(files);
    if (Number(row.rows) !== rows || Number(row.late) > 0) {
      const what = files.map(({ path }) => path).join(', ');
      const found = `${row.rows} trades, ${row.late} of them out of order`;
      throw storageError('TABLE_CORRUPT', `${what}: ${found}; the manifest has ${rows} in order`);
    }
    // Straight from file to file, since they are in order already.
    const copy = await this.#copy(`SELECT * FROM ${source}`);
    this.#draft.replace(name, files, [await this.#adopt({ ...name, row }, copy)]);
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
    await this.#run(`CREATE OR REPLACE TEMP TABLE stage AS SELECT
      CAST(trade_id AS BIGINT) AS trade_id, make_timestamptz(epoch_us(trade_ts)) AS trade_ts,
      exact_decimal(price) AS price, exact_decimal(quantity) AS quantity,
      CAST(maker_side AS VARCHAR) AS maker_side, CAST(taker_side AS VARCHAR) AS taker_side
      FROM (${source})`);
    await this.#checkStage(piece);
  }

  /** Nothing may be lost between the ledger and the table. */
  async #checkStage(piece: readonly RawEntry[]): Promise<void> {
    const counts = columns.map((column) => `count(${column}) AS ${column}`).join();
    const [row = {}] = await this.#rows(
      `SELECT count(*) AS lines, min(trade_id) AS first, max(trade_id) AS last, ${counts}
        FROM stage`,
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
    await using held = await this.#hold(files);
    const list = held.paths.map(quoted).join();
    await this.#run(`INSERT INTO stage SELECT ${columns.join()} FROM
      read_parquet([${list}], hive_partitioning = false)`);
  }

  /** What is staged, each trade once, as one file for each day. */
  async #writeDays(name: ProductName): Promise<readonly TableFile[]> {
    // Mostly the lines come as they should be; to see that is far cheaper than to sort them.
    const [{ late } = {}] = await this.#rows(`SELECT ${lateCount('stage')} AS late`);
    if (Number(late) > 0) {
      await this.#run(`CREATE OR REPLACE TEMP TABLE once AS SELECT * FROM stage
        QUALIFY row_number() OVER (PARTITION BY trade_id ORDER BY ${newest}) = 1
        ORDER BY trade_id`);
      await this.#run('DROP TABLE stage');
      await this.#run('ALTER TABLE once RENAME TO stage');
    }
    const days = await this.#rows(`SELECT count(*) AS rows, ${extent} FROM stage
      GROUP BY epoch_us(trade_ts) // ${dayUs} ORDER BY "firstUs"`);
    const made: TableFile[] = [];
    for (let from = 0; from < days.length; from += adoptsAtOnce) {
      const rows = days.slice(from, from + adoptsAtOnce);
      const copies: string[] = [];
      for (const row of rows) copies.push(await this.#copyDay(dayOf(Number(row.firstUs))));
      // Together, because most of the time goes into waiting for the disk.
      const adopted = rows.map((row, at) => this.#adopt({ ...name, row }, copies[at] as string));
      made.push(...(await allOf(adopted)));
    }
    await this.#run('DROP TABLE stage');
    return made;
  }

  async #copyDay(date: string): Promise<string> {
    const day = `CAST(${quoted(date)} AS TIMESTAMPTZ)`;
    return await this.#copy(`SELECT ${written} FROM stage
      WHERE trade_ts >= ${day} AND trade_ts < ${day} + INTERVAL 1 DAY`);
  }

  async #copy(sql: string): Promise<string> {
    const path = join(this.#folder.scratch, `${randomUUID()}.parquet`);
    await this.#run(`COPY (${sql}) TO ${quoted(path)} (${parquet})`);
    return path;
  }

  async #adopt(of: ProductName & { readonly row: Row }, copy: string): Promise<TableFile> {
    const { exchange, product, row } = of;
    const sha256 = await hashOf(copy, this.#signal);
    const bytes = (await stat(copy)).size;
    const [rows, firstId, lastId] = [Number(row.rows), Number(row.firstId), Number(row.lastId)];
    const [firstUs, lastUs] = [Number(row.firstUs), Number(row.lastUs)];
    const date = dayOf(firstUs);
    const path = dataPath(dayFolder(exchange, product, date), this.#draft.version, sha256);
    await this.#folder.adopt(copy, path, this.#signal);
    const ids = { rows, firstId, lastId };
    return { path, exchange, product, date, ...ids, firstUs, lastUs, bytes, sha256 };
  }

  async #hold(files: readonly TableFile[]): Promise<HeldFiles> {
    const paths = files.map(({ path }) => ({ file: path }));
    return await holdAll(this.#folder, paths, this.#signal);
  }

  async #run(sql: string): Promise<void> {
    await this.#engine.run(sql, this.#signal);
  }

  async #rows(sql: string): Promise<readonly Row[]> {
    return await this.#engine.rows(sql, this.#signal);
  }
}

/** Waits for all of them, also when one fails: none may go on behind the back of its caller. */
async function allOf<T>(work: readonly Promise<T>[]): Promise<readonly T[]> {
  await Promise.allSettled(work);
  return await Promise.all(work);
}

/** How many rows do not have a higher id than the one before them. */
export function lateCount(source: string): string {
  return `(SELECT count(*) FROM
    (SELECT trade_id <= lag(trade_id) OVER () AS late FROM ${source}) WHERE late)`;
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
