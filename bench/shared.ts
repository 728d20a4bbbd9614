import { setImmediate } from 'node:timers/promises';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { RedisServer } from 'spillway-fixtures/redis';
import { atMost, type Bench, type Contestant, type Figure, type Run, times } from './contest.ts';

/** Waits until one more may start. */
export type Take = () => Promise<unknown>;
/** Takes a lock that nobody holds, and gives it back. */
export type Lock = () => Promise<unknown>;

/** The parts of one library; each call of a function opens what one machine would have. */
export interface Library {
  readonly redis?: (open: Opening) => Promise<Take>;
  readonly postgres?: (open: Opening) => Promise<Take>;
  readonly lock?: (open: Omit<Opening, 'ratePerSecond'>) => Promise<(name: string) => Lock>;
}

export interface Opening {
  readonly url: string;
  readonly ratePerSecond: number;
  readonly stack: AsyncDisposableStack;
}

/** Four parties, each with connections of its own as machines have, and 16 callers in each. */
const parties = 4;
const callers = 16;
/** The first second is left out: a full bucket makes it richer than the others. */
const settleMs = 1_000;

const share: Figure = { name: 'share of the rate', unit: '%', better: 'more', targets: [] };
const most: Figure = {
  name: 'most in any second, of the rate',
  unit: '%',
  better: 'less',
  targets: [atMost(110, '%')],
};
const takes = (least: number): Figure => {
  return { name: 'takes', unit: 'per s', better: 'more', targets: [times(least)] };
};
const cpu: Figure = {
  name: 'CPU of the server a take',
  unit: 'us',
  better: 'less',
  targets: [atMost(15, 'us')],
};

const rateRun = '1,000 per s on Redis, 64 callers on 4 machines';
const fullRun = '100,000 per s on Redis, 64 callers on 4 machines';
const postgresRun = '1,000 per s on Postgres, 64 callers on 4 machines';
const lockRun = 'a free lock taken and given back on Redis, 16 callers';

const runs: readonly Run[] = [
  { name: rateRun, rounds: 3, figures: [share, most, cpu] },
  { name: fullRun, rounds: 3, figures: [takes(10), cpu] },
  { name: postgresRun, rounds: 3, figures: [share, most] },
  {
    name: lockRun,
    rounds: 3,
    figures: [{ name: 'locks', unit: 'per s', better: 'more', targets: [times(0.5)] }],
  },
];

/** Measures rates and locks that many machines share, on real servers. */
export const shared: Bench = {
  contenders: {
    spillway: async () => contestant((await import('./shared/ours.ts')).library),
    bottleneck: async () => contestant((await import('./shared/bottleneck.ts')).library),
    'rate-limiter-flexible': async () =>
      contestant((await import('./shared/rate-limiter-flexible.ts')).library),
    redlock: async () => contestant((await import('./shared/redlock.ts')).library),
  },
  yardsticks: [],
  runs,
  also: ['shared-bucket'],
};

function contestant(library: Library): Contestant {
  return async (run, quick) => {
    await using stack = new AsyncDisposableStack();
    const ms = quick ? 2_000 : 5_000;
    if (run === postgresRun) {
      if (library.postgres === undefined) return {};
      const url = await postgresUrl(stack, { settings: [] });
      return rateFigures(await play({ open: library.postgres, url, stack, rate: 1_000, ms }), ms);
    }
    const server = stack.use(await RedisServer.start());
    const { url } = server;
    if (run === lockRun) {
      if (library.lock === undefined) return {};
      const lock = await library.lock({ url, stack });
      return { locks: await locksPerSecond(lock, ms) };
    }
    if (library.redis === undefined) return {};
    const rate = run === rateRun ? 1_000 : 100_000;
    const before = await cpuMs(server);
    const starts = await play({ open: library.redis, url, stack, rate, ms });
    const perTake = (((await cpuMs(server)) - before) * 1_000) / starts.length;
    if (run === rateRun) return { ...rateFigures(starts, ms), [cpu.name]: perTake };
    const steady = starts.filter((at) => at >= settleMs).length;
    return { takes: (steady * 1_000) / ms, [cpu.name]: perTake };
  };
}

interface Play {
  readonly open: (open: Opening) => Promise<Take>;
  readonly url: string;
  readonly rate: number;
  readonly ms: number;
  readonly stack: AsyncDisposableStack;
}

/** Time of each start, in milliseconds from the beginning, until `ms` after the first second. */
async function play({ open, url, rate, ms, stack }: Play): Promise<number[]> {
  const machines: Take[] = [];
  for (let i = 0; i < parties; i += 1) {
    machines.push(await open({ url, ratePerSecond: rate, stack }));
  }
  const starts: number[] = [];
  const startedAt = performance.now();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const call = async (take: Take): Promise<void> => {
    for (let own = 1; ; own += 1) {
      await take();
      const at = performance.now() - startedAt;
      if (at > settleMs + ms) return end();
      starts.push(at);
      // Callers come in turns of the loop, as requests do; or it would never turn.
      if (own % 16 === 0) await setImmediate();
    }
  };
  for (const take of machines) {
    // Whoever still waits at the end is refused when its limiter is closed.
    for (let i = 0; i < callers; i += 1) void call(take).catch(() => {});
  }
  await over;
  return starts;
}

function rateFigures(starts: readonly number[], ms: number): Record<string, number> {
  const steady = starts.filter((at) => at >= settleMs).length;
  return {
    [share.name]: (steady * 100) / ms,
    [most.name]: mostWithin(starts, 1_000) / 10,
  };
}

/** The most starts that any stretch of so many milliseconds holds. */
function mostWithin(starts: readonly number[], ms: number): number {
  let found = 0;
  let first = 0;
  for (const [index, at] of starts.entries()) {
    while (at - (starts[first] ?? at) >= ms) first += 1;
    found = Math.max(found, index - first + 1);
  }
  return found;
}

async function locksPerSecond(lock: (name: string) => Lock, ms: number): Promise<number> {
  const endsAt = performance.now() + ms;
  let done = 0;
  const call = async (once: Lock): Promise<void> => {
    for (; performance.now() < endsAt; done += 1) await once();
  };
  await Promise.all(Array.from({ length: callers }, (_, i) => call(lock(`bench-${i}`))));
  return (done * 1_000) / ms;
}

/** CPU that the server has used, in milliseconds. */
async function cpuMs(server: RedisServer): Promise<number> {
  const info = String(await server.ask('INFO', 'cpu'));
  const used = info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm);
  return [...used].reduce((sum, [, seconds]) => sum + Number(seconds) * 1_000, 0);
}
