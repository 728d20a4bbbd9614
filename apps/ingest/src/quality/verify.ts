import { idOf } from '../connectors/connector.ts';
import type { IdRange } from '../connectors/page.ts';
import { holdAll } from '../files/folder.ts';
import { hashOf, type RawEntry, rawFilesOf } from '../files/raw-file.ts';
import { type AcceptedGap, type FeedProof, ProductLedger } from '../harvest/ledger.ts';
import type { Ingest } from '../open.ts';
import { lateCount, quoted, type Row, usualTypes } from '../table/engine.ts';
import {
  areKeyed,
  keyOf,
  type MergedProduct,
  noManifest,
  type ProductName,
  type ProductTypes,
  rowColumns,
  type Strays,
  type TableFile,
} from '../table/manifest.ts';
import { keySql, newestSql, type RecordTypes, recordFilesSql } from '../table/records.ts';
import type { TradeTable } from '../table/trade-table.ts';
import type { TableView } from '../table/view.ts';

/** Reads the ledgers of all products of all exchanges, as the table has them all. */
export async function expectedProducts(
  { store }: Pick<Ingest, 'store'>,
  signal: AbortSignal,
): Promise<readonly ExpectedProduct[]> {
  const ledgers: ExpectedProduct[] = [];
  for (const exchange of await ProductLedger.exchanges(store, signal)) {
    const ledger = new ProductLedger(store, exchange);
    for (const product of await ledger.products(signal)) {
      const of = await ledger.current(product, signal);
      const checkpoint = await ledger.checkpoint(of, signal);
      if (checkpoint === undefined) continue;
      const { begin, harvest, accepted: taken = [], feed } = checkpoint;
      const entries = await ledger.entries(of, { signal });
      // Ids of trades that are read by moment have natural holes.
      const hasDenseIds = typeof harvest.position === 'number' || harvest.position.by !== undefined;
      const harvested = rangeOf({ from: begin, to: harvest.position });
      const gaps = harvest.gaps.map(rangeOf);
      const accepted = taken.map(rangeOf);
      ledgers.push({ ...of, entries, harvested, gaps, accepted, feed, hasDenseIds });
    }
  }
  return ledgers;
}

function rangeOf({ from, to }: AcceptedGap): IdRange {
  return { from: idOf(from), to: idOf(to) };
}

/** Checkpoint and ledger of one product, with which the table has to agree. */
export interface ExpectedProduct extends ProductName {
  readonly generation: number;
  /** All raw files of the generation, by commit. */
  readonly entries: readonly RawEntry[];
  /** The harvested ids: each is in the raw files, or in `gaps`. */
  readonly harvested: IdRange;
  /** Ids known to be missing. */
  readonly gaps: readonly IdRange[];
  /** Ids accepted as missing. @default none */
  readonly accepted?: readonly IdRange[] | undefined;
  /** Trades that came by a feed. @default none */
  readonly feed?: FeedProof | undefined;
  /** True if ids have no holes, so that an absent id is missing. @default true */
  readonly hasDenseIds?: boolean | undefined;
}

/** Kinds of issues; a `known-gap` is one that the ledger has. */
export type Flaw =
  | 'contradicted'
  | 'count'
  | 'duplicate'
  | 'file'
  | 'foreign'
  | 'gap'
  | 'known-gap'
  | 'order'
  | 'raw';

/** An issue: something that is not as it should be. */
export interface Issue {
  readonly flaw: Flaw;
  readonly exchange: string;
  readonly product: string;
  /** The affected file, if it is one. */
  readonly file?: string | undefined;
  /** The affected ids, if there are any. */
  readonly ids?: IdRange | undefined;
  readonly message: string;
}

export interface Verification {
  /** The verified version of the table. */
  readonly version: number;
  readonly products: number;
  readonly rawFiles: number;
  /** Raw files that no ledger names: crashes left them, or they are being written. */
  readonly orphans: number;
  /** Raw files that are not in the table yet, as during a harvest. */
  readonly waiting: number;
  /** Trades of a feed that are not compared with the REST API yet. */
  readonly uncompared: number;
  readonly tableFiles: number;
  readonly trades: number;
  /** The first 1,000 issues; empty if nothing is wrong. */
  readonly issues: readonly Issue[];
  /** Number of all issues. */
  readonly issuesFound: number;
}

const issuesMax = 1_000;
/** Holes that are reported one by one; further ones are only counted. */
const holesMax = 10_000;

