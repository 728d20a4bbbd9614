import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Command } from 'commander';
import { UsageError } from 'spillway-cli';
import type { FeedProof } from '../harvest/ledger.ts';
import type { Ingest } from '../open.ts';
import type { Verification } from '../quality/verify.ts';
import { emptyManifest, keyOf } from '../table/manifest.ts';
import {
  type Call,
  counted,
  exitCodes,
  harvestedOf,
  nothingFrom,
  nothingIn,
  nounOf,
  onIngest,
  type Result,
  table,
} from './command-line.ts';
import { tellWork } from './progress.ts';

/** `ingest status`: the progress of each product, without requests to the exchange. */
export function statusCommand(): Command {
  const command = new Command('status').description(
    'show how far each product is, here and in the table; asks no exchange',
  );
  return onIngest(command, {
    examples: ['status', 'status --exchange kraken --json'],
    shown: ['store', 's3Bucket'],
    readsOnly: true,
    async run({ ingest }) {
      const { until } = ingest.pause;
      const isPaused = until > ingest.clock.now();
      const paused = isPaused ? { pausedUntil: new Date(until).toISOString() } : {};
      const value = (await statusOf(ingest)).map((row) => ({ ...row, ...paused }));
      const none = value.length === 0 ? await nothingFrom(ingest) : '';
      const named = value.map(({ product, trades, ...rest }) => {
        return { product, [`${nounOf(ingest.settings)}s`]: trades, ...rest };
      });
      return { value, text: () => table(named, none) };
    },
  });
}

