import { randomUUID } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { LineSql } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';
import { type Folder, type HeldFiles, hashOf, holdAll } from '../files/folder.ts';
import { dayFolder, dayOf, type RawEntry } from '../files/raw-file.ts';
import {
  columns,
  copySql,
  type Engine,
  engineError,
  extent,
  isOf,
  lateCount,
  linesSql,
  newest,
  quoted,
  type Row,
  written,
} from './engine.ts';
import { dataPath, type ProductName, type TableDraft, type TableFile } from './manifest.ts';
import { daysOf, dayUs, straightRuns, tradesIn } from './straight-run.ts';

/** Lines that are in work at once: some 80 bytes of memory each. */
const pieceTrades = 250_000;

/** Files that are made durable together. */
const adoptsAtOnce = 16;

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
    const straight = straightRuns(byId, this.#draft.filesOf(name));
    for (const run of straight ?? [byId]) {
      const isDone = straight !== undefined && (await this.#addStraight(name, run, lines));
      if (!isDone) await this.#addPieces(name, run, lines);
    }
    this.#draft.advance(name, entries);
  }

  /**
   * Each day straight from the lines to its file: half the work of {@link #addPieces}, and nothing
   * is left to be joined. False, with nothing changed, if the lines are not in order, or not what
   * the ledger says: the other way puts that right, or says what is wrong.
   */
  async #addStraight(
    name: ProductName,
    run: readonly RawEntry[],
    lines: LineSql,
  ): Promise<boolean> {
    const days = daysOf(run);
    const copies = days.map(() => this.#scratchFile());
    let rows: readonly Row[] | undefined;
    try {
      await using held = await holdAll(this.#folder, run, this.#signal);
      const pathOf = new Map(run.map((entry, at) => [entry, held.paths[at] as string]));
      const statements = days.map(({ date, entries }, at) => {
        const paths = entries.map((entry) => pathOf.get(entry) as string);
        const select = `SELECT ${written} FROM (${linesSql(paths, lines)}) WHERE ${isOf(date)}`;
        return copySql(select, copies[at] as string);
      });
      await this.#engine.runEach(statements, this.#signal);
      rows = await this.#checkCopies(run, copies);
    } catch {
      this.#signal.throwIfAborted();
    }
    if (rows !== undefined) this.#draft.replace(name, [], await this.#adoptAll(name, rows));
    for (const copy of copies) await rm(copy, { force: true });
    return rows !== undefined;
  }

  /** What is in each; undefined unless all are as they should be. */
  async #checkCopies(
    run: readonly RawEntry[],
    copies: readonly string[],
  ): Promise<readonly Row[] | undefined> {
    const list = `[${copies.map(quoted).join()}]`;
    const source = `read_parquet(${list}, hive_partitioning = false, filename = true)`;
    const [whole = {}] = await this.#rows(`SELECT ${lateCount(source)} AS late,
      (SELECT sum(stats_null_count) FROM parquet_metadata(${list})) AS nulls`);
    const rows = await this.#rows(`SELECT filename AS copy, count(*) AS rows, ${extent}
      FROM ${source} GROUP BY filename ORDER BY "firstUs"`);
    const count = rows.reduce((sum, row) => sum + Number(row.rows), 0);
    const isRight =
      Number(whole.late) === 0 &&
      Number(whole.nulls ?? 1) === 0 &&
      count === tradesIn(run) &&
      Number(rows[0]?.firstId) === run[0]?.firstId &&
      Number(rows.at(-1)?.lastId) === hullEnd(run);
    return isRight ? rows : undefined;
  }

  async #addPieces(name: ProductName, entries: readonly RawEntry[], lines: LineSql): Promise<void> {
    for (let from = 0; from < entries.length; ) {
      const piece = pieceOf(entries.slice(from), this.#draft.filesOf(name));
      await this.#addPiece(name, piece, lines);
      from += piece.length;
    }
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
      throw ingestError('TABLE_CORRUPT', `${what}: ${found}; the manifest has ${rows} in order`);
    }
    // Straight from file to file, since they are in order already.
    const copy = await this.#copy(`SELECT * FROM ${source}`);
    this.#draft.replace(name, files, [await this.#adopt({ ...name, row: { ...row, copy } })]);
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
    await this.#run(`CREATE OR REPLACE TEMP TABLE stage AS ${linesSql(held.paths, lines)}`);
    await this.#checkStage(piece);
  }

  /** Nothing may be lost between the ledger and the table. */
  async #checkStage(piece: readonly RawEntry[]): Promise<void> {
    const counts = columns.map((column) => `count(${column}) AS ${column}`).join();
    const [row = {}] = await this.#rows(
      `SELECT count(*) AS lines, min(trade_id) AS first, max(trade_id) AS last, ${counts}
        FROM stage`,
    );
    const trades = tradesIn(piece);
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
      const some: Row[] = [];
      for (const row of days.slice(from, from + adoptsAtOnce)) {
        some.push({ ...row, copy: await this.#copyDay(dayOf(Number(row.firstUs))) });
      }
      made.push(...(await this.#adoptAll(name, some)));
    }
    await this.#run('DROP TABLE stage');
    return made;
  }

  async #copyDay(date: string): Promise<string> {
    return await this.#copy(`SELECT ${written} FROM stage WHERE ${isOf(date)}`);
  }

  async #copy(sql: string): Promise<string> {
    const path = this.#scratchFile();
    await this.#run(copySql(sql, path));
    return path;
  }

  #scratchFile(): string {
    return join(this.#folder.scratch, `${randomUUID()}.parquet`);
  }

  /** Some at once, because most of the time goes into waiting for the disk. */
  async #adoptAll(name: ProductName, rows: readonly Row[]): Promise<readonly TableFile[]> {
    const made: TableFile[] = [];
    for (let from = 0; from < rows.length; from += adoptsAtOnce) {
      const some = rows.slice(from, from + adoptsAtOnce);
      made.push(...(await allOf(some.map((row) => this.#adopt({ ...name, row })))));
    }
    return made;
  }

  async #adopt(of: ProductName & { readonly row: Row }): Promise<TableFile> {
    const { exchange, product, row } = of;
    const copy = String(row.copy);
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