/**
 * Compares every byte of the raw files with the ledger, and the table with both. A function is
 * called after the table was opened, so that ledgers that change have all that the table has.
 */
export async function verify(
  table: TradeTable,
  expected: readonly ExpectedProduct[] | (() => Promise<readonly ExpectedProduct[]>),
  signal?: AbortSignal,
): Promise<Verification> {
  await using view = await table.view(signal);
  const ledgers = typeof expected === 'function' ? await expected() : expected;
  const check = new Check(table, view, signal);
  const strays = await table.strays(signal);
  for (const ledger of ledgers) await check.product(ledger);
  const known = new Set(ledgers.map(keyOf));
  for (const left of view.manifest.products.filter((one) => !known.has(keyOf(one)))) {
    check.note('count', left, 'it is in the table, and the ledger does not know it');
  }
  await check.foreign(strays);
  const { products, files } = view.manifest;
  return {
    version: view.manifest.version,
    products: ledgers.length,
    rawFiles: ledgers.reduce((sum, { entries }) => sum + entries.length, 0),
    orphans: check.orphans,
    waiting: check.waiting,
    uncompared: ledgers.reduce((sum, { feed }) => sum + (feed ? feed.to - feed.from : 0), 0),
    tableFiles: files.length,
    trades: products.reduce((sum, { rows }) => sum + rows, 0),
    issues: check.issues,
    issuesFound: check.found,
  };
}

class Check {
  readonly issues: Issue[] = [];
  found = 0;
  orphans = 0;
  waiting = 0;
  readonly #table: TradeTable;
  readonly #view: TableView;
  readonly #signal: AbortSignal | undefined;
  /** Paths of the files of the manifest on this machine. */
  readonly #local: ReadonlyMap<string, string>;

  constructor(table: TradeTable, view: TableView, signal: AbortSignal | undefined) {
    this.#table = table;
    this.#view = view;
    this.#signal = signal;
    const paths = view.manifest.files.map(({ path }, at) => [path, view.paths[at] as string]);
    this.#local = new Map(paths as [string, string][]);
  }

  note(flaw: Flaw, of: ProductName, message: string, where: Partial<Issue> = {}): void {
    this.found += 1;
    if (this.issues.length >= issuesMax) return;
    const { exchange, product } = of;
    this.issues.push({ flaw, exchange, product, ...where, message });
  }

  async foreign(before: Strays): Promise<void> {
    // Files of a change in progress are gone, or part of the table, by now.
    const now = await this.#table.strays(this.#signal);
    const unfinished = 'a change was not finished; ingest transform completes it';
    const note = (kind: keyof Strays, message: string): void => {
      for (const file of before[kind].filter((path) => now[kind].includes(path))) {
        const isHidden = kind === 'left' && !file.endsWith('.parquet');
        if (!isHidden) this.note('foreign', { exchange: '', product: '' }, message, { file });
      }
    };
    note('foreign', 'this file is not of the table');
    note('later', noManifest);
    for (const kind of ['waiting', 'left'] as const) note(kind, unfinished);
  }

