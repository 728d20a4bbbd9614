import { postgresUrl } from 'spillway-fixtures/postgres';
import { RedisServer } from 'spillway-fixtures/redis';
import { atLeast, atMost, type Bench, type Contestant, type Run, times } from './contest.ts';
import {
  type Figures,
  type Library,
  measureLocks,
  measureMessages,
  measurePassing,
  measureRate,
  measureRenewals,
  type Parts,
  type ServerPlace,
} from './shared/measure.ts';
import { simulateMachines } from './shared/simulated.ts';

interface Trial extends Run {
  readonly engine: keyof Library;
  /** Settings of the server. */
  readonly settings?: readonly string[];
  readonly part: keyof Parts;
  measure(parts: Required<Parts>, place: ServerPlace, ms: number): Promise<Figures>;
}

const share = {
  name: 'share of the rate',
  unit: '%',
  better: 'more',
  targets: [atLeast(99, '%')],
} as const;
const most = {
  name: 'most in any second, of the rate',
  unit: '%',
  better: 'less',
  targets: [atMost(110, '%')],
} as const;
const takes = { name: 'takes', unit: 'per s', better: 'more' } as const;
const scripts = {
  name: 'scripts sent a take',
  unit: 'scripts',
  better: 'less',
  targets: [atMost(0.1, 'scripts')],
} as const;
const cpu = {
  name: 'CPU of the server a take',
  unit: 'us',
  better: 'less',
  targets: [atMost(15, 'us')],
} as const;
const delays = (msMax: number) =>
  [
    { name: 'p50', unit: 'ms', better: 'less', targets: [atMost(msMax, 'ms')] },
    { name: 'p99', unit: 'ms', better: 'less', targets: [] },
  ] as const;

const on4 = '64 callers on 4 machines';

/** Contenders that limit takes per second on Redis. */
const limit = (perSecond: number, figures: Trial['figures'], ...settings: string[]): Trial => ({
  name: [`${perSecond.toLocaleString('en')} per s on Redis`, ...settings, on4].join(', '),
  engine: 'redis',
  settings,
  part: 'rate',
  rounds: 3,
  figures,
  measure: ({ rate }, place, ms) => measureRate(rate, place, perSecond, ms),
});

/** Runs for an engine that can wake waiters. */
const waking = (engine: 'redis' | 'postgres', on: string): readonly Trial[] => [
  {
    name: `a wanted lock passed on, on ${on}`,
    engine,
    part: 'lock',
    rounds: 3,
    figures: delays(5),
    measure: ({ lock }, place, ms) => measurePassing(lock, place, ms),
  },
  {
    name: `a message heard by another machine, on ${on}`,
    engine,
    part: 'message',
    rounds: 3,
    figures: delays(2),
    measure: ({ message }, place, ms) => measureMessages(message, place, ms),
  },
];

const trials: readonly Trial[] = [
  limit(1_000, [share, most, scripts, cpu]),
  limit(1_000, [share, most], 'appendfsync always'),
  // No contender may exceed the limit, so a comparison needs a limit that none of them reaches.
  limit(100_000, [{ ...takes, targets: [atLeast(99_000, 'per s')] }]),
  limit(1_000_000, [{ ...takes, targets: [times(10)] }]),
  ...[1, 16].flatMap((count): readonly Trial[] => [
    {
      name: `a free lock taken and given back on Redis, ${count} in flight`,
      engine: 'redis',
      part: 'lock',
      rounds: 3,
      figures: [{ name: 'locks', unit: 'per s', better: 'more', targets: [times(0.5)] }],
      measure: ({ lock }, place, ms) => measureLocks(lock, place, count, ms),
    },
    {
      name: `a held lock renewed on Redis, ${count} in flight`,
      engine: 'redis',
      part: 'lock',
      rounds: 3,
      figures: [{ name: 'renewals', unit: 'per s', better: 'more', targets: [times(0.6)] }],
      measure: ({ lock }, place, ms) => measureRenewals(lock, place, count, ms),
    },
  ]),
  ...waking('redis', 'Redis'),
  ...waking('postgres', 'Postgres'),
  {
    name: `1,000 per s on Postgres, ${on4}`,
    engine: 'postgres',
    part: 'rate',
    rounds: 3,
    figures: [share, most],
    measure: ({ rate }, place, ms) => measureRate(rate, place, 1_000, ms),
  },
];

/** Runs in virtual time, and therefore without a server and without peers. */
const simulated: Run = {
  name: '2,000 per s on 256 machines, 20 ms away, in virtual time',
  rounds: 1,
  figures: [
    share,
    most,
    { name: 'calls a take', unit: 'calls', better: 'less', targets: [atMost(0.5, 'calls')] },
    { name: 'takes that failed', unit: 'takes', better: 'less', targets: [atMost(0, 'takes')] },
    {
      name: 'most of a machine, of the least',
      unit: 'times',
      better: 'less',
      targets: [atMost(3, 'times')],
    },
  ],
};

/** Measures rates, locks and messages that many machines share, on real servers. */
export const shared: Bench = {
  contenders: {
    spillway: async () => {
      const onServers = contestant((await import('./shared/ours.ts')).library);
      return (name, quick) =>
        name === simulated.name ? simulateMachines() : onServers(name, quick);
    },
    bottleneck: async () => contestant((await import('./shared/bottleneck.ts')).library),
    'rate-limiter-flexible': async () =>
      contestant((await import('./shared/rate-limiter-flexible.ts')).library),
    redlock: async () => contestant((await import('./shared/redlock.ts')).library),
  },
  yardsticks: [],
  runs: [...trials, simulated],
};

function contestant(library: Library): Contestant {
  return async (name, quick) => {
    const trial = trials.find((each) => each.name === name);
    if (trial === undefined) return {};
    const parts = library[trial.engine];
    if (parts?.[trial.part] === undefined) return {};
    await using stack = new AsyncDisposableStack();
    const place = await open(trial, stack);
    return await trial.measure(parts as Required<Parts>, place, quick ? 1_000 : 3_000);
  };
}

async function open(trial: Trial, stack: AsyncDisposableStack): Promise<ServerPlace> {
  if (trial.engine === 'postgres') {
    const url = await postgresUrl(stack, { settings: [] });
    return { url, stack, work: async () => ({ cpuMs: 0, scripts: 0 }) };
  }
  const server = stack.use(await RedisServer.start({ settings: trial.settings ?? [] }));
  const work = async () => {
    const info = `${await server.ask('INFO', 'cpu')}${await server.ask('INFO', 'commandstats')}`;
    const sum = (field: RegExp) =>
      info.matchAll(field).reduce((total, [, value]) => total + Number(value), 0);
    return {
      cpuMs: sum(/^used_cpu_(?:sys|user):([\d.]+)/gm) * 1_000,
      scripts: sum(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm),
    };
  };
  return { url: server.url, stack, work };
}
