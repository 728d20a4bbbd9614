import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, extname, resolve } from 'node:path';
import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import { engineError, quoted } from '../table/engine.ts';
import { named } from '../table/records.ts';
import { viewName } from '../table/view.ts';
import {
  checkTimes,
  counted,
  examplesOf,
  harvestedOf,
  integerFrom1,
  nothingIn,
  openFor,
  StopRequest,
  table,
  timeOption,
  withSettings,
} from './command-line.ts';
import { tellWork } from './progress.ts';

interface QueryCommandOptions {
  readonly rowsMax: number;
  readonly json?: boolean;
}

/** `ingest query`: SQL on the table. */
export function queryCommand(): Command {
  const command = new Command('query')
    .description('ask the table with SQL: trades, and ohlcv(product, step); nothing can be changed')
    .argument('<sql>')
    .option('--rows-max <number>', 'rows after which the rest is left out', integerFrom1, 1_000)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examplesOf(
        'query "SELECT product, count(*) AS trades FROM trades GROUP BY product"',
        'query --json "SELECT * FROM trades ORDER BY trade_ts DESC LIMIT 5"',
        `query "SELECT * FROM ohlcv('BTC-USD', '1h')"`,
      ),
    )
    .action(async (sql: string, { json, ...options }: QueryCommandOptions, self: Command) => {
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal, readsOnly: true });
      const trades = await ingest.table();
      const result = await trades.query(sql, { ...options, signal: stop.signal });
      if (trades.manifest.version === 0) throw new UsageError(nothingIn(ingest));
      print(result, json, () => {
        const rest = result.cut ? `\n(more than ${options.rowsMax} rows; see --rows-max)` : '';
        return `${table(result.rows, '(no rows)')}${rest}`;
      });
    });
  return withSettings(command, ['s3Bucket']);
}

/** `ingest files`: the Parquet files that make up the table now. */
export function filesCommand(): Command {
  const command = new Command('files')
    .description('list the Parquet files of the table; nothing else is in its folder')
    .argument('[products...]', 'default: all')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('files', 'files BTC-USD --json'))
    .action(async (named: string[], { json }: { readonly json?: boolean }, self: Command) => {
      await using ingest = await openFor(self, { readsOnly: true });
      const { place } = ingest.folder;
      const { files } = (await ingest.table()).manifest;
      const known = files.map(({ product }) => product);
      const wanted = new Set(harvestedOf(named, known));
      const rows = files
        .filter(({ product }) => wanted.has(product))
        .map(({ path, ...file }) => ({ ...file, path: `${place}/${path}` }));
      const shown = rows.map(({ product, date, rows, bytes, path }) => {
        return { product, date, trades: rows, bytes, path };
      });
      print(rows, json, () => table(shown, 'The table has no files yet; see ingest run.'));
    });
  return withSettings(command, ['s3Bucket']);
}

interface IcebergOptions {
  readonly location?: string;
  readonly json?: boolean;
}

/** `ingest iceberg`: metadata of Apache Iceberg beside the table. */
export function icebergCommand(): Command {
  const command = new Command('iceberg')
    .description('write Apache Iceberg metadata for the table, now and after each change of it')
    .option('--location <url>', 'where others find the folder (default file://… or s3://…)')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('iceberg', 'iceberg --location s3a://trades/prod'))
    .action(async ({ location, json }: IcebergOptions, self: Command) => {
      if (location !== undefined && !/^[\w+.-]+:\/\/.*[^/]$/.test(location)) {
        const rule = 'an address like s3a://trades, without a slash at its end';
        throw new UsageError(`--location: must be ${rule}, got ${location}`);
      }
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal });
      const rows = await (await ingest.transformer()).iceberg(location, stop.signal);
      if (rows.length === 0) throw new UsageError(nothingIn(ingest));
      print(rows, json, () => table(rows, ''));
    });
  return withSettings(command, ['s3Bucket']);
}

interface ExportOptions {
  readonly since?: bigint;
  readonly until?: bigint;
  readonly force?: boolean;
  readonly json?: boolean;
}

const formats: Readonly<Record<string, string>> = {
  '.parquet': 'FORMAT parquet, COMPRESSION zstd',
  '.csv': 'FORMAT csv, HEADER',
  '.arrow': '',
  '.duckdb': '',
};

/** `ingest export`: the trades as one file for another program. */
export function exportCommand(): Command {
  const command = new Command('export')
    .description('write trades to one file: .parquet, .csv, .arrow or .duckdb, by its name')
    .argument('<file>')
    .argument('[products...]', 'default: all')
    .addOption(timeOption('--since <time>', 'only trades from then on'))
    .addOption(timeOption('--until <time>', 'only trades before'))
    .option('--force', 'replace a file that is there')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examplesOf('export btc.csv BTC-USD --since 2026-01-01', 'export all.duckdb --force'),
    )
    .action(exportTrades);
  return withSettings(command, ['s3Bucket']);
}

async function exportTrades(
  file: string,
  products: readonly string[],
  { since, until, force = false, json }: ExportOptions,
  self: Command,
): Promise<void> {
  checkTimes({ since, until });
  const path = resolve(file);
  const format = formats[extname(path)];
  if (format === undefined) {
    throw new UsageError(`${file}: must end in ${Object.keys(formats).join(', ')}`);
  }
  if (!force && existsSync(path)) throw new UsageError(`${path} is there; --force replaces it`);
  using stop = new StopRequest();
  await using ingest = await openFor(self, { signal: stop.signal, readsOnly: true });
  await using view = await (await ingest.table()).view(stop.signal);
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
  }[extname(path)] ?? [`COPY (${select}) TO ${quoted(unfinished)} (${format})`];
  await mkdir(dirname(path), { recursive: true });
  try {
    using _told = tellWork(`Writing ${path} …`);
    for (const sql of statements) await view.engine.run(sql, stop.signal);
    if (extname(path) === '.arrow') {
      const { writeArrow } = await import('../table/arrow.ts');
      await writeArrow(view.engine, select, unfinished, stop.signal);
    }
    await rename(unfinished, path);
  } catch (error) {
    // DuckDB writes its log beside a file that is still open, also after that was deleted.
    await view.engine.run('DETACH DATABASE IF EXISTS exported').catch(() => {});
    throw engineError('TABLE_FAILED', path, error);
  } finally {
    await rm(unfinished, { force: true });
    await rm(`${unfinished}.wal`, { force: true });
  }
  const [{ rows } = {}] = await view.engine.rows(
    `SELECT count(*) AS rows FROM (${select})`,
    stop.signal,
  );
  const count = Number(rows);
  const done = { path, [isSource ? 'records' : 'trades']: count };
  print(done, json, () => {
    return `${counted(count, isSource ? 'record' : 'trade')} written to ${path}.`;
  });
}
