import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import type { FeedProof } from '../harvest/ledger.ts';
import type { Ingest } from '../open.ts';
import type { Verification } from '../quality/verify.ts';
import {
  counted,
  examplesOf,
  exitCodes,
  harvestedOf,
  nothingIn,
  nounOf,
  openFor,
  StopRequest,
  settingsOf,
  table,
  withSettings,
} from './command-line.ts';
import { tellWork } from './progress.ts';

/** `ingest status`: how far each product is, without asking the exchange. */
export function statusCommand(): Command {
  const command = new Command('status')
    .description('show how far each product is, here and in the table; asks no exchange')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('status', 'status --exchange kraken --json'))
    .action(async ({ json }: { readonly json?: boolean }, self: Command) => {
      await using ingest = await openFor(self, { readsOnly: true });
      const { until } = ingest.pause;
      const isPaused = until > ingest.clock.now();
      const paused = isPaused ? { pausedUntil: new Date(until).toISOString() } : {};
      const rows = (await statusOf(ingest)).map((row) => ({ ...row, ...paused }));
      const none = `Nothing was harvested from ${ingest.ledger.exchange} yet; see ingest run.`;
      const named = rows.map(({ product, trades, ...rest }) => {
        return { product, [`${nounOf(ingest.settings)}s`]: trades, ...rest };
      });
      print(rows, json, () => table(named, none));
    });
  return withSettings(command, ['store', 's3Bucket']);
}

/** Progress of a product; the trades of a declared source are its records. */
interface ProductStatus {
  readonly product: string;
  readonly trades: number;
}

async function statusOf(ingest: Ingest): Promise<readonly ProductStatus[]> {
  const { ledger } = ingest;
  const names = await ledger.products();
  if (names.length === 0) return [];
  const { manifest } = await ingest.table();
  return Promise.all(
    names.map(async (product) => {
      const { current: generation, building } = await ledger.generations(product);
      const of = { exchange: ledger.exchange, product, generation };
      const checkpoint = await ledger.checkpoint(of);
      const merged = manifest.products.find(
        (one) => one.exchange === of.exchange && one.product === product,
      );
      return {
        product,
        trades: checkpoint?.trades ?? 0,
        inTable: merged?.generation === generation ? merged.rows : 0,
        upToId: checkpoint?.highestId ?? 0,
        gaps: checkpoint?.harvest.gaps.length ?? 0,
        ...feedStatus(checkpoint?.feed),
        updatedAt: checkpoint?.updatedAt ?? null,
        generation,
        refreshing: building !== undefined,
      };
    }),
  );
}

/** Trades of the feed that REST has not confirmed; nothing where all are confirmed. */
function feedStatus(feed: FeedProof | undefined): object {
  if (feed === undefined) return {};
  const { from, to, contradicted } = feed;
  return {
    ...(to > from ? { notCompared: to - from } : {}),
    ...(contradicted > 0 ? { contradicted } : {}),
  };
}

/** `ingest resume`: ends a pause that the exchange has asked for. */
export function resumeCommand(): Command {
  const command = new Command('resume')
    .description('end a long pause that the exchange has asked for, for all processes')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('resume', 'resume --exchange kraken'))
    .action(async ({ json }: { readonly json?: boolean }, self: Command) => {
      await using ingest = await openFor(self);
      const { until } = ingest.pause;
      await ingest.pause.end();
      const was = until > ingest.clock.now() ? new Date(until).toISOString() : null;
      const text = was === null ? 'There was no pause.' : `The pause until ${was} is ended.`;
      print({ pausedUntil: was }, json, () => text);
    });
  return withSettings(command, ['store', 'baseUrl']);
}

interface VerifyOptions {
  readonly report?: string;
  readonly json?: boolean;
}

const shownMax = 20;

