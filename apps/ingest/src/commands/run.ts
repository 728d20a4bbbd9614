import { Command } from 'commander';
import { UsageError } from 'spillway-cli';
import { idOf } from '../connectors/connector.ts';
import type { Harvester } from '../harvest/harvester.ts';
import type { ProductOutcome } from '../harvest/product.ts';
import type { Transformed } from '../harvest/transformer.ts';
import type { Ingest } from '../open.ts';
import {
  type Call,
  checkTimes,
  collectGarbage,
  counted,
  exitCodes,
  harvestedOf,
  integerFrom1,
  nothingFrom,
  nounOf,
  onIngest,
  productsOf,
  type Result,
  type Shard,
  shardOption,
  table,
  timeOption,
} from './command-line.ts';
import { duration, tellProgress, tellWork } from './progress.ts';

interface RunFlags {
  readonly fullRefresh?: boolean;
  readonly moved?: boolean;
  readonly since?: bigint;
  readonly until?: bigint;
  readonly shard?: Shard;
  readonly dryRun?: boolean;
  readonly transform: boolean;
}

const pace = ['ratePerSecond', 'limit', 'workers', 'chunkConcurrency'];

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
    .hook('preAction', checkRun);
  return onIngest(command, {
    examples: [
      'run BTC-USD ETH-USD --since 2026-01-01',
      'run --max-requests 500 --json',
      'run BTC-USD --full-refresh',
    ],
    shown: ['baseUrl', ...pace, 'mode', 'store', 'seedPath', 's3Bucket', 's3Endpoint'],
    async run(call: Call<RunFlags>, named: string[]) {
      const { ingest, flags } = call;
      const products = await productsOf(named, ingest.settings, flags.shard);
      const { fullRefresh, moved: isMoved, since: sinceUs, until: untilUs } = flags;
      const harvester = ingest.harvester({ products, fullRefresh, isMoved, sinceUs, untilUs });
      return await (flags.dryRun ? showPlan(harvester, call) : harvest(harvester, call));
    },
  });
}

function checkRun(command: Command): void {
  const { fullRefresh, since, until } = command.opts<RunFlags>();
  checkTimes({ since, until });
  if (!fullRefresh || until === undefined) return;
  throw new UsageError('--until: not with --full-refresh, which replaces all that is there');
}

async function showPlan(harvester: Harvester, { ingest, signal }: Call): Promise<Result> {
  const plans = await harvester.plan(signal);
  const failed = harvester.outcomes.filter(({ status }) => status === 'failed');
  const products = plans.map(({ product, generation, from, to, pages, gaps, isOpen }) => {
    const known = isOpen ? {} : { to: to - 1, trades: to - from, requests: pages };
    return { product, generation, from, ...known, gaps };
  });
  const requests = plans.reduce((sum, { pages }) => sum + pages, 0);
  const etaMs = (requests * 1000) / ingest.bucket.stats.ratePerSecond;
  const errors = failed.map(({ product, reason }) => ({ product, reason }));
  const lines = errors.map(({ product, reason }) => `${product}: ${reason}`);
  const count = `${requests} requests, about ${duration(etaMs)}`;
  const known = Number.isFinite(requests) ? count : 'Only the answers tell how many requests';
  const sum = `${known}; nothing was fetched.`;
  return {
    value: { dryRun: true, products, requests, etaMs, errors },
    text: () => [table(products, 'Nothing to fetch.'), ...lines, sum].join('\n'),
    exitCode: failed.length > 0 ? exitCodes.failed : exitCodes.ok,
  };
}

async function harvest(harvester: Harvester, call: Call<RunFlags>): Promise<Result> {
  const { ingest } = call;
  const startedAt = ingest.clock.now();
  await runToEnd(harvester, call);
  const { outcomes, requests, trades, runId } = harvester;
  const tookMs = ingest.clock.now() - startedAt;
  // Includes raw files that an earlier run could not bring into the table.
  const isAnything = outcomes.some(({ tradesInAll }) => tradesInAll > 0);
  const transformed = isAnything ? await bringUp(call) : undefined;
  const status = runStatus(outcomes);
  const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
  const result = { pipeline: 'ingest', status, runId, requests, trades, tookMs, peakMb };
  const noun = nounOf(ingest.settings);
  const what = `${counted(trades, noun)} in ${counted(requests, 'request')}`;
  const sum = `${what} and ${duration(tookMs)}.`;
  return {
    value: { ...result, products: outcomes, table: transformed },
    text: () => [outcomesText(outcomes, noun), sum, ...transformedText(transformed)].join('\n'),
    exitCode: exitCodeOf(outcomes),
  };
}

async function runToEnd(harvester: Harvester, { ingest, signal }: Call): Promise<void> {
  using _progress = tellProgress(harvester, ingest, signal);
  await harvester.run(signal);
}

async function bringUp({ ingest, flags, signal }: Call<RunFlags>) {
  if (!flags.transform || signal.aborted) return undefined;
  using _told = tellWork('Bringing the table up to date …');
  collectGarbage();
  const transformer = await ingest.transformer();
  return await transformer.run({ rebuild: false, waits: true }, signal);
}

