import { setTimeout } from 'node:timers/promises';
import { atMost, type Bench, type Contestant, type Run, type Target, times } from './contest.ts';
import { Simulation } from './ingest/simulation.ts';

/** A harvest that is under way. */
export interface Harvesting extends AsyncDisposable {
  /** Resolves at its end. */
  done(): Promise<{ readonly trades: number; readonly peakMb: number }>;
}

/** One way from an exchange to Parquet files. */
export interface Pipeline {
  begin(url: string, ratePerSecond: number): Promise<Harvesting>;
}

/** As Coinbase permits it. */
const ratePerSecond = 10;
const warmUpMs = { quick: 15_000, full: 60_000 };
const windowMs = { quick: 10_000, full: 60_000 };
const trades = { quick: 1_000_000, full: 10_000_000 };
const noLimit = 'no rate limit';
/** More than any of them asks for in a second. */
const anyRate = 10_000;

const latencyMsOf: Readonly<Record<string, number>> = {
  'mean latency 50 ms, 1 % errors': 50,
  'mean latency 500 ms, 1 % errors': 500,
  'mean latency 3 s, 1 % errors': 3_000,
};

/** 99 to 100 %, to half a percent: what is counted are whole requests. */
const wholeRate: Target = {
  text: '99 to 100 %',
  met: ({ ours }) => ours >= 99 && ours < 100.5,
};

const paced = Object.keys(latencyMsOf).map((name): Run => {
  return {
    name,
    rounds: 1,
    together: true,
    figures: [
      { name: 'share of the permitted rate', unit: '%', better: 'more', targets: [wholeRate] },
      { name: 'answered 429', unit: 'requests', better: 'less', targets: [atMost(0, 'requests')] },
    ],
  };
});

/** Measures the share of a permitted rate that is used, and the throughput without a rate. */
export const ingest: Bench = {
  contenders: {
    'spillway ingest run': async () => contestant((await import('./ingest/ours.ts')).ours),
    'fetch, p-limit, hyparquet-writer': async () =>
      contestant((await import('./ingest/straightforward.ts')).straightforward),
  },
  yardsticks: [],
  runs: [
    ...paced,
    {
      name: noLimit,
      rounds: 1,
      figures: [
        { name: 'pages', unit: '/s', better: 'more', targets: [] },
        { name: 'trades into Parquet', unit: '/s', better: 'more', targets: [times(1)] },
        { name: 'memory at its peak', unit: 'MB', better: 'less', targets: [atMost(400, 'MB')] },
      ],
    },
  ],
};

function contestant(pipeline: Pipeline): Contestant {
  return async (run, quick) => {
    const size = quick ? 'quick' : 'full';
    const latencyMs = latencyMsOf[run];
    if (latencyMs === undefined) return flatOut(pipeline, trades[size]);
    const words = ['--rate', String(ratePerSecond), '--latency', String(latencyMs)];
    words.push('--trades', '100000000', '--errors', '0.01');
    await using exchange = await Simulation.start(...words);
    await using _harvesting = await pipeline.begin(exchange.url, ratePerSecond);
    while ((await exchange.counted()).requests === 0) await setTimeout(10);
    await setTimeout(warmUpMs[size]);
    const [startedAt, before] = [performance.now(), await exchange.counted()];
    await setTimeout(windowMs[size]);
    const [endedAt, after] = [performance.now(), await exchange.counted()];
    const could = ((endedAt - startedAt) * ratePerSecond) / 1_000;
    return {
      'share of the permitted rate': (100 * (after.requests - before.requests)) / could,
      'answered 429': after.refused,
    };
  };
}

async function flatOut(pipeline: Pipeline, count: number): Promise<Record<string, number>> {
  const words = ['--rate', '0', '--latency', '0', '--errors', '0', '--trades', String(count)];
  await using exchange = await Simulation.start(...words);
  const startedAt = performance.now();
  await using harvesting = await pipeline.begin(exchange.url, anyRate);
  const { trades: got, peakMb } = await harvesting.done();
  const seconds = (performance.now() - startedAt) / 1_000;
  if (got !== count) throw new Error(`${got} trades of ${count}`);
  const { requests } = await exchange.counted();
  return {
    pages: requests / seconds,
    'trades into Parquet': got / seconds,
    'memory at its peak': peakMb,
  };
}