/** `ingest verify`: proves that nothing is missing, or says what is. */
export function verifyCommand(): Command {
  const command = new Command('verify')
    .description('check every raw file and every trade against the ledger; exits 1 on any issue')
    .argument('[products...]', 'default: all in the table')
    .option('--report <file>', 'also a quality report: json or html, or a file so called')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('verify', 'verify BTC-USD --report html', 'verify --json'))
    .action(async (named: string[], { report, json }: VerifyOptions, self: Command) => {
      const format = formatOf(report);
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal, readsOnly: true });
      const verification = await verifyAll(ingest, named, stop.signal);
      const place = report && join(ingest.settings.data, `report.${format}`);
      const path = report === format ? place : report && resolve(report);
      if (path) await writeReport(ingest, verification, path, stop.signal);
      const { products } = (await ingest.table()).manifest;
      const noun = products.some(({ types }) => 'columns' in types) ? 'row' : 'trade';
      print({ ...verification, report: path }, json, () => {
        return verificationText(verification, noun, path);
      });
      if (verification.issuesFound > 0) process.exitCode = exitCodes.failed;
    });
  return withSettings(command, ['store', 's3Bucket']);
}

function formatOf(report: string | undefined): string | undefined {
  if (report === undefined) return undefined;
  const format = /(^|\.)(json|html)$/.exec(report)?.[2];
  if (format !== undefined) return format;
  throw new UsageError(`--report: must be json, html or a file that ends so, got ${report}`);
}

async function verifyAll(
  ingest: Ingest,
  named: readonly string[],
  signal: AbortSignal,
): Promise<Verification> {
  const { verify } = await import('../quality/verify.ts');
  const { expectedProducts } = await import('../quality/verify.ts');
  const all = await expectedProducts(ingest, signal);
  harvestedOf(
    named,
    all.map(({ product }) => product),
  );
  const table = await ingest.table();
  if (all.length === 0 && table.manifest.version === 0) {
    throw new UsageError(nothingIn(ingest));
  }
  using _told = tellWork('Looking at every trade …');
  let found = await verify(table, all, signal);
  // Files of a harvest that goes on may have been joined, or merged, after they were listed.
  if (found.issuesFound > 0) {
    const now = await expectedProducts(ingest, signal);
    if (!isDeepStrictEqual(now, all)) found = await verify(table, now, signal);
  }
  if (named.length === 0) return found;
  const issues = found.issues.filter(({ product }) => named.includes(product) || product === '');
  return { ...found, issues, issuesFound: issues.length };
}

async function writeReport(
  ingest: Ingest,
  verification: Verification,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const { quality } = await import('../quality/quality.ts');
  const { qualityPage } = await import('../quality/page.ts');
  const report = await quality(await ingest.table(), ingest.clock.now(), { signal });
  const text = path.endsWith('html')
    ? qualityPage(report, verification)
    : `${JSON.stringify({ quality: report, verification }, null, 2)}\n`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

function verificationText(
  verification: Verification,
  noun: string,
  report: string | undefined,
): string {
  const { products, trades, rawFiles, tableFiles, version } = verification;
  const { issues, issuesFound, orphans, waiting, uncompared } = verification;
  const count = (value: number) => value.toLocaleString('en-US');
  const lines = issues.slice(0, shownMax).map(({ flaw, product, file, message }) => {
    return `${flaw}: ${[product, file, message].filter(Boolean).join(': ')}`;
  });
  if (issuesFound > lines.length) lines.push(`… and ${count(issuesFound - lines.length)} more`);
  if (orphans > 0) {
    lines.push(`(${count(orphans)} raw files are in no checkpoint, and do no harm: ingest clean)`);
  }
  if (waiting > 0) {
    lines.push(
      `(${counted(waiting, 'raw file')} not in the table yet: follow, or ingest transform)`,
    );
  }
  if (uncompared > 0) {
    const what = `${counted(uncompared, 'trade')} of the feed not compared with REST yet`;
    lines.push(`(${what}: ingest follow does it)`);
  }
  const looked = `${counted(trades, noun)} of ${counted(products, 'product')}`;
  const files = `in ${counted(tableFiles, 'file')}`;
  const from = `(version ${version}, from ${counted(rawFiles, 'raw file')})`;
  const verdict = issuesFound === 0 ? 'nothing is missing, nothing is twice, all is in order' : '';
  const sum = verdict || counted(issuesFound, 'issue');
  return [
    ...lines,
    `${looked} ${files} ${from}: ${sum}.`,
    ...(report ? [`Report: ${report}`] : []),
  ].join('\n');
}

interface CleanOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

interface Cleaned {
  readonly product: string;
  /** Raw files that nobody knows of, and their bytes. */
  readonly files: number;
  readonly bytes: number;
  readonly status: 'deleted' | 'found' | 'locked';
}

/** `ingest clean`: deletes raw files that a crash left. */
export function cleanCommand(): Command {
  const command = new Command('clean')
    .description('delete raw files that a crash left and no checkpoint names')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--dry-run', 'only show what would be deleted')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('clean --dry-run', 'clean BTC-USD'))
    .action(async (named: string[], { dryRun = false, json }: CleanOptions, self: Command) => {
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal });
      const known = await ingest.ledger.products(stop.signal);
      const rows: Cleaned[] = [];
      for (const product of harvestedOf(named, known)) {
        rows.push(await clean(ingest, product, dryRun, stop.signal));
      }
      const found = rows.filter(({ files, status }) => files > 0 || status === 'locked');
      print(rows, json, () => table(found, 'There is nothing to clean.'));
      const isLocked = rows.every(({ status }) => status === 'locked');
      if (isLocked && rows.length > 0) process.exitCode = exitCodes.locked;
    });
  return withSettings(command, ['store', 's3Bucket']);
}

