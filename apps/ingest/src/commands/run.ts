import { Command } from 'commander';
import { print, UsageError } from 'spillway-cli';
import { idOf } from '../connectors/connector.ts';
import type { Harvester } from '../harvest/harvester.ts';
import type { ProductOutcome, ProductPlan } from '../harvest/product.ts';
import type { Transformed } from '../harvest/transformer.ts';
import type { Ingest } from '../open.ts';
import {
  checkTimes,
  collectGarbage,
  counted,
  examplesOf,
  exitCodes,
  harvestedOf,
  integerFrom1,
  nounOf,
  openFor,
  productsOf,
  type Shard,
  StopRequest,
  shardOption,
  table,
  timeOption,
  withSettings,
} from './command-line.ts';
import { duration, Progress, tellWork } from './progress.ts';

interface RunOptions {
  readonly fullRefresh?: boolean;
  readonly moved?: boolean;
  readonly since?: bigint;
  readonly until?: bigint;
  readonly maxRequests?: number;
  readonly shard?: Shard;
  readonly dryRun?: boolean;
  readonly transform: boolean;
  readonly json?: boolean;
}

const pace = ['ratePerSecond', 'limit', 'workers', 'chunkConcurrency'];
const shown = ['baseUrl', ...pace, 'mode', 'store', 'seedPath', 's3Bucket', 's3Endpoint'];

/** `ingest run`: brings products up to date. */
export function runCommand(): Command {
  const command = new Command('run')
    .alias('ingest')
    .description('fetch every trade that is not there yet, then bring the table up to date')
    .argument('[products...]', 'such as BTC-USD; default: those of the list (ingest products)')
    .option('--full-refresh', 'from the first trade on, beside what is there; swapped at the end')
    .option('--moved', 'go on though the address is another one: the API there is the same')
    .addOption(timeOption('--since <time>', 'where a product begins that has nothing yet'))
    .addOption(timeOption('--until <time>', 'leave trades from then on for another time'))
    .option('--max-requests <number>', 'stop after so many requests', integerFrom1)
    .addOption(shardOption())
    .option('--dry-run', 'only show what would be fetched; locks and writes nothing')
    .option('--no-transform', 'leave the table for "ingest transform"')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examplesOf(
        'run BTC-USD ETH-USD --since 2026-01-01',
        'run --max-requests 500 --json',
        'run BTC-USD --full-refresh',
      ),
    )
    .action(async (named: string[], options: RunOptions, self: Command) => {
      checkTimes(options);
      if (options.fullRefresh && options.until !== undefined) {
        throw new UsageError('--until: not with --full-refresh, which replaces all that is there');
      }
      using stop = new StopRequest();
      await using ingest = await openFor(self, {
        signal: stop.signal,
        maxRequests: options.maxRequests,
      });
      const products = await productsOf(named, ingest.settings, options.shard);
      const { fullRefresh, moved: isMoved, since: sinceUs, until: untilUs } = options;
      const harvester = ingest.harvester({ products, fullRefresh, isMoved, sinceUs, untilUs });
      if (options.dryRun) await showPlan(harvester, ingest, options, stop.signal);
      else await harvest(harvester, ingest, options, stop.signal);
    });
  return withSettings(command, shown);
}

async function showPlan(
  harvester: Harvester,
  { bucket }: Ingest,
  { json }: RunOptions,
  signal: AbortSignal,
): Promise<void> {
  const plans = await harvester.plan(signal);
  const failed = harvester.outcomes.filter(({ status }) => status === 'failed');
  const rows = plans.map(({ product, generation, from, to, pages, gaps, isOpen }) => {
    const known = isOpen ? {} : { to: to - 1, trades: to - from, requests: pages };
    return { product, generation, from, ...known, gaps };
  });
  const pages = plans.reduce((sum, plan: ProductPlan) => sum + plan.pages, 0);
  const etaMs = (pages * 1000) / bucket.stats.ratePerSecond;
  const errors = failed.map(({ product, reason }) => ({ product, reason }));
  print({ dryRun: true, products: rows, requests: pages, etaMs, errors }, json, () => {
    const lines = errors.map(({ product, reason }) => `${product}: ${reason}`);
    const count = Number.isFinite(pages) ? `${pages} requests, about ${duration(etaMs)}` : '';
    const sum = `${count || 'Only the answers tell how many requests'}; nothing was fetched.`;
    return [table(rows, 'Nothing to fetch.'), ...lines, sum].join('\n');
  });
  if (failed.length > 0) process.exitCode = 1;
}

