import { randomUUID } from 'node:crypto';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { LineSql } from '../connectors/connector.ts';
import { ingestError } from '../errors.ts';
import { type Folder, type HeldFiles, holdAll } from '../files/folder.ts';
import { dayFolder, hashOf, type RawEntry } from '../files/raw-file.ts';
import {
  columns,
  columnsAs,
  copySql,
  type DecimalTypes,
  digitsSql,
  type Engine,
  engineError,
  extentSql,
  isOf,
  isOutOfMemory,
  isTooWide,
  lateCount,
  linesSql,
  newest,
  quoted,
  type Row,
  widened,
} from './engine.ts';
import {
  areKeyed,
  areRecords,
  dataPath,
  type ProductName,
  type ProductTypes,
  rowColumns,
  type TableDraft,
  type TableFile,
} from './manifest.ts';
import {
  columnsFor,
  firstTypes,
  keyExtentSql,
  keySql,
  type RecordSchema,
  type RecordTypes,
  rangesHitSql,
  recordFilesSql,
  recordsSql,
  widthSql,
} from './records.ts';

/** Rules for making rows of raw lines: SQL for trades, or the schema of records. */
export type Lines = LineSql | RecordSchema;

/** Trades merged at once: four times as many took 50 MB more (2026-11). */
const pieceTrades = 125_000;
/** Compressed bytes of records merged at once; 125,000 trades have some 2 MB. */
export const recordPieceBytes: number = 16 * 2 ** 20;

const dayUs = 86_400_000_000;
const until1970Us = 719_162 * dayUs; // Of years from 1 on; SQL divides towards 0.
/** Files synced to disk together. */
const adoptsAtOnce = 16;

