import { Engine, type EngineOptions, engineError, quoted } from './engine.ts';
import { type Folder, type HeldFiles, holdAll } from './folder.ts';
import type { Manifest } from './manifest.ts';

/** The trades as a query sees them, in this order. */
const shown = `exchange, product, date, trade_id, trade_id_text, trade_ts, price, quantity,
  maker_side, taker_side`;

/** No rows, with the columns of the table. */
const noTrades = `SELECT '' AS exchange, '' AS product, DATE '1970-01-01' AS date,
  0::BIGINT AS trade_id, '' AS trade_id_text, TIMESTAMPTZ '1970-01-01' AS trade_ts,
  0::DECIMAL(38,18) AS price, 0::DECIMAL(38,18) AS quantity, '' AS maker_side, '' AS taker_side
  WHERE false`;

/** What one state of the table is made of, readable by SQL. */
export class TableView implements AsyncDisposable {
  readonly engine: Engine;
  /** The files of the manifest on this machine, in its order. */
  readonly paths: readonly string[];
  readonly manifest: Manifest;
  readonly #held: HeldFiles;
  readonly #turn: Disposable;

  private constructor(engine: Engine, manifest: Manifest, held: HeldFiles, turn: Disposable) {
    this.engine = engine;
    this.manifest = manifest;
    this.paths = held.paths;
    this.#held = held;
    this.#turn = turn;
  }

  /** Makes the view `trades`; gives back the turn when it is disposed. */
  static async open(
    folder: Folder,
    manifest: Manifest,
    options: EngineOptions,
    turn: Disposable,
    signal?: AbortSignal,
  ): Promise<TableView> {
    const files = manifest.files.map(({ path }) => ({ file: path }));
    const held = await holdAll(folder, files, signal);
    let engine: Engine | undefined;
    try {
      engine = await Engine.open(options);
      const view = new TableView(engine, manifest, held, turn);
      const source = files.length === 0 ? `(${noTrades})` : view.source();
      await engine.run(`CREATE VIEW trades AS SELECT ${shown} FROM ${source}`, signal);
      return view;
    } catch (error) {
      await engine?.[Symbol.asyncDispose]();
      await held[Symbol.asyncDispose]();
      throw engineError('TABLE_FAILED', `${folder.place}/table`, error);
    }
  }

  /** The files as SQL names them; `extra` are further arguments of `read_parquet`. */
  source(extra = ''): string {
    const types = '{exchange: VARCHAR, product: VARCHAR, date: DATE}';
    return `read_parquet([${this.paths.map(quoted).join()}],
      hive_partitioning = true, hive_types = ${types}${extra})`;
  }

  /** From now on nothing but the files of the table can be read, and nothing can be set. */
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
