import { Command, Option } from 'commander';
import { print, UsageError } from 'spillway-cli';
import type { Harvester, HarvestRequest } from '../harvesting/harvester.ts';
import type { ProductPlan } from '../harvesting/plan-product.ts';
import type { Transformed } from '../harvesting/transformer.ts';
import type { Ingest } from '../open-ingest.ts';
import { collectGarbage } from './collect-garbage.ts';
import { counted, examplesOf, openFor, productsOf, table, withSettings } from './command-line.ts';
import { Interruption } from './interruption.ts';
import { duration, Progress, tellWork } from './progress.ts';
import { integerFrom1 } from './query-command.ts';
import { exitCodeOf, outcomesText, runStatus } from './run-report.ts';
import { transformedText } from './transform-command.ts';

interface RunOptions {
  readonly fullRefresh?: boolean;
  readonly since?: bigint;
  readonly until?: bigint;
  readonly maxRequests?: number;
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
    .addOption(timeOption('--since <time>', 'where a product begins that has nothing yet'))
    .addOption(timeOption('--until <time>', 'leave trades from then on for another time'))
    .option('--max-requests <number>', 'stop after so many requests', integerFrom1)
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
      using stop = new Interruption();
      await using ingest = await openFor(self, {
        signal: stop.signal,
        maxRequests: options.maxRequests,
      });
      const products = await productsOf(named, ingest.settings);
      const request: HarvestRequest = {
        products,
        fullRefresh: options.fullRefresh ?? false,
        sinceUs: options.since,
        untilUs: options.until,
        fillsGaps: false,
      };
      const harvester = ingest.harvester(request);
      if (options.dryRun) await showPlan(harvester, ingest, options, stop.signal);
      else await harvest(harvester, ingest, options, stop.signal);
    });
  return withSettings(command, shown);
}

function timeOption(flags: string, about: string): Option {
  return new Option(flags, `${about} (2026-01-31, or with a time, in UTC)`).argParser((text) => {
    const isWritten = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?$/.test(text);
    const isWhole = text.includes('T') && !text.endsWith('Z');
    const ms = isWritten ? Date.parse(isWhole ? `${text}Z` : text) : Number.NaN;
    if (!Number.isNaN(ms)) return BigInt(ms) * 1000n;
    throw new UsageError(`${flags.split(' ')[0]}: must be a time like 2026-01-31, got ${text}`);
  });
}

function checkTimes({ since, until, fullRefresh }: RunOptions): void {
  if (since !== undefined && until !== undefined && since >= until) {
    throw new UsageError('--since: must be before --until');
  }
  if (fullRefresh && until !== undefined) {
    throw new UsageError('--until: not with --full-refresh, which replaces all that is there');
  }
}

async function showPlan(
  harvester: Harvester,
  { bucket }: Ingest,
  { json }: RunOptions,
  signal: AbortSignal,
): Promise<void> {
  const plans = await harvester.plan(signal);
  const failed = harvester.outcomes.filter(({ status }) => status === 'failed');
  const rows = plans.map(({ product, generation, from, to, pages, gaps }) => {
    return { product, generation, from, to: to - 1, trades: to - from, requests: pages, gaps };
  });
  const pages = plans.reduce((sum, plan: ProductPlan) => sum + plan.pages, 0);
  const etaMs = (pages * 1000) / bucket.stats.ratePerSecond;
  const errors = failed.map(({ product, reason }) => ({ product, reason }));
  print({ dryRun: true, products: rows, requests: pages, etaMs, errors }, json, () => {
    const lines = errors.map(({ product, reason }) => `${product}: ${reason}`);
    const sum = `${pages} requests, about ${duration(etaMs)}; nothing was fetched.`;
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
    const sum = `${counted(trades, 'trade')} in ${counted(requests, 'request')} and`;
    const last = table === undefined ? [] : [transformedText(table)];
    return [outcomesText(outcomes), `${sum} ${duration(tookMs)}.`, ...last].join('\n');
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