/** `ingest gaps …`: missing parts of histories. */
export function gapsCommands(): Command {
  const gaps = new Command('gaps').description('parts of histories that are noted as missing');
  const list = new Command('list')
    .description('show all gaps')
    .argument('[products...]', 'default: all that were ever harvested');
  const fill = new Command('fill')
    .description('ask again for what is missing, and for nothing else')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--max-requests <number>', 'stop after so many requests', integerFrom1);
  const accept = new Command('accept')
    .description(
      'take gaps as they are: verify does not report them any more, nothing asks for them',
    )
    .argument('<products...>', 'whose gaps were looked at');
  onIngest(list, {
    examples: ['gaps list', 'gaps list BTC-USD --json'],
    shown: ['store'],
    readsOnly: true,
    async run({ ingest }, named: string[]) {
      const value = await gapsOf(ingest, named);
      const isAny = (await ingest.ledger.products()).length > 0;
      const none = isAny ? 'No gaps.' : await nothingFrom(ingest);
      return { value, text: () => table(value, none) };
    },
  });
  onIngest(fill, {
    examples: ['gaps fill', 'gaps fill BTC-USD'],
    shown: ['store'],
    run: fillGaps,
  });
  onIngest(accept, {
    examples: ['gaps accept BTC-USD'],
    shown: ['store'],
    async run({ ingest, signal }, named: string[]) {
      const { acceptGaps } = await import('../harvest/ledger.ts');
      const { ledger } = ingest;
      const value: { product: string; accepted: number }[] = [];
      for (const product of harvestedOf(named, await ledger.products())) {
        const of = await ledger.current(product);
        value.push({ product, accepted: await acceptGaps(of, ingest, signal) });
      }
      return { value, text: () => table(value, 'No gaps.') };
    },
  });
  return gaps.addCommand(list).addCommand(fill).addCommand(accept);
}

async function fillGaps(call: Call, named: string[]): Promise<Result> {
  const { ingest, signal } = call;
  const before = await gapsOf(ingest, named);
  const products = [...new Set(before.map(({ product }) => product))];
  const harvester = ingest.harvester({ products, fillsGaps: true });
  await runToEnd(harvester, call);
  const { outcomes, requests, trades } = harvester;
  const transformer = trades > 0 ? await ingest.transformer() : undefined;
  const done = await transformer?.run({ products, rebuild: false, waits: true }, signal);
  const gaps = await gapsOf(ingest, named);
  const status = runStatus(outcomes);
  const sum = `${trades} trades found; ${gaps.length} of ${before.length} gaps are left.`;
  const text = [outcomesText(outcomes), sum, ...transformedText(done)].join('\n');
  return {
    value: { status, requests, trades, gapsBefore: before.length, gaps, table: done },
    text: () => (products.length === 0 ? 'No gaps.' : text),
    exitCode: exitCodeOf(outcomes),
  };
}

async function gapsOf({ ledger }: Ingest, named: readonly string[]) {
  const rows = [];
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

/** `ingest transform`: brings the table up to date with the raw files. */
export function transformCommand(): Command {
  const command = new Command('transform')
    .description('bring the table up to date with the raw files')
    .argument('[products...]', 'default: all that were ever harvested')
    .option('--rebuild', 'make the products anew, from all of their raw files');
  return onIngest(command, {
    examples: ['transform', 'transform BTC-USD --rebuild'],
    shown: ['s3Bucket'],
    async run({ ingest, flags, signal }: Call<{ rebuild?: true }>, named: string[]) {
      const products = harvestedOf(named, await ingest.ledger.products(signal));
      using _told = tellWork('Bringing the table up to date …');
      const transformer = await ingest.transformer();
      const rebuild = flags.rebuild === true;
      const value = await transformer.run({ products, rebuild, waits: false }, signal);
      return { value, text: () => transformedText(value).join('\n') };
    },
  });
}

/** Describes a change of the table in lines; empty if there was none. */
function transformedText(done: Transformed | undefined): readonly string[] {
  if (done === undefined) return [];
  const { files, read, added, partitions, changes, version } = done;
  if (files === 0) return [`The table has all raw files already; it is at version ${version}.`];
  const what = `${counted(read, 'line')} of ${counted(files, 'raw file')} read`;
  const news = `${counted(added, 'row')} added in ${counted(partitions, 'partition')}`;
  return [`${what}, ${news}: version ${version}.`, ...changes.map((change) => `${change}.`)];
}

export type RunStatus = 'ok' | 'partial_failure' | 'failed' | 'locked' | 'interrupted';

/** Summarizes the outcomes of all products. */
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

/** Formats the outcomes as a table. */
export function outcomesText(outcomes: readonly ProductOutcome[], noun = 'trade'): string {
  const rows = outcomes.map(({ product, status, trades, nextId, gaps, reason }) => {
    const upTo = Math.max(0, nextId - 1);
    return { product, status, [`${noun}s`]: trades, upTo, gaps, reason };
  });
  const isLocked = outcomes.some(({ status }) => status === 'skipped');
  const told =
    'Another run has locked what was skipped; a killed one for leaseSeconds (60) at most.';
  return table(rows, 'No products.') + (isLocked ? `\n${told}` : '');
}
