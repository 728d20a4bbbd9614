import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, extname, resolve } from 'node:path';
import { Command } from 'commander';
import { UsageError } from 'spillway-cli';
import { engineError, quoted } from '../table/engine.ts';
import { named } from '../table/records.ts';
import { viewName } from '../table/view.ts';
import {
  type Call,
  checkTimes,
  counted,
  harvestedOf,
  integerFrom1,
  nothingIn,
  onIngest,
  type Result,
  table,
  timeOption,
} from './command-line.ts';
import { tellWork } from './progress.ts';

/** `ingest query`: SQL on the table. */
export function queryCommand(): Command {
  const command = new Command('query')
    .description('ask the table with SQL: trades, and ohlcv(product, step); nothing can be changed')
    .argument('<sql>')
    .option('--rows-max <number>', 'rows after which the rest is left out', integerFrom1, 1_000);
  return onIngest(command, {
    examples: [
      'query "SELECT product, count(*) AS trades FROM trades GROUP BY product"',
      'query --json "SELECT * FROM trades ORDER BY trade_ts DESC LIMIT 5"',
      `query "SELECT * FROM ohlcv('BTC-USD', '1h')"`,
    ],
    shown: ['s3Bucket'],
    readsOnly: true,
    async run({ ingest, flags, signal }: Call<{ rowsMax: number }>, sql: string) {
      const { rowsMax } = flags;
      const trades = await ingest.table();
      const value = await trades.query(sql, { rowsMax, signal });
      if (trades.manifest.version === 0) throw new UsageError(nothingIn(ingest));
      const rest = value.cut ? `\n(more than ${rowsMax} rows; see --rows-max)` : '';
      return { value, text: () => `${table(value.rows, '(no rows)')}${rest}` };
    },
  });
}

/** `ingest files`: lists the Parquet files of the table. */
export function filesCommand(): Command {
  const command = new Command('files')
    .description('list the Parquet files of the table; nothing else is in its folder')
    .argument('[products...]', 'default: all');
  return onIngest(command, {
    examples: ['files', 'files BTC-USD --json'],
    shown: ['s3Bucket'],
    readsOnly: true,
    async run({ ingest }, named: string[]) {
      const { place } = ingest.folder;
      const { files } = (await ingest.table()).manifest;
      const known = files.map(({ product }) => product);
      const wanted = new Set(harvestedOf(named, known));
      const value = files
        .filter(({ product }) => wanted.has(product))
        .map(({ path, ...file }) => ({ ...file, path: `${place}/${path}` }));
      const shown = value.map(({ product, date, rows, bytes, path }) => {
        return { product, date, trades: rows, bytes, path };
      });
      return { value, text: () => table(shown, 'The table has no files yet; see ingest run.') };
    },
  });
}

/** `ingest iceberg`: metadata of Apache Iceberg beside the table. */
export function icebergCommand(): Command {
  const about = 'where others find the folder (default file://… or s3://…)';
  const command = new Command('iceberg')
    .description('write Apache Iceberg metadata for the table, now and after each change of it')
    .option('--location <url>', about, (text) => {
      if (/^[\w+.-]+:\/\/.*[^/]$/.test(text)) return text;
      const rule = 'an address like s3a://trades, without a slash at its end';
      throw new UsageError(`--location: must be ${rule}, got ${text}`);
    });
  return onIngest(command, {
    examples: ['iceberg', 'iceberg --location s3a://trades/prod'],
    shown: ['s3Bucket'],
    async run({ ingest, flags, signal }: Call<{ location?: string }>) {
      const value = await (await ingest.transformer()).iceberg(flags.location, signal);
      if (value.length === 0) throw new UsageError(nothingIn(ingest));
      return { value, text: () => table(value, '') };
    },
  });
}

const formats: Readonly<Record<string, string>> = {
  '.parquet': 'FORMAT parquet, COMPRESSION zstd',
  '.csv': 'FORMAT csv, HEADER',
  '.arrow': '',
  '.duckdb': '',
};