async function harvest(
  harvester: Harvester,
  ingest: Ingest,
  options: RunOptions,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = ingest.clock.now();
  {
    using _progress = new Progress(harvester, ingest, signal);
    await harvester.run(signal);
  }
  const { outcomes, requests, trades, runId } = harvester;
  const tookMs = ingest.clock.now() - startedAt;
  // Also what an earlier run has left, because it was killed or its disk was full.
  const isAnything = outcomes.some(({ tradesInAll }) => tradesInAll > 0);
  const table = isAnything ? await bringUp(ingest, options, signal) : undefined;
  const status = runStatus(outcomes);
  const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
  const result = { pipeline: 'ingest', status, runId, requests, trades, tookMs, peakMb };
  print({ ...result, products: outcomes, table }, options.json, () => {
    const noun = nounOf(ingest.settings);
    const sum = `${counted(trades, noun)} in ${counted(requests, 'request')} and`;
    const last = table === undefined ? [] : [transformedText(table)];
    return [outcomesText(outcomes, noun), `${sum} ${duration(tookMs)}.`, ...last].join('\n');
  });
  process.exitCode = exitCodeOf(outcomes);
}

async function bringUp(
  ingest: Ingest,
  { transform }: RunOptions,
  signal: AbortSignal,
): Promise<Transformed | undefined> {
  if (!transform || signal.aborted) return undefined;
  using _told = tellWork('Bringing the table up to date …');
  collectGarbage();
  const transformer = await ingest.transformer();
  return await transformer.run({ rebuild: false, waits: true }, signal);
}

interface GapsOptions {
  readonly maxRequests?: number;
  readonly json?: boolean;
}

/** `ingest gaps …`: what is noted as missing. */
export function gapsCommands(): Command {
  const gaps = new Command('gaps').description('parts of histories that are noted as missing');
  const list = new Command('list')
    .description('show all gaps')
    .argument('[products...]', 'default: all that were ever harvested')
    .addHelpText('after', examplesOf('gaps list', 'gaps list BTC-USD --json'))
    .action(async (named: string[], { json }: GapsOptions, self: Command) => {
      await using ingest = await openFor(self, { readsOnly: true });
      const rows = await gapsOf(ingest, named);
      print(rows, json, () => table(rows, 'No gaps.'));
    });
  const fill = new Command('fill')
    .description('ask again for what is missing, and for nothing else')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--max-requests <number>', 'stop after so many requests', integerFrom1)
    .addHelpText('after', examplesOf('gaps fill', 'gaps fill BTC-USD'))
    .action(fillGaps);
  const accept = new Command('accept')
    .description('take what is missing as it is: verify tells it no more, nothing asks for it')
    .argument('<products...>', 'whose gaps were looked at')
    .addHelpText('after', examplesOf('gaps accept BTC-USD'))
    .action(async (named: string[], { json }: GapsOptions, self: Command) => {
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal });
      const { acceptGaps } = await import('../harvest/ledger.ts');
      const { ledger } = ingest;
      const rows: { product: string; accepted: number }[] = [];
      for (const product of harvestedOf(named, await ledger.products())) {
        const of = await ledger.current(product);
        rows.push({ product, accepted: await acceptGaps(of, ingest, stop.signal) });
      }
      print(rows, json, () => table(rows, 'No gaps.'));
    });
  for (const command of [list, fill, accept]) {
    gaps.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return gaps;
}

async function fillGaps(
  named: readonly string[],
  { json, maxRequests }: GapsOptions,
  self: Command,
): Promise<void> {
  using stop = new StopRequest();
  await using ingest = await openFor(self, { signal: stop.signal, maxRequests });
  const before = await gapsOf(ingest, named);
  const products = [...new Set(before.map(({ product }) => product))];
  const harvester = ingest.harvester({ products, fillsGaps: true });
  {
    using _progress = new Progress(harvester, ingest, stop.signal);
    await harvester.run(stop.signal);
  }
  const { outcomes, requests, trades } = harvester;
  const transformer = trades > 0 ? await ingest.transformer() : undefined;
  const done = await transformer?.run({ products, rebuild: false, waits: true }, stop.signal);
  const left = await gapsOf(ingest, named);
  const status = runStatus(outcomes);
  const result = { status, requests, trades, gapsBefore: before.length, gaps: left, table: done };
  print(result, json, () => {
    const sum = `${trades} trades found; ${left.length} of ${before.length} gaps are left.`;
    const lines = [sum, ...(done === undefined ? [] : [transformedText(done)])];
    return products.length === 0 ? 'No gaps.' : [outcomesText(outcomes), ...lines].join('\n');
  });
  process.exitCode = exitCodeOf(outcomes);
}