  async product(ledger: ExpectedProduct): Promise<void> {
    for (const entry of ledger.entries) await this.#raw(entry);
    const { contradicted = 0, contradiction } = ledger.feed ?? {};
    if (contradicted > 0) {
      const others = contradicted > 1 ? ` (and ${contradicted - 1} more)` : '';
      this.note('contradicted', ledger, `${contradiction}${others}; run it with --full-refresh`);
    }
    const named = new Set(ledger.entries.map(({ file }) => file));
    const there = await rawFilesOf(this.#table.folder, ledger, this.#signal);
    this.orphans += there.filter(({ path }) => !named.has(path)).length;
    const { files, products } = this.#view.manifest;
    const key = keyOf(ledger);
    const ofProduct = files.filter((file) => keyOf(file) === key);
    for (const file of ofProduct) await this.#file(file);
    const merged = products.find((one) => keyOf(one) === key);
    const part = this.#merged(ledger, merged);
    if (part === undefined) return;
    const types = this.#typesOf(ledger);
    if (areKeyed(types)) await this.#records(part, ofProduct, types);
    else await this.#ids(part, ofProduct);
  }

  /** Checks that each key of the raw files is there once, as it came last, without a hole. */
  async #records(
    ledger: ExpectedProduct,
    files: readonly TableFile[],
    types: RecordTypes,
  ): Promise<void> {
    const { entries, harvested } = ledger;
    let next = harvested.from;
    const byId = entries.toSorted((a, b) => a.firstId - b.firstId);
    for (const { firstId, lastId, trades } of [...byId, end(harvested)]) {
      if (firstId !== next) this.#gap(ledger, { from: next, to: firstId });
      if (lastId - firstId + 1 !== trades) {
        this.note('count', ledger, `${trades} records from ${firstId} to ${lastId}`);
      }
      next = lastId + 1;
    }
    if (entries.length === 0 || files.length === 0) return;
    await using held = await holdAll(
      this.#table.folder,
      entries.map(({ file }) => file),
      this.#signal,
    );
    // A second thread needs as much memory again for long records.
    await this.#view.engine.run('SET threads = 1', this.#signal);
    const key = keySql(types).join();
    const local = files.map(({ path }) => this.#local.get(path) as string);
    const table = `SELECT ${key}, _seq FROM (${recordFilesSql(local, types)})`;
    const raw = newestSql(held.paths, types);
    const differ = async (one: string, other: string): Promise<Row> => {
      const sql = `SELECT count(*) AS n, min(_seq) AS first FROM (${one} EXCEPT ALL ${other})`;
      return (await this.#rows(sql))[0] ?? {};
    };
    const missing = await differ(raw, table);
    if (Number(missing.n) > 0) {
      const first = `first number ${missing.first}`;
      this.note('count', ledger, `${missing.n} records are not in the table, ${first}`);
    }
    const extra = await differ(table, raw);
    if (Number(extra.n) === 0) return;
    const message = `${extra.n} records are there twice or out of date, first ${extra.first}`;
    this.note('duplicate', ledger, message);
  }

  #typesOf(of: ProductName): ProductTypes {
    const { products } = this.#view.manifest;
    return products.find((one) => keyOf(one) === keyOf(of))?.types ?? usualTypes;
  }

  async #raw(entry: RawEntry): Promise<void> {
    const { file, sha256 } = entry;
    try {
      await using held = await this.#table.folder.hold(file, this.#signal);
      const actual = await hashOf(held.path, this.#signal);
      if (actual !== sha256) {
        this.note('raw', entry, `its sha256 is ${actual}, the ledger has ${sha256}`, { file });
      }
    } catch (error) {
      this.#signal?.throwIfAborted();
      this.note('raw', entry, error instanceof Error ? error.message : String(error), { file });
    }
  }

  async #file(file: TableFile): Promise<void> {
    const local = this.#local.get(file.path) as string;
    const { id } = rowColumns(this.#typesOf(file));
    const where = { file: file.path };
    const actual = await hashOf(local, this.#signal);
    if (actual !== file.sha256) {
      const message = `its sha256 is ${actual}, the manifest has ${file.sha256}`;
      return this.note('file', file, message, where);
    }
    const source = `read_parquet(${quoted(local)})`;
    const [row = {}] = await this.#rows(`SELECT count(*) AS rows, min(${id}) AS first,
      max(${id}) AS last, ${lateCount(source, id)} AS late FROM ${source}`);
    if (Number(row.late) > 0) this.note('order', file, `${row.late} out of order`, where);
    const isAsSaid =
      Number(row.rows) === file.rows &&
      Number(row.first) === file.firstId &&
      Number(row.last) === file.lastId;
    if (isAsSaid) return;
    const message = `${row.rows} trades from ${row.first} to ${row.last}`;
    this.note('count', file, `${message}, not ${file.rows} as the manifest has`, where);
  }

  /** Returns the part of the ledger that the table must have; undefined if that is unknown. */
  #merged(ledger: ExpectedProduct, merged: MergedProduct | undefined): ExpectedProduct | undefined {
    const { generation, harvested } = ledger;
    const isOther = merged !== undefined && merged.generation !== generation;
    const mergedTo = isOther ? 0 : (merged?.mergedTo ?? 0);
    const entries = ledger.entries.filter(({ commit }) => commit <= mergedTo);
    const waiting = ledger.entries.filter(({ commit }) => commit > mergedTo);
    this.waiting += waiting.length;
    if (isOther) return undefined;
    const trades = entries.reduce((sum, entry) => sum + entry.trades, 0);
    if (merged !== undefined && merged.read !== trades) {
      const message = `${merged.read} trades were read, the ledger has ${trades}`;
      this.note('count', ledger, message);
    }
    if (waiting.length === 0) return ledger;
    const to = waiting.reduce((least, { from }) => Math.min(least, from), Infinity);
    // Waiting files that fill gaps between those of the table make the check impossible.
    const isBehind = entries.every(({ lastId }) => lastId < to);
    return isBehind ? { ...ledger, entries, harvested: { ...harvested, to } } : undefined;
  }

  async #ids(ledger: ExpectedProduct, files: readonly TableFile[]): Promise<void> {
    const { from, to } = ledger.harvested;
    if (files.length === 0) {
      if (from < to) this.#missing(ledger, { from, to });
      return;
    }
    const list = files.map(({ path }) => quoted(this.#local.get(path) as string)).join();
    const { id } = rowColumns(this.#typesOf(ledger));
    const union = id === 'trade_id' ? '' : ', union_by_name = true';
    await this.#orderIds(`read_parquet([${list}]${union})`, id);
    const [row = {}] = await this.#rows(`SELECT max(id) AS last, count(*) FILTER (id = before)
      AS repeats, min(id) FILTER (id = before) AS repeated,
      count(*) FILTER (id > greatest(before, ${from - 1}) + 1) AS holes FROM steps`);
    if (Number(row.repeats) > 0) {
      const message = `${row.repeats} trades are there twice, first ${row.repeated}`;
      this.note('duplicate', ledger, message);
    }
    const outside = files.filter(({ firstId, lastId }) => {
      return lastId >= to || (firstId < from && ledger.hasDenseIds !== false);
    });
    for (const { path: file, firstId, lastId } of outside) {
      const message = `${firstId} to ${lastId} go beyond what was harvested, ${from} to ${to}`;
      this.note('count', ledger, message, { file });
    }
    const holes = await this.#rows(`SELECT greatest(before, ${from - 1}) + 1 AS "from", id AS "to"
      FROM steps WHERE id > greatest(before, ${from - 1}) + 1 LIMIT ${holesMax}`);
    for (const hole of holes) {
      this.#missing(ledger, { from: Number(hole.from), to: Number(hole.to) });
    }
    this.found += Number(row.holes) - holes.length;
    if (Number(row.last) + 1 < to) this.#missing(ledger, { from: Number(row.last) + 1, to });
  }

  /** Creates a view of each id with the one before. Sorting takes disk space, and is rare. */
  async #orderIds(source: string, id: string): Promise<void> {
    const { engine } = this.#view;
    const [{ late } = {}] = await this.#rows(`SELECT ${lateCount(source, id)} AS late`);
    const isSorted = Number(late) === 0;
    const sorted = `CREATE OR REPLACE TEMP TABLE ids AS
      SELECT ${id} FROM ${source} ORDER BY ${id}`;
    if (!isSorted) await engine.run(sorted, this.#signal);
    const step = `lag(${id}, 1, ${-(2 ** 53)}) OVER () AS before, ${id} AS id`;
    await engine.run(
      `CREATE OR REPLACE TEMP VIEW steps AS SELECT ${step} FROM ${isSorted ? source : 'ids'}`,
      this.#signal,
    );
  }

  /** Reports missing ids, and distinguishes gaps of the ledger. */
  #missing(ledger: ExpectedProduct, hole: IdRange): void {
    let { from } = hole;
    const { gaps, accepted = [] } = ledger;
    for (const gap of [...gaps, ...accepted].sort((a, b) => a.from - b.from)) {
      const known = { from: Math.max(from, gap.from), to: Math.min(hole.to, gap.to) };
      if (known.from >= known.to) continue;
      const before = { from, to: known.from };
      if (from < known.from) this.#gap(ledger, before);
      if (!accepted.includes(gap)) {
        this.note('known-gap', ledger, `still to be filled: ${said(known)}`, { ids: known });
      }
      from = known.to;
    }
    if (from < hole.to) this.#gap(ledger, { from, to: hole.to });
  }

  #gap(ledger: ExpectedProduct, ids: IdRange): void {
    if (ledger.hasDenseIds === false) return;
    this.note('gap', ledger, `missing: ${said(ids)}`, { ids });
  }

  async #rows(sql: string): Promise<readonly Row[]> {
    return await this.#view.engine.rows(sql, this.#signal);
  }
}

/** Makes an empty entry at the end of a harvest. */
function end({ to }: IdRange): Pick<RawEntry, 'firstId' | 'lastId' | 'trades'> {
  return { firstId: to, lastId: to - 1, trades: 0 };
}

function said({ from, to }: IdRange): string {
  return to - from === 1 ? `trade ${from}` : `${to - from} trades, ${from} to ${to - 1}`;
}
