import { Gate } from 'spillway';
import { check, checkInteger } from 'spillway/internal';
import { ingestError } from '../errors.ts';
import type { Folder } from '../files/folder.ts';
import type { RawEntry } from '../files/raw-file.ts';
import { Engine, type EngineOptions, engineError } from './engine.ts';
import {
  areKeyed,
  areRecords,
  emptyManifest,
  keyOf,
  type Manifest,
  ManifestChain,
  type Strays,
  TableDraft,
  type TableFile,
} from './manifest.ts';
import { type Lines, Merge, recordPieceBytes } from './merge.ts';
import { type QueryOptions, type QueryResult, runQuery, TableView } from './view.ts';

export interface TradeTableOptions {
  readonly folder: Folder;
  /** Rules for making rows of raw lines, by the name of exchange or source. */
  readonly lines: Readonly<Record<string, Lines>>;
  /** Memory limit of DuckDB for work that fails with less, in MB, from 64. @default 1_024 */
  readonly memoryMbMax?: number | undefined;
}

/** Usual memory limit of DuckDB in MB, and its number of threads. */
const memoryMb = 96;
const threads = 1;

/** The part of a `Lease` that a change of the table needs. */
export interface TableFence {
  readonly fence: number;
  readonly signal: AbortSignal;
}

export interface Merged {
  /** The version afterwards; unchanged if there was nothing to do. */
  readonly version: number;
  /** Raw files that were new. */
  readonly files: number;
  /** Lines read from them. */
  readonly read: number;
  /** Increase of the table's rows. */
  readonly added: number;
  /** Number of written days, for each product. */
  readonly partitions: number;
  /** Descriptions of changed column types. */
  readonly changes: readonly string[];
}

/**
 * The table: Parquet files by exchange, product and day, and a manifest that names them. A change
 * writes new files, then one manifest, so that readers see the state before it or after it.
 */
export class TradeTable implements AsyncDisposable {
  readonly folder: Folder;
  readonly #lines: Readonly<Record<string, Lines>>;
  readonly #engine: EngineOptions & { readonly memoryMbMax: number };
  readonly #chain: ManifestChain;
  readonly #writing = new Gate({ limit: 1, queueMax: 16 });
  readonly #reading = new Gate({ limit: 2, queueMax: 16 });
  #manifest: Manifest = emptyManifest;

  private constructor(options: TradeTableOptions) {
    const { folder, lines, memoryMbMax = 1_024 } = options;
    checkInteger('memoryMbMax', memoryMbMax, 64);
    this.folder = folder;
    this.#lines = lines;
    this.#engine = { memoryMb, memoryMbMax, threads, scratch: folder.scratch };
    this.#chain = new ManifestChain(folder);
  }

  /** Opens a table; rejects with `TABLE_CORRUPT` or `TABLE_FUTURE` if it cannot be read. */
  static async open(options: TradeTableOptions, signal?: AbortSignal): Promise<TradeTable> {
    const table = new TradeTable(options);
    await table.refresh(signal);
    return table;
  }

  /** The newest state that was read or written here. */
  get manifest(): Manifest {
    return this.#manifest;
  }