interface ShownGap {
  readonly product: string;
  readonly from: number;
  readonly to: number;
  readonly ids: number;
  readonly reason: string;
}

async function gapsOf({ ledger }: Ingest, named: readonly string[]): Promise<ShownGap[]> {
  const rows: ShownGap[] = [];
  for (const product of harvestedOf(named, await ledger.products())) {
    const checkpoint = await ledger.checkpoint(await ledger.current(product));
    for (const gap of checkpoint?.harvest.gaps ?? []) {
      const from = idOf(gap.from);
      const to = idOf(gap.to);
      rows.push({ product, from, to: to - 1, ids: to - from, reason: gap.reason });
    }
  }
  return rows;
}

interface TransformOptions {
  readonly rebuild?: boolean;
  readonly json?: boolean;
}

/** `ingest transform`: brings the table up to date with the raw files. */
export function transformCommand(): Command {
  const command = new Command('transform')
    .description('bring the table up to date with the raw files')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--rebuild', 'make the products anew, from all of their raw files')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('transform', 'transform BTC-USD --rebuild'))
    .action(async (named: string[], { rebuild = false, json }: TransformOptions, self: Command) => {
      using stop = new StopRequest();
      await using ingest = await openFor(self, { signal: stop.signal });
      const products = harvestedOf(named, await ingest.ledger.products(stop.signal));
      using told = tellWork('Bringing the table up to date …');
      const transformer = await ingest.transformer();
      const done = await transformer.run({ products, rebuild, waits: false }, stop.signal);
      told[Symbol.dispose]();
      print(done, json, () => transformedText(done));
    });
  return withSettings(command, ['s3Bucket']);
}

export function transformedText(done: Transformed): string {
  const { files, read, added, partitions, changes, version } = done;
  if (files === 0) return `The table has all raw files already; it is at version ${version}.`;
  const told = changes.map((change) => `\n${change}.`).join('');
  const what = `${counted(read, 'line')} of ${counted(files, 'raw file')} read`;
  const news = `${counted(added, 'row')} added in ${counted(partitions, 'partition')}`;
  return `${what}, ${news}: version ${version}.${told}`;
}

export type RunStatus = 'ok' | 'partial_failure' | 'failed' | 'locked' | 'interrupted';

/** Result of a run, all products together. */
export function runStatus(outcomes: readonly ProductOutcome[]): RunStatus {
  const has = (...statuses: readonly string[]) =>
    outcomes.some(({ status }) => statuses.includes(status));
  if (has('failed')) return has('done', 'stopped') ? 'partial_failure' : 'failed';
  if (outcomes.some(({ reason }) => reason === 'interrupted')) return 'interrupted';
  return has('done', 'stopped') || !has('skipped') ? 'ok' : 'locked';
}

export function exitCodeOf(outcomes: readonly ProductOutcome[]): number {
  const codes = {
    ok: exitCodes.ok,
    partial_failure: exitCodes.failed,
    failed: exitCodes.failed,
    locked: exitCodes.locked,
    interrupted: exitCodes.interrupted,
  };
  const code = codes[runStatus(outcomes)];
  const hasGaps = outcomes.some(({ gaps }) => gaps > 0);
  return code === exitCodes.ok && hasGaps ? exitCodes.gaps : code;
}

/** One line for each product. */
export function outcomesText(outcomes: readonly ProductOutcome[], noun = 'trade'): string {
  const rows = outcomes.map(({ product, status, trades, nextId, gaps, reason }) => {
    const upTo = Math.max(0, nextId - 1);
    return { product, status, [`${noun}s`]: trades, upTo, gaps, reason };
  });
  const isLocked = outcomes.some(({ status }) => status === 'skipped');
  const told = 'Another run holds what is locked; a killed one for leaseSeconds (60) at most.';
  return table(rows, 'No products.') + (isLocked ? `\n${told}` : '');
}
