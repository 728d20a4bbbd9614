import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import type { Ingest } from '../open-ingest.ts';
import type { Verification } from '../quality/verify.ts';
import { counted, examplesOf, openFor, withSettings } from './command-line.ts';
import { exitCodes } from './exit-codes.ts';
import { Interruption } from './interruption.ts';
import { tellWork } from './progress.ts';

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
      using stop = new Interruption();
      await using ingest = await openFor(self, { signal: stop.signal });
      const verification = await verifyAll(ingest, named, stop.signal);
      const place = report && join(ingest.settings.data, `report.${format}`);
      const path = report === format ? place : report && resolve(report);
      if (path) await writeReport(ingest, verification, path, stop.signal);
      print({ ...verification, report: path }, json, () => verificationText(verification, path));
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
  const { productLedgers } = await import('./product-ledgers.ts');
  const all = await productLedgers(ingest, signal);
  const unknown = named.find((name) => !all.some(({ product }) => product === name));
  if (unknown !== undefined) throw new UsageError(`${unknown}: nothing was harvested of it yet`);
  const table = await ingest.table();
  if (all.length === 0 && table.manifest.version === 0) {
    throw new UsageError(`${ingest.folder.place}: nothing was harvested yet; see ingest run`);
  }
  using _told = tellWork('Looking at every trade …');
  const found = await verify(table, all, signal);
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
  const { qualityPage } = await import('../quality/quality-page.ts');
  const report = await quality(await ingest.table(), ingest.clock.now(), signal);
  const text = path.endsWith('html')
    ? qualityPage(report, verification)
    : `${JSON.stringify({ quality: report, verification }, null, 2)}\n`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

function verificationText(verification: Verification, report: string | undefined): string {
  const { products, trades, rawFiles, tableFiles, version, issues, issuesFound, orphans } =
    verification;
  const count = (value: number) => value.toLocaleString('en-US');
  const lines = issues.slice(0, shownMax).map(({ flaw, product, file, message }) => {
    return `${flaw}: ${[product, file, message].filter(Boolean).join(': ')}`;
  });
  if (issuesFound > lines.length) lines.push(`… and ${count(issuesFound - lines.length)} more`);
  if (orphans > 0) {
    lines.push(`(${count(orphans)} raw files are in no checkpoint, and do no harm: ingest clean)`);
  }
  const looked = `${counted(trades, 'trade')} of ${counted(products, 'product')}`;
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