/** Merges raw files into a draft piece by piece, so that memory does not grow with the history. */
export class Merge implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #folder: Folder;
  readonly #draft: TableDraft;
  readonly #signal: AbortSignal;
  readonly #scratch: string;

  constructor(engine: Engine, folder: Folder, draft: TableDraft, signal: AbortSignal) {
    this.#engine = engine;
    this.#folder = folder;
    this.#draft = draft;
    this.#signal = signal;
    this.#scratch = join(folder.scratch, `merge-${randomUUID()}`);
  }

  /** Deletes temporary files, also of a failed merge: they may have filled the disk. */
  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#scratch, { recursive: true, force: true }).catch(() => {});
  }

  /** Adds new entries of one product and generation. */
  async add(name: ProductName, entries: readonly RawEntry[], lines: Lines): Promise<void> {
    if ('declared' in lines && !areRecords(this.#draft.typesOf(name))) {
      this.#draft.widen(name, firstTypes(lines));
    }
    const byId = entries.toSorted((a, b) => a.firstId - b.firstId);
    for (let from = 0; from < byId.length; ) {
      const piece = pieceOf(byId.slice(from), this.#draft.filesOf(name));
      await this.#addPiece(name, piece, lines);
      from += piece.length;
    }
    this.#draft.advance(name, entries);
  }

  /** Joins files of one day, given by ascending id. */
  async join(name: ProductName, files: readonly TableFile[]): Promise<void> {
    await using held = await this.#hold(files);
    const types = this.#draft.typesOf(name);
    const columns = rowColumns(types);
    // Records are read in the current types, since bounds of keys are compared in those.
    const isRecords = areRecords(types);
    const source = isRecords ? `(${this.#rowsOf(name, held.paths)})` : readSql(held.paths);
    const [row = {}] = await this.#rows(`SELECT count(*) AS rows,
      ${lateCount(source, columns.id)} AS late, ${extentOf(types)} FROM ${source}`);
    const rows = rowsOf(files);
    // A changed record is in the file of its change, so numbers of files may interleave.
    const isSorted = Number(row.late) === 0;
    if (Number(row.rows) !== rows || !(isSorted || isRecords)) {
      const what = files.map(({ path }) => path).join(', ');
      const found = `${row.rows} trades, ${row.late} of them out of order`;
      throw ingestError('TABLE_CORRUPT', `${what}: ${found}; the manifest has ${rows} in order`);
    }
    const order = isSorted ? '' : ` ORDER BY ${columns.id}`;
    const copy = await this.#copy(`${this.#rowsOf(name, held.paths)}${order}`, types);
    this.#draft.replace(name, files, [await this.#adopt({ ...name, row: { ...row, copy } })]);
  }

  async #addPiece(name: ProductName, piece: readonly RawEntry[], lines: Lines): Promise<void> {
    await this.#stage(name, piece, lines);
    const types = this.#draft.typesOf(name);
    if (areKeyed(types)) {
      await this.#dropReplaced(name, types);
      this.#draft.replace(name, [], await this.#writeDays(name));
      return;
    }
    const firstId = piece[0]?.firstId ?? 0;
    const lastId = highestId(piece);
    // Files of any day, since the time of a trade may have been corrected.
    const touched = this.#draft.filesOf(name).filter((file) => {
      return file.firstId <= lastId && file.lastId >= firstId;
    });
    await this.#addRows(name, touched);
    this.#draft.replace(name, touched, await this.#writeDays(name));
  }

  /** Removes records from files that are staged again, as the staged ones are newer. */
  async #dropReplaced(name: ProductName, types: RecordTypes): Promise<void> {
    for (const file of await this.#sameKeys(types, this.#draft.filesOf(name))) {
      await using held = await this.#hold([file]);
      const rest = `SELECT * FROM (${this.#rowsOf(name, held.paths)})
        ANTI JOIN stage USING (${keySql(types).join()}) ORDER BY _seq`;
      const [row = {}] = await this.#rows(`SELECT count(*) AS rows, ${extentOf(types)}
        FROM (${rest})`);
      const isEmpty = Number(row.rows) === 0;
      const copy = isEmpty ? '' : await this.#copy(rest, types);
      const made = isEmpty ? [] : [await this.#adopt({ ...name, row: { ...row, copy } })];
      this.#draft.replace(name, [file], made);
    }
  }

  /** Finds the files that contain a staged key, also among old ones. */
  async #sameKeys(types: RecordTypes, all: readonly TableFile[]): Promise<readonly TableFile[]> {
    const ranges = all.flatMap(({ firstKey, lastKey }, at) => {
      const isKnown = typeof firstKey === 'string' && typeof lastKey === 'string';
      return isKnown ? [{ at, first: firstKey, last: lastKey }] : [];
    });
    const hits = ranges.length === 0 ? [] : await this.#rows(rangesHitSql(types, ranges));
    const inRange = new Set(hits.map((row) => Number(row.at_file)));
    const known = new Set(ranges.map(({ at }) => at));
    const files = all.filter((_, at) => inRange.has(at) || !known.has(at));
    if (files.length === 0) return [];
    await using held = await this.#hold(files);
    const list = held.paths.map(quoted).join();
    const found = await this.#rows(`SELECT DISTINCT filename FROM read_parquet([${list}],
      hive_partitioning = false, union_by_name = true, filename = true)
      SEMI JOIN stage USING (${keySql(types).join()})`);
    const paths = new Set(found.map(({ filename }) => filename));
    return files.filter((_, at) => paths.has(held.paths[at]));
  }

  async #stage(name: ProductName, piece: readonly RawEntry[], lines: Lines): Promise<void> {
    try {
      await this.#stageAll(name, piece, lines);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (isOutOfMemory(error)) throw error;
      if (piece.length === 1) {
        const [{ file }] = piece as [RawEntry];
        throw engineError('RAW_INVALID', `${this.#folder.place}/${file}`, error);
      }
      // Again one by one, so that the error names the file.
      for (const entry of piece) await this.#stage(name, [entry], lines);
      throw error;
    }
  }

  async #stageAll(name: ProductName, piece: readonly RawEntry[], lines: Lines): Promise<void> {
    await using held = await holdAll(
      this.#folder,
      piece.map(({ file }) => file),
      this.#signal,
    );
    if ('declared' in lines) await this.#stageRecords(name, held.paths);
    else await this.#stageTrades(name, held.paths, lines);
    await this.#checkStage(name, piece);
  }

  async #stageTrades(name: ProductName, paths: readonly string[], lines: LineSql): Promise<void> {
    const stage = async (): Promise<void> => {
      const select = linesSql(paths, lines, this.#draft.typesOf(name) as DecimalTypes);
      await this.#run(`CREATE OR REPLACE TEMP TABLE stage AS ${select}`);
    };
    try {
      await stage();
    } catch (error) {
      if (!String(error).includes(isTooWide)) throw error;
      await this.#widen(name, paths, lines);
      await stage();
    }
  }

  /** Adds columns for new fields, and widens types that do not hold a value. */
  async #stageRecords(name: ProductName, paths: readonly string[]): Promise<void> {
    const before = this.#draft.typesOf(name) as RecordTypes;
    const { types, changes } = await columnsFor(this.#engine, paths, before, this.#signal);
    this.#draft.widen(name, types);
    for (const { column, from, to, value } of changes) {
      const what = `${name.exchange} ${name.product}: ${column} was ${from}`;
      this.#draft.changes.push(`${what} and is ${to} now, for the value ${value}`);
    }
    if (changes.length > 0) {
      for (const file of this.#draft.filesOf(name)) await this.join(name, [file]);
    }
    await this.#run(`CREATE OR REPLACE TEMP TABLE stage AS ${recordsSql(paths, types)}`);
  }

  /** Widens the types to hold the numbers of these lines, and rewrites the product's files. */
  async #widen(name: ProductName, paths: readonly string[], lines: LineSql): Promise<void> {
    const [row = {}] = await this.#rows(digitsSql(paths, lines));
    const { price, quantity } = this.#draft.typesOf(name) as DecimalTypes;
    this.#draft.widen(name, {
      price: widened(price, Number(row.price_digits), Number(row.price_decimals)),
      quantity: widened(quantity, Number(row.quantity_digits), Number(row.quantity_decimals)),
    });
    for (const file of this.#draft.filesOf(name)) await this.join(name, [file]);
  }

  /** Throws unless exactly the trades of the ledger are staged, with all values. */
  async #checkStage(name: ProductName, piece: readonly RawEntry[]): Promise<void> {
    const types = this.#draft.typesOf(name);
    const { id } = rowColumns(types);
    const required = areRecords(types) ? [id, '_time', ...keySql(types)] : columns;
    const counts = required.map((column, at) => `count(${column}) AS count${at}`).join();
    const [row = {}] = await this.#rows(
      `SELECT count(*) AS lines, min(${id}) AS first, max(${id}) AS last, ${counts} FROM stage`,
    );
    const trades = piece.reduce((sum, entry) => sum + entry.trades, 0);
    if (Number(row.lines) !== trades)
      throw new Error(`${row.lines} trades, the ledger has ${trades}`);
    const empty = required.find((_, at) => Number(row[`count${at}`]) !== trades);
    if (empty !== undefined) throw new Error(`a row has no value in ${empty}`);
    const first = piece[0]?.firstId;
    const last = highestId(piece);
    if (Number(row.first) === first && Number(row.last) === last) return;
    const found = `trades from ${row.first} to ${row.last}`;
    throw new Error(`${found}, the ledger has those from ${first} to ${last}`);
  }

  async #addRows(name: ProductName, files: readonly TableFile[]): Promise<void> {
    if (files.length === 0) return;
    await using held = await this.#hold(files);
    await this.#run(`INSERT INTO stage BY NAME ${this.#rowsOf(name, held.paths)}`);
  }

  /** Selects rows of the product's files in its current types. */
  #rowsOf(name: ProductName, paths: readonly string[]): string {
    const types = this.#draft.typesOf(name);
    if (areRecords(types)) return recordFilesSql(paths, types);
    return `SELECT ${columnsAs(types)} FROM ${readSql(paths)}`;
  }

  /** Writes the staged rows, each once, as one file per day. */
  async #writeDays(name: ProductName): Promise<readonly TableFile[]> {
    const types = this.#draft.typesOf(name);
    const columns = rowColumns(types);
    const isKeyed = areKeyed(types);
    // Lines are mostly in order, and counting those that are not is far cheaper than sorting.
    const [{ late } = {}] = await this.#rows(`SELECT ${lateCount('stage', columns.id)} AS late`);
    if (Number(late) > 0 || isKeyed) {
      const order = areRecords(types) ? '_time DESC' : newest;
      // Records have numbers, so that no window over whole rows is needed.
      const once = isKeyed
        ? `WHERE _seq IN (SELECT max(_seq) FROM stage GROUP BY ${keySql(types).join()})`
        : `QUALIFY row_number() OVER (PARTITION BY ${columns.id} ORDER BY ${order}) = 1`;
      await this.#run(`CREATE OR REPLACE TEMP TABLE once AS SELECT * FROM stage
        ${once} ORDER BY ${columns.id}`);
      await this.#run('DROP TABLE stage');
      await this.#run('ALTER TABLE once RENAME TO stage');
    }
    const days = await this.#rows(`SELECT count(*) AS rows, ${extentOf(types)} FROM stage
      GROUP BY (epoch_us(${columns.time}) + ${until1970Us}) // ${dayUs} ORDER BY "firstUs"`);
    const made: TableFile[] = [];
    for (let from = 0; from < days.length; from += adoptsAtOnce) {
      const some: Row[] = [];
      for (const row of days.slice(from, from + adoptsAtOnce)) {
        const isDay = isOf(String(row.date), columns.time);
        some.push({ ...row, copy: await this.#copy(`SELECT * FROM stage WHERE ${isDay}`, types) });
      }
      // Some at once, as most of the time is waiting for the disk.
      made.push(...(await allOf(some.map((row) => this.#adopt({ ...name, row })))));
    }
    await this.#run('DROP TABLE stage');
    return made;
  }

  async #copy(sql: string, types: ProductTypes): Promise<string> {
    await mkdir(this.#scratch, { recursive: true });
    const path = join(this.#scratch, `${randomUUID()}.tmp`);
    const width = areRecords(types) && `SELECT avg(${widthSql(types)}) AS bytes FROM (${sql})`;
    const [row] = width ? await this.#rows(width) : [];
    await this.#run(copySql(sql, path, row && Number(row.bytes)));
    return path;
  }

  async #adopt(of: ProductName & { readonly row: Row }): Promise<TableFile> {
    const { exchange, product, row } = of;
    const copy = String(row.copy);
    const sha256 = await hashOf(copy, this.#signal);
    const bytes = (await stat(copy)).size;
    const rows = Number(row.rows);
    const firstId = Number(row.firstId);
    const lastId = Number(row.lastId);
    const firstUs = Number(row.firstUs);
    const lastUs = Number(row.lastUs);
    const date = String(row.date);
    const path = dataPath(dayFolder(exchange, product, date), this.#draft.version, sha256);
    await this.#folder.adopt(copy, `${path}.new`, this.#signal);
    const keys =
      typeof row.firstKey === 'string' && typeof row.lastKey === 'string'
        ? { firstKey: row.firstKey, lastKey: row.lastKey }
        : {};
    const ids = { rows, firstId, lastId };
    return { path, exchange, product, date, ...ids, firstUs, lastUs, bytes, sha256, ...keys };
  }

  async #hold(files: readonly TableFile[]): Promise<HeldFiles> {
    return await holdAll(
      this.#folder,
      files.map(({ path }) => path),
      this.#signal,
    );
  }

  async #run(sql: string): Promise<void> {
    await this.#engine.run(sql, this.#signal);
  }

  async #rows(sql: string): Promise<readonly Row[]> {
    return await this.#engine.rows(sql, this.#signal);
  }
}

/** Like `Promise.all`, but waits for all to end before it rejects. */
async function allOf<T>(work: readonly Promise<T>[]): Promise<readonly T[]> {
  await Promise.allSettled(work);
  return await Promise.all(work);
}

/** Returns the first entries to merge at once: not too many, and no table file between them. */
function pieceOf(entries: readonly RawEntry[], files: readonly TableFile[]): readonly RawEntry[] {
  let trades = 0;
  let bytes = 0;
  let end = -1;
  const stop = entries.findIndex((entry, at) => {
    const { firstId, lastId } = entry;
    const isApart = files.some((file) => file.firstId > end && file.lastId < firstId);
    const isFull = trades + entry.trades > pieceTrades || bytes + entry.bytes > recordPieceBytes;
    if (at > 0 && (isApart || isFull)) return true;
    trades += entry.trades;
    bytes += entry.bytes;
    end = Math.max(end, lastId);
    return false;
  });
  return stop === -1 ? entries : entries.slice(0, stop);
}

/** Selects the figures of a file that the manifest keeps. */
function extentOf(types: ProductTypes): string {
  const extent = extentSql(rowColumns(types));
  return areKeyed(types) ? `${extent}, ${keyExtentSql(types)}` : extent;
}

/** Reads files of the table, without the columns that are in their paths. */
function readSql(paths: readonly string[]): string {
  return `read_parquet([${paths.map(quoted).join()}], hive_partitioning = false)`;
}

function highestId(piece: readonly RawEntry[]): number {
  return piece.reduce((most, { lastId }) => Math.max(most, lastId), 0);
}

function rowsOf(files: readonly TableFile[]): number {
  return files.reduce((sum, { rows }) => sum + rows, 0);
}