/** Collects the progress of each product; `trades` counts the records of a declared source. */
async function statusOf(ingest: Ingest) {
  const { ledger } = ingest;
  const names = await ledger.products();
  const { manifest } = names.length === 0 ? { manifest: emptyManifest } : await ingest.table();
  return Promise.all(
    names.map(async (product) => {
      const { current: generation, building } = await ledger.generations(product);
      const of = { exchange: ledger.exchange, product, generation };
      const checkpoint = await ledger.checkpoint(of);
      const merged = manifest.products.find((one) => keyOf(one) === keyOf(of));
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

/** Counts trades of the feed that REST has not confirmed; empty if there are none. */
function feedStatus(feed: FeedProof | undefined): object {
  if (feed === undefined) return {};
  const { from, to, contradicted } = feed;
  return {
    ...(to > from ? { notCompared: to - from } : {}),
    ...(contradicted > 0 ? { contradicted } : {}),
  };
}

/** `ingest resume`: ends a long pause that the exchange has asked for. */
export function resumeCommand(): Command {
  const command = new Command('resume').description(
    'end a long pause that the exchange has asked for, for all processes',
  );
  return onIngest(command, {
    examples: ['resume', 'resume --exchange kraken'],
    shown: ['store', 'baseUrl'],
    async run({ ingest }) {
      const { until } = ingest.pause;
      await ingest.pause.end();
      const was = until > ingest.clock.now() ? new Date(until).toISOString() : null;
      const text = was === null ? 'There was no pause.' : `The pause until ${was} is ended.`;
      return { value: { pausedUntil: was }, text: () => text };
    },
  });
}

interface VerifyFlags {
  readonly report?: string;
}

const shownMax = 20;
const reportFormat = /(?:^|\.)(json|html)$/;

/** `ingest verify`: proves that nothing is missing, or reports issues. */
export function verifyCommand(): Command {
  const about = 'also a quality report: json or html, or a file so called';
  const command = new Command('verify')
    .description('check every raw file and every trade against the ledger; exits 1 on any issue')
    .argument('[products...]', 'default: all in the table')
    .option('--report <file>', about, (text) => {
      if (reportFormat.test(text)) return text;
      throw new UsageError(`--report: must be json, html or a file that ends so, got ${text}`);
    });
  return onIngest(command, {
    examples: ['verify', 'verify BTC-USD --report html', 'verify --json'],
    shown: ['store', 's3Bucket'],
    readsOnly: true,
    async run({ ingest, flags, signal }: Call<VerifyFlags>, named: string[]) {
      const verification = await verifyAll(ingest, named, signal);
      const { report = '' } = flags;
      const isFormat = reportFormat.exec(report)?.[1] === report;
      const path = isFormat ? join(ingest.settings.data, `report.${report}`) : resolve(report);
      const written = report === '' ? undefined : path;
      if (written) await writeReport(ingest, verification, written, signal);
      const { products } = (await ingest.table()).manifest;
      const noun = products.some(({ types }) => 'columns' in types) ? 'row' : 'trade';
      return {
        value: { ...verification, report: written },
        text: () => verificationText(verification, noun, written),
        exitCode: verification.issuesFound > 0 ? exitCodes.failed : exitCodes.ok,
      };
    },
  });
}

async function verifyAll(
  ingest: Ingest,
  named: readonly string[],
  signal: AbortSignal,
): Promise<Verification> {
  const { expectedProducts, verify } = await import('../quality/verify.ts');
  const expected = () => expectedProducts(ingest, signal);
  const all = await expected();
  harvestedOf(
    named,
    all.map(({ product }) => product),
  );
  const table = await ingest.table();
  if (all.length === 0 && table.manifest.version === 0) {
    throw new UsageError(nothingIn(ingest));
  }
  using _told = tellWork('Verifying every trade …');
  let found = await verify(table, expected, signal);
  // Beside a harvest, raw files may have been joined after they were listed.
  const isChanging = found.issuesFound > 0 && !isDeepStrictEqual(await expected(), all);
  if (isChanging) found = await verify(table, expected, signal);
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
  const more = issuesFound - lines.length;
  const fed = `${counted(uncompared, 'trade')} of the feed`;
  const notes = [
    more > 0 && `… and ${count(more)} more`,
    orphans > 0 &&
      `(${counted(orphans, 'raw file')} in no ledger, of a crash or being written: ingest clean)`,
    waiting > 0 &&
      `(${counted(waiting, 'raw file')} not in the table yet: follow, or ingest transform)`,
    uncompared > 0 && `(${fed} not compared with REST yet: ingest follow does it)`,
  ];
  const looked = `${counted(trades, noun)} of ${counted(products, 'product')}`;
  const files = `in ${counted(tableFiles, 'file')}`;
  const from = `(version ${version}, from ${counted(rawFiles, 'raw file')})`;
  const sound = 'nothing is missing, nothing is twice, all is in order';
  const sum = issuesFound === 0 ? sound : counted(issuesFound, 'issue');
  const last = `${looked} ${files} ${from}: ${sum}.`;
  return [...lines, ...notes, last, report && `Report: ${report}`].filter(Boolean).join('\n');
}

/** `ingest clean`: deletes raw files that a crash left. */
export function cleanCommand(): Command {
  const command = new Command('clean')
    .description('delete raw files that a crash left and no checkpoint names')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--dry-run', 'only show what would be deleted');
  return onIngest(command, {
    examples: ['clean --dry-run', 'clean BTC-USD'],
    shown: ['store', 's3Bucket'],
    async run({ ingest, flags, signal }: Call<{ dryRun?: true }>, named: string[]) {
      const known = await ingest.ledger.products(signal);
      const value = [];
      for (const product of harvestedOf(named, known)) {
        value.push(await clean(ingest, product, flags.dryRun === true, signal));
      }
      const found = value.filter(({ files, status }) => files > 0 || status === 'locked');
      const isLocked = value.length > 0 && value.every(({ status }) => status === 'locked');
      return {
        value,
        text: () => table(found, 'There is nothing to clean.'),
        exitCode: isLocked ? exitCodes.locked : exitCodes.ok,
      };
    },
  });
}

async function clean(ingest: Ingest, product: string, isDry: boolean, signal: AbortSignal) {
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

interface ProductsFlags {
  readonly path?: string;
  readonly merge?: boolean;
  readonly filterRegex?: RegExp;
  readonly dryRun?: boolean;
}

const listedMax = 200;

/** `ingest products`: writes the list of the exchange's products. */
export function productsCommand(): Command {
  const command = new Command('products')
    .alias('update-seed')
    .description('ask the exchange for its products and write the list')
    .option('--path <file>', 'the list to write (default: the setting --seed-path)')
    .option('--merge', 'keep what is in the list already')
    .option('--filter-regex <pattern>', 'only ids in which this is found, such as -USD$', patternOf)
    .option('--dry-run', `write nothing; show the count and the first ${listedMax}`);
  return onIngest(command, {
    examples: ['products --filter-regex -USD$', 'products --merge --dry-run'],
    shown: ['seedPath', 'baseUrl'],
    run: listProducts,
  });
}

async function listProducts({ ingest, flags, signal }: Call<ProductsFlags>): Promise<Result> {
  const { path = ingest.settings.seedPath, merge, filterRegex, dryRun = false } = flags;
  const { connector, clock } = ingest;
  const { readSeed, writeSeed } = await import('../harvest/product-list.ts');
  const old = await readSeed(path);
  const found = await connector.products(signal).catch((error: Error) => {
    signal.throwIfAborted();
    throw new UsageError(`the products cannot be had: ${error.message}; nothing was written`);
  });
  const wanted = found.filter((id) => filterRegex?.test(id) ?? true);
  const productIds = [...new Set(merge ? [...old.productIds, ...wanted] : wanted)].sort();
  const count = productIds.length;
  if (count === 0) {
    const what = `none of ${found.length} products is called so`;
    throw new UsageError(`--filter-regex: ${what}; the list ${path} is as it was`);
  }
  const metadata = {
    ...old.metadata,
    source: `${connector.name} ${connector.baseUrl}`,
    count,
    last_updated: new Date(clock.now()).toISOString(),
  };
  if (!dryRun) await writeSeed(path, { productIds, metadata });
  const shown = dryRun ? `${productIds.slice(0, listedMax).join('\n')}\n` : '';
  const verb = dryRun ? 'would be written' : 'written';
  return {
    value: { path, written: !dryRun, count, productIds },
    text: () => `${shown}${count} of ${found.length} products, ${verb} to ${path}`,
  };
}

function patternOf(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch (error) {
    throw new UsageError(`--filter-regex: ${(error as Error).message}`);
  }
}