  /** Reads the newest state, which may be of another process. */
  async refresh(signal?: AbortSignal): Promise<Manifest> {
    const found = await this.#chain.load(signal);
    if (found.version >= this.#manifest.version) this.#manifest = found;
    return this.#manifest;
  }

  /**
   * Adds new entries in one atomic change; entries that the table has already are skipped. A newer
   * generation of a product replaces the older one, and needs all of its entries.
   */
  async merge(entries: readonly RawEntry[], fence: TableFence): Promise<Merged> {
    return await this.#mergeInto(entries, fence, false);
  }

  /** Rebuilds the products of these entries from these entries alone. */
  async rebuild(entries: readonly RawEntry[], fence: TableFence): Promise<Merged> {
    return await this.#mergeInto(entries, fence, true);
  }

  /**
   * Joins the files of each day. With `filesMin`, joins only as many neighbours of similar size, so
   * that a trade is rewritten a few times only. Returns the decrease in the number of files.
   */
  async compact(fence: TableFence, filesMin = 0): Promise<number> {
    using _turn = await this.#writing.enter(fence);
    const draft = await this.#begin(fence);
    const groups = [...Map.groupBy(draft.before.files, ({ date, ...of }) => `${keyOf(of)} ${date}`)]
      .flatMap(([, files]) => {
        const types = draft.typesOf(files[0] as TableFile);
        const rowsMax = areKeyed(types) ? keyedRows : joinedRows;
        const bytesMax = areRecords(types) ? recordPieceBytes : Infinity;
        return joinable(files, filesMin, { rowsMax, bytesMax });
      })
      .filter((files) => files.length >= Math.max(2, filesMin));
    if (groups.length === 0) return 0;
    await this.#write(draft, fence, async (merge) => {
      for (const files of groups) await merge.join(files[0] as TableFile, files);
    });
    return draft.before.files.length - this.#manifest.files.length;
  }

  /** Runs one SELECT on the table's views; refuses other statements and access to other files. */
  async query(sql: string, options: QueryOptions = {}): Promise<QueryResult> {
    const { rowsMax = 10_000, signal } = options;
    checkInteger('rowsMax', rowsMax, 1);
    const { memoryMb, memoryMbMax } = this.#engine;
    for (let most = memoryMb; ; most = Math.min(memoryMbMax, most * 2)) {
      try {
        await using view = await this.view(signal, undefined, most);
        await view.lock();
        return await runQuery(view, sql, rowsMax, signal);
      } catch (error) {
        if (Object(error).code !== 'MEMORY_SHORT' || most >= memoryMbMax) throw error;
      }
    }
  }

  /**
   * Opens the newest state for our own SQL, without restrictions; at most two at a time. `pick`
   * selects the files that are needed, `memoryMb` overrides the usual limit.
   */
  async view(
    signal?: AbortSignal,
    pick: (state: Manifest) => readonly TableFile[] = ({ files }) => files,
    memoryMb: number = this.#engine.memoryMb,
  ): Promise<TableView> {
    const turn = await this.#reading.enter({ signal });
    try {
      // A change may delete a file between the two steps, but not many times in a row.
      for (let looks = 1; ; looks += 1) {
        const manifest = await this.refresh(signal);
        try {
          const state = { manifest, files: pick(manifest) };
          const options = { ...this.#engine, memoryMb };
          return await TableView.open(this.folder, state, options, turn, signal);
        } catch (error) {
          if (Object(error).code !== 'FOLDER_MISSING' || looks === 5) throw error;
        }
      }
    } catch (error) {
      turn[Symbol.dispose]();
      throw error;
    }
  }

  /** Lists files in the table's folder that do not belong to its newest state. */
  async strays(signal?: AbortSignal): Promise<Strays> {
    // Files of a state made between the two steps are no strays.
    for (let looks = 1; ; looks += 1) {
      const state = await this.refresh(signal);
      const strays = await this.#chain.strays(state, signal);
      if (looks === 5 || (await this.refresh(signal)).version === state.version) return strays;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Waits for a change in progress; readers close their own engines.
    using _writing = await this.#writing.enter();
  }

  async #mergeInto(
    entries: readonly RawEntry[],
    fence: TableFence,
    anew: boolean,
  ): Promise<Merged> {
    using _turn = await this.#writing.enter(fence);
    const draft = await this.#begin(fence);
    const rowsBefore = rowCount(draft.before);
    const parts = [...Map.groupBy(entries, keyOf).values()]
      .map((ofProduct) => this.#news(draft, ofProduct, anew))
      .filter((news) => news.length > 0);
    const all = parts.flat();
    const read = all.reduce((sum, { trades }) => sum + trades, 0);
    if (all.length > 0) {
      await this.#write(draft, fence, async (merge) => {
        for (const news of parts) {
          const name = news[0] as RawEntry;
          await merge.add(name, news, this.#lines[name.exchange] as Lines);
        }
      });
    }
    const { version } = this.#manifest;
    const added = all.length === 0 ? 0 : rowCount(this.#manifest) - rowsBefore;
    const { written, changes } = draft;
    return { version, files: all.length, read, added, partitions: written.size, changes };
  }

  /** Selects the entries of one product to read; drops from the draft what they replace. */
  #news(draft: TableDraft, entries: readonly RawEntry[], anew: boolean): readonly RawEntry[] {
    const name = entries[0] as RawEntry;
    check(name.exchange in this.#lines, 'lines', `given for ${name.exchange}`, this.#lines);
    const { generation = 0, mergedTo = 0 } = draft.product(name) ?? {};
    const newest = entries.reduce((most, one) => Math.max(most, one.generation), 0);
    const ofNewest = entries.filter((entry) => entry.generation === newest);
    if (anew || newest > generation) {
      draft.drop(name);
      return ofNewest;
    }
    return newest < generation ? [] : ofNewest.filter(({ commit }) => commit > mergedTo);
  }

  async #begin({ fence, signal }: TableFence): Promise<TableDraft> {
    checkInteger('fence', fence, 0);
    await this.refresh(signal);
    const { fence: newest, version } = this.#manifest;
    if (fence < newest) {
      const what = `${this.folder.place}/table: version ${version} was made under lease ${newest}`;
      const remedy = 'if an older store was put back, move "table" away, then "ingest transform"';
      throw ingestError(
        'TABLE_STALE',
        `${what}; ${fence} is older, and changes nothing; ${remedy}`,
      );
    }
    await this.#chain.recover(this.#manifest, signal);
    return new TableDraft(this.#manifest);
  }

  async #write(
    draft: TableDraft,
    fence: TableFence,
    work: (merge: Merge) => Promise<void>,
  ): Promise<void> {
    const { signal } = fence;
    await using engine = await Engine.open(this.#engine);
    try {
      await using merge = new Merge(engine, this.folder, draft, signal);
      await work(merge);
    } catch (error) {
      throw engineError('TABLE_FAILED', `${this.folder.place}/table`, error);
    }
    signal.throwIfAborted();
    this.#manifest = await this.#chain.commit(draft.before, draft.finish(fence.fence));
  }
}

/** Largest number of rows of a joined file. */
const joinedRows = 4_000_000;
/** The same for records with a key, since a change rewrites the whole file. */
const keyedRows = 250_000;
/** Rows from which on a file is of the next tier; files of one tier are joined. */
const tiers: readonly number[] = [65_536, 2_000_000];

function tierOf({ rows }: TableFile): number {
  return tiers.filter((most) => rows >= most).length;
}

/** Groups neighbours that fit into one file; only of the same tier if `filesMin` is given. */
function joinable(
  files: readonly TableFile[],
  filesMin: number,
  { rowsMax, bytesMax }: { readonly rowsMax: number; readonly bytesMax: number },
): readonly (readonly TableFile[])[] {
  const groups: TableFile[][] = [];
  let rows = 0;
  let bytes = 0;
  for (const file of files) {
    const last = groups.at(-1)?.[0];
    const isApart = filesMin > 0 && last !== undefined && tierOf(last) !== tierOf(file);
    const isFull = rows + file.rows > rowsMax || bytes + file.bytes > bytesMax;
    if (last === undefined || isApart || isFull) {
      groups.push([]);
      rows = 0;
      bytes = 0;
    }
    groups.at(-1)?.push(file);
    rows += file.rows;
    bytes += file.bytes;
  }
  return groups;
}

function rowCount({ products }: Manifest): number {
  return products.reduce((sum, { rows }) => sum + rows, 0);
}
