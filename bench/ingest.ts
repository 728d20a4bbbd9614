import { mkdtempDisposable, readdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import {
  atLeast,
  atMost,
  type Bench,
  type Contestant,
  type Run,
  type Target,
  times,
} from './contest.ts';
import { busyRuns, keepsItsRate } from './ingest/busy.ts';
import { hasCcxt, withCcxt } from './ingest/ccxt.ts';
import { followCosts, followRun } from './ingest/follow.ts';
import { Simulation } from './ingest/simulation.ts';
import { rightRows } from './ingest/truth.ts';

/** A harvest that is under way; disposing it ends it as a crash does. */
export interface Harvesting extends AsyncDisposable {
  /** Resolves when the harvest has ended. */
  done(): Promise<{ readonly trades: number; readonly peakMb: number }>;
}

export interface HarvestPlace {
  readonly url: string;
  readonly ratePerSecond: number;
  readonly folder: string;
  /** Store that several processes share. @default its own */
  readonly store?: string | undefined;
  readonly product?: string | undefined;
  /** Time after which the lock of a dead process expires. @default that of the program */
  readonly leaseSeconds?: number | undefined;
  /** Priority of its process; below 0 is more. @default 0 */
  readonly priority?: number | undefined;
}

/** One way from an exchange to Parquet files. */
export interface Pipeline {
  /** Lines of code that its user has written. */
  readonly codeLines: number;
  begin(place: HarvestPlace): Promise<Harvesting>;
}

const warmUpMs = { quick: 15_000, full: 60_000 };
const windowMs = { quick: 10_000, full: 60_000 };
const trades = { quick: 1_000_000, full: 10_000_000 };
const tradesKilled = { quick: 500_000, full: 2_000_000 };
/** Short, since the lock of a crashed process must expire before another process may go on. */
const leaseSeconds = 1;
const noLimit = 'no rate limit';
const killed = 'ended half way by a crash and run again, 2 % errors';
/** A rate limit that none of the contenders reaches. */
const anyRate = 10_000;

interface Pace {
  readonly ratePerSecond: number;
  readonly latencyMs: number;
  /** Share of the requests that are answered 429 though the rate is kept. @default 0 */
  readonly limited?: number;
}

const stray = '50 a second, mean latency 50 ms, 1 of 500 answered 429 by chance';

/** The rate that Coinbase permits at three latencies, and five times that rate. */
const pacedRuns: Readonly<Record<string, Pace>> = {
  '10 a second, mean latency 50 ms, 1 % errors': { ratePerSecond: 10, latencyMs: 50 },
  '10 a second, mean latency 500 ms, 1 % errors': { ratePerSecond: 10, latencyMs: 500 },
  '10 a second, mean latency 3 s, 1 % errors': { ratePerSecond: 10, latencyMs: 3_000 },
  '50 a second, mean latency 3 s, 1 % errors': { ratePerSecond: 50, latencyMs: 3_000 },
  [stray]: { ratePerSecond: 50, latencyMs: 50, limited: 1 / 500 },
};

/** 99 to 100 %, to half a percent, since only whole requests are counted. */
const wholeRate: Target = {
  text: '99 to 100 %',
  met: ({ ours }) => ours >= 99 && ours < 100.5,
};

const paced = Object.keys(pacedRuns).map((name): Run => {
  return {
    name,
    rounds: 1,
    together: true,
    figures: [
      {
        name: 'share of the permitted rate',
        unit: '%',
        better: 'more',
        // 5,000 pages in 105 s, where 100 would be the least.
        targets: [name === stray ? atLeast(95, '%') : wholeRate],
      },
      { name: 'over the rate', unit: 'requests', better: 'less', targets: [atMost(0, 'requests')] },
    ],
  };
});

/**
 * Measures which share of a permitted rate is used, and what a harvest and a follower cost. ccxt
 * (MIT) takes 60 MB, too much for everybody who installs this repository: it takes part only after
 * `npm install --no-save ccxt`.
 */
export const ingest: Bench = {
  contenders: {
    'spillway ingest run': async () => contestant((await import('./ingest/ours.ts')).ours, true),
    'fetch, p-limit, hyparquet-writer': async () =>
      contestant((await import('./ingest/fetch.ts')).withFetch),
    ...(hasCcxt()
      ? { 'ccxt, p-limit, hyparquet-writer': async () => contestant(await withCcxt()) }
      : {}),
  },
  yardsticks: [],
  runs: [
    ...paced,
    {
      name: killed,
      rounds: 1,
      figures: [
        { name: 'right rows', unit: '%', better: 'more', targets: [atLeast(100, '%')] },
        { name: 'requests a page', unit: '', better: 'less', targets: [atMost(1.15, '')] },
        { name: 'lines of code', unit: '', better: 'less', targets: [] },
      ],
    },
    {
      name: noLimit,
      rounds: 1,
      figures: [
        { name: 'pages', unit: '/s', better: 'more', targets: [] },
        { name: 'trades into Parquet', unit: '/s', better: 'more', targets: [times(1)] },
        { name: 'memory at its peak', unit: 'MB', better: 'less', targets: [atMost(250, 'MB')] },
        {
          name: 'Parquet for a trade',
          unit: 'bytes',
          better: 'less',
          targets: [atMost(9, 'bytes')],
        },
      ],
    },
    ...busyRuns,
    followRun,
  ],
};

function contestant(pipeline: Pipeline, isOurs = false): Contestant {
  return async (run, quick) => {
    const size = quick ? 'quick' : 'full';
    const pace = pacedRuns[run];
    if (pace !== undefined) return await keptPace(pipeline, pace, size);
    if (run === killed) return await crashed(pipeline, tradesKilled[size]);
    if (run === noLimit) return await flatOut(pipeline, trades[size]);
    if (run === followRun.name) return isOurs ? await followCosts(quick) : {};
    return isOurs ? await keepsItsRate(run, pipeline, quick) : {};
  };
}

async function keptPace(
  pipeline: Pipeline,
  { ratePerSecond, latencyMs, limited = 0 }: Pace,
  size: 'quick' | 'full',
): Promise<Record<string, number>> {
  const words = ['--rate', String(ratePerSecond), '--latency', String(latencyMs)];
  const errors = limited > 0 ? 0 : 0.01;
  words.push('--trades', '100000000', '--errors', String(errors), '--limited', String(limited));
  await using exchange = await Simulation.start(...words);
  await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
  const place = { url: exchange.url, ratePerSecond, folder: folder.path };
  await using _harvesting = await pipeline.begin(place);
  const share = await exchange.shareOf(warmUpMs[size], windowMs[size]);
  return { 'share of the permitted rate': share.percent, 'over the rate': share.refused };
}

/** Kills a harvest in the middle, runs it again, and checks every row. */
async function crashed(pipeline: Pipeline, count: number): Promise<Record<string, number>> {
  const words = ['--rate', '0', '--latency', '5', '--errors', '0.02', '--trades', String(count)];
  await using exchange = await Simulation.start(...words);
  await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
  const place = { url: exchange.url, ratePerSecond: 100, folder: folder.path, leaseSeconds };
  {
    await using _first = await pipeline.begin(place);
    while ((await exchange.counted()).requests < count / 2_000) await setTimeout(5);
  }
  await setTimeout(leaseSeconds * 1_000);
  await using again = await pipeline.begin(place);
  await again.done();
  const { requests } = await exchange.counted();
  return {
    'right rows': await rightRows(folder.path, exchange.url, count),
    'requests a page': requests / (count / 1_000),
    'lines of code': pipeline.codeLines,
  };
}

async function flatOut(pipeline: Pipeline, count: number): Promise<Record<string, number>> {
  const words = ['--rate', '0', '--latency', '0', '--errors', '0', '--trades', String(count)];
  await using exchange = await Simulation.start(...words);
  await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
  const startedAt = performance.now();
  const place = { url: exchange.url, ratePerSecond: anyRate, folder: folder.path };
  await using harvesting = await pipeline.begin(place);
  const { trades: got, peakMb } = await harvesting.done();
  const seconds = (performance.now() - startedAt) / 1_000;
  if (got !== count) throw new Error(`${got} trades of ${count}`);
  const { requests } = await exchange.counted();
  return {
    pages: requests / seconds,
    'trades into Parquet': got / seconds,
    'memory at its peak': peakMb,
    'Parquet for a trade': (await parquetBytes(folder.path)) / got,
  };
}

async function parquetBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const files = names.filter((name) => name.endsWith('.parquet'));
  const sizes = await Promise.all(files.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