async function clean(
  ingest: Ingest,
  product: string,
  isDry: boolean,
  signal: AbortSignal,
): Promise<Cleaned> {
  const { orphansOf } = await import('../harvest/ledger.ts');
  const { ledger, folder } = ingest;
  const { current, building } = await ledger.generations(product, signal);
  let files = 0;
  let bytes = 0;
  try {
    for (const generation of building === undefined ? [current] : [current, building]) {
      const of = { exchange: ledger.exchange, product, generation };
      for (const file of await orphansOf(of, ingest, signal)) {
        if (!isDry) await folder.delete(file.path, signal);
        files += 1;
        bytes += file.bytes;
      }
    }
  } catch (error) {
    if (Object(error).code !== 'LEASE_HELD') throw error;
    return { product, files, bytes, status: 'locked' };
  }
  return { product, files, bytes, status: isDry ? 'found' : 'deleted' };
}

interface ProductsOptions {
  readonly path?: string;
  readonly merge?: boolean;
  readonly filterRegex?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const listedMax = 200;

/** `ingest products`: makes the list of products from what the exchange has. */
export function productsCommand(): Command {
  const command = new Command('products')
    .alias('update-seed')
    .description('ask the exchange for its products and write the list')
    .option('--path <file>', 'the list to write (default: the setting --seed-path)')
    .option('--merge', 'keep what is in the list already')
    .option('--filter-regex <pattern>', 'only ids in which this is found, such as -USD$')
    .option('--dry-run', `write nothing; show the count and the first ${listedMax}`)
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('products --filter-regex -USD$', 'products --merge --dry-run'))
    .action(async (options: ProductsOptions, self: Command) => {
      const pattern = patternOf(options.filterRegex);
      const path = options.path ?? settingsOf(self).seedPath;
      const { readSeed, writeSeed } = await import('../harvest/product-list.ts');
      const old = await readSeed(path);
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal });
      const { connector, clock } = ingest;
      const found = await connector.products(stop.signal).catch((error: Error) => {
        stop.signal.throwIfAborted();
        throw new UsageError(`the products cannot be had: ${error.message}; nothing was written`);
      });
      const wanted = found.filter((id) => pattern.test(id));
      const all = new Set(options.merge ? [...old.productIds, ...wanted] : wanted);
      const productIds = [...all].sort();
      const metadata = {
        ...old.metadata,
        source: `${connector.name} ${connector.baseUrl}`,
        count: productIds.length,
        last_updated: new Date(clock.now()).toISOString(),
      };
      if (!options.dryRun) await writeSeed(path, { productIds, metadata });
      const result = { path, written: !options.dryRun, count: productIds.length, productIds };
      print(result, options.json, () => {
        const shown = options.dryRun ? `${productIds.slice(0, listedMax).join('\n')}\n` : '';
        const verb = options.dryRun ? 'would be written' : 'written';
        return `${shown}${productIds.length} of ${found.length} products, ${verb} to ${path}`;
      });
    });
  return withSettings(command, ['seedPath', 'baseUrl']);
}

function patternOf(text = ''): RegExp {
  try {
    return new RegExp(text);
  } catch (error) {
    throw new UsageError(`--filter-regex: ${(error as Error).message}`);
  }
}
