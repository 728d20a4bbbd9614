import { atMost, type Bench, type Contestant, type Figure, type Target } from './contest.ts';
import { Connections } from './fleet/connections.ts';
import { serverProcess } from './fleet/server-process.ts';
import { type Endpoint, endpoints, type SeededTask, Workers } from './fleet/workers.ts';

const published = 'fishtest, as published at 9,423 workers';
const few = 'with 1,000 tasks';
const bare = 'a bare commit of one row';
const seed = { users: 20, runs: 40 };
/** Requests a second when times are measured: four times those of 9,423 workers. */
const pacedPerSecond = 500;
/** Requests in flight when the server runs at full load. */
const atOnce = 32;
const askers = 200;
/** Workers that ask for a task at the same moment. */
const crowd = 1_000;
/** Upper bound on what our own work adds to a bare commit, in microseconds. */
const ownUsMax = 400;

/** In microseconds, at the server; only medians are published. */
const publishedUs: Readonly<Record<Endpoint, number>> = {
  beat: 6_000,
  update_task: 7_000,
  request_version: 4_000,
  request_task: 15_000,
};

/** Target for requests whose answer means durable: they cannot be faster than a commit. */
const durable: Target = {
  peer: bare,
  text: `at most ${ownUsMax} us more`,
  met: ({ ours, peer }) => ours - peer <= ownUsMax,
};

function figures(endpoint: Endpoint): Figure[] {
  const common = { unit: 'us', better: 'less' } as const;
  const isDurable = endpoint === 'update_task' || endpoint === 'request_task';
  const p99 = { ...atMost(10_000, 'us'), peer: few };
  return [
    { ...common, name: `p50 of ${endpoint}`, targets: [isDurable ? durable : atMost(1_000, 'us')] },
    { ...common, name: `p99 of ${endpoint}`, targets: [p99] },
  ];
}

const busy = 'told to ask again';
const perCore = 'requests a second of one core';
const rate = 'requests a second';

/**
 * Measures the time of each kind of request at the server, durable results included, with more and
 * more active tasks; how many requests it answers per second of CPU time of all its threads; and
 * how many of a crowd it refuses. In all other runs a refusal, or no task, fails the bench.
 */
export const fleet: Bench = {
  contenders: {
    'with 100,000 tasks': () => contestant(100_000),
    'with 10,000 tasks': () => contestant(10_000),
    [few]: () => contestant(1_000),
    [bare]: async () => (await import('./fleet/bare-commit.ts')).contestant,
    [published]: async () => async () => {
      const entries = Object.entries(publishedUs);
      return Object.fromEntries(entries.map(([name, us]) => [`p50 of ${name}`, us]));
    },
  },
  yardsticks: ['with 10,000 tasks', few, bare],
  runs: [
    { name: `${pacedPerSecond} requests a second`, rounds: 3, figures: endpoints.flatMap(figures) },
    {
      name: 'as many as it can',
      rounds: 3,
      figures: [
        { name: perCore, unit: '/s', better: 'more', targets: [] },
        { name: rate, unit: '/s', better: 'more', targets: [] },
      ],
    },
    {
      name: `${crowd} request_task at once`,
      rounds: 3,
      figures: [{ name: busy, unit: '%', better: 'less', targets: [atMost(1, '%')] }],
    },
  ],
};

/** The load comes from this process; the server has one of its own, on a folder of its own. */
async function contestant(tasks: number): Promise<Contestant> {
  const ask = await serverProcess();
  const url = await ask<string>({ do: 'serve' });
  const connections = new Connections(Number(new URL(url).port));
  const seeded = await ask<SeededTask[]>({ do: 'seed', tasks, ...seed });
  const workers = new Workers(connections, seeded, { askers, crowd });
  const cpuUs = async (): Promise<number> => (await ask<{ cpuUs: number }>({ do: 'usage' })).cpuUs;
  await flatOut(workers, 1_000);
  return async (run, quick) => {
    if (run.startsWith('as many')) {
      const before = await cpuUs();
      const ms = quick ? 1_000 : 3_000;
      const startedAt = performance.now();
      const count = await flatOut(workers, ms);
      const passedMs = performance.now() - startedAt;
      const usedUs = (await cpuUs()) - before;
      return { [perCore]: (count * 1e6) / usedUs, [rate]: (count * 1_000) / passedMs };
    }
    if (run.endsWith('at once')) return { [busy]: 100 * (await workers.rush()) };
    return await paced(workers, quick ? 2_000 : 5_000);
  };
}

/** Sends at an even rate, however long the answers take. */
async function paced(workers: Workers, ms: number): Promise<Record<string, number>> {
  const taken = new Map<Endpoint, number[]>(endpoints.map((endpoint) => [endpoint, []]));
  const underWay: Promise<void>[] = [];
  const one = async (): Promise<void> => {
    const { endpoint, us } = await workers.next();
    taken.get(endpoint)?.push(us);
  };
  const startedAt = performance.now();
  for (let passed = 0; passed < ms; passed = performance.now() - startedAt) {
    while (underWay.length < (passed * pacedPerSecond) / 1_000) underWay.push(one());
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(underWay);
  const result: Record<string, number> = {};
  for (const [endpoint, all] of taken) {
    const sorted = all.toSorted((a, b) => a - b);
    result[`p50 of ${endpoint}`] = sorted[Math.floor(sorted.length * 0.5)] ?? Number.NaN;
    result[`p99 of ${endpoint}`] = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
  }
  return result;
}

/** Number of calls that were answered. */
async function flatOut(workers: Workers, ms: number): Promise<number> {
  const until = performance.now() + ms;
  let count = 0;
  const send = async (): Promise<void> => {
    for (; performance.now() < until; count += 1) await workers.next();
  };
  await Promise.all(Array.from({ length: atOnce }, send));
  return count;
}