interface ExportFlags {
  readonly since?: bigint;
  readonly until?: bigint;
  readonly force?: boolean;
}

/** `ingest export`: writes trades to one file for another program. */
export function exportCommand(): Command {
  const command = new Command('export')
    .description('write trades to one file: .parquet, .csv, .arrow or .duckdb, by its name')
    .argument('<file>', 'such as all.parquet; its folder is made')
    .argument('[products...]', 'default: all')
    .addOption(timeOption('--since <time>', 'only trades from then on'))
    .addOption(timeOption('--until <time>', 'only trades before'))
    .option('--force', 'replace a file that is there')
    .hook('preAction', checkExport);
  return onIngest(command, {
    examples: ['export btc.csv BTC-USD --since 2026-01-01', 'export all.duckdb --force'],
    shown: ['s3Bucket'],
    readsOnly: true,
    run: exportTrades,
  });
}

/** Refuses a file of unknown type, and one that exists. */
function checkExport(command: Command): void {
  const { force, ...times } = command.opts<ExportFlags>();
  checkTimes(times);
  const [file = ''] = command.args;
  const path = resolve(file);
  if (!(extname(path) in formats)) {
    throw new UsageError(`${file}: must end in ${Object.keys(formats).join(', ')}`);
  }
  if (!force && existsSync(path)) throw new UsageError(`${path} is there; --force replaces it`);
}

async function exportTrades(
  { ingest, flags, signal }: Call<ExportFlags>,
  file: string,
  products: string[],
): Promise<Result> {
  const { since, until } = flags;
  const path = resolve(file);
  await using view = await (await ingest.table()).view(signal);
  const isSource = 'declared' in ingest.connector.lineSql;
  harvestedOf(
    products,
    view.manifest.products.map(({ product }) => product),
  );
  const name = isSource ? viewName(ingest.connector.name) : 'trades';
  if (isSource && !view.sources.includes(ingest.connector.name)) {
    throw new UsageError(`${ingest.connector.name}: nothing of it is in the table; see ingest run`);
  }
  const time = isSource ? '_time' : 'trade_ts';
  const wanted = [
    products.length > 0 && `product IN (${products.map(quoted).join()})`,
    since !== undefined && `epoch_us(${time}) >= ${since}`,
    until !== undefined && `epoch_us(${time}) < ${until}`,
  ].filter(Boolean);
  const where = wanted.length > 0 ? `WHERE ${wanted.join(' AND ')}` : '';
  const select = `SELECT * FROM ${named(name)} ${where}`;
  const unfinished = `${path}.${process.pid}.tmp`;
  const statements = {
    '.arrow': [],
    '.duckdb': [
      `ATTACH ${quoted(unfinished)} AS exported`,
      `CREATE TABLE exported.${named(name)} AS ${select}`,
      'DETACH exported',
    ],
  }[extname(path)] ?? [`COPY (${select}) TO ${quoted(unfinished)} (${formats[extname(path)]})`];
  await mkdir(dirname(path), { recursive: true });
  try {
    using _told = tellWork(`Writing ${path} …`);
    for (const sql of statements) await view.engine.run(sql, signal);
    if (extname(path) === '.arrow') {
      const { writeArrow } = await import('../table/arrow.ts');
      await writeArrow(view.engine, select, unfinished, signal);
    }
    await rename(unfinished, path);
  } catch (error) {
    // DuckDB would write its log beside a file that is still attached, also after its deletion.
    await view.engine.run('DETACH DATABASE IF EXISTS exported').catch(() => {});
    throw engineError('TABLE_FAILED', path, error);
  } finally {
    await rm(unfinished, { force: true });
    await rm(`${unfinished}.wal`, { force: true });
  }
  const [{ rows } = {}] = await view.engine.rows(
    `SELECT count(*) AS rows FROM (${select})`,
    signal,
  );
  const count = Number(rows);
  const noun = isSource ? 'record' : 'trade';
  const value = { path, [`${noun}s`]: count };
  return { value, text: () => `${counted(count, noun)} written to ${path}.` };
}
