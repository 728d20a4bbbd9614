import { atMost, type Bench, type Contestant, median, type Run, times } from './contest.ts';

/** The same four tasks for every pool, on two workers. */
export interface PoolContender {
  noop(): Promise<unknown>;
  /** Returns an object, copied both ways. */
  echo(value: object): Promise<object>;
  /** Returns a typed array, transferred both ways where the pool can. */
  bytes(value: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /** Computes for a number of iterations. */
  spin(iterations: number): Promise<unknown>;
}

export const workers = 2;
const rate = { name: 'tasks', unit: 'per s', better: 'more' } as const;
const latency = { name: 'p50', unit: 'us', better: 'less' } as const;
const loopTime = { name: 'loop time per task', unit: 'us', better: 'less' } as const;
const noSlower = [times(1)];

/** Work of one caller, repeated; each call gets the result of the one before. */
type Caller = (pool: PoolContender) => () => Promise<unknown>;

interface Load {
  readonly inFlight: number;
  readonly caller: Caller;
}

const noop: Caller = (pool) => () => pool.noop();
const spin =
  (microseconds: number): Caller =>
  (pool) =>
  () =>
    pool.spin(microseconds * iterationsPerMicrosecond);

const loads: Readonly<Record<string, Load>> = {
  'no-op, 64 in flight': { inFlight: 64, caller: noop },
  'no-op, 1,024 in flight': { inFlight: 1_024, caller: noop },
  'no-op, 1 in flight': { inFlight: 1, caller: noop },
  '1 KiB object, 64 in flight': {
    inFlight: 64,
    caller: (pool) => {
      // Each caller has its own object: structured clone copies an object in a message only once.
      let value = record();
      return async () => {
        value = await pool.echo(value);
      };
    },
  },
  '64 KiB array, 64 in flight': {
    inFlight: 64,
    caller: (pool) => {
      let array = new Uint8Array(64 * 1024);
      return async () => {
        array = await pool.bytes(array);
        if (array.length !== 64 * 1024) throw new Error('the array was lost on the way');
      };
    },
  },
  '100 us of CPU, 64 in flight': { inFlight: 64, caller: spin(100) },
  '1 ms of CPU, 64 in flight': { inFlight: 64, caller: spin(1_000) },
};

/** 1 KiB as JSON: the kind of record that services pass on. */
function record(): object {
  return {
    id: 123_456,
    name: 'a worker that asked for something to do',
    tags: Array.from({ length: 16 }, (_, at) => `tag number ${at}`),
    scores: Array.from({ length: 24 }, (_, at) => at * 1.5),
    nested: { note: 'x'.repeat(564), ok: true, none: null },
  };
}

/**
 * A fixed amount of work and not a fixed time, or a thread that waits for a core would count the
 * wait as work. About 1 us on a core of 2026.
 */
const iterationsPerMicrosecond = 470;

const runs: readonly Run[] = [
  {
    name: 'no-op, 64 in flight',
    figures: [
      {
        ...rate,
        targets: [times(10, 'piscina'), times(3), times(0.7, 'raw batched')],
      },
      { ...loopTime, targets: [atMost(5, 'us')] },
    ],
  },
  {
    name: 'no-op, 1,024 in flight',
    figures: [{ ...rate, targets: [times(10, 'piscina'), times(5)] }],
  },
  {
    name: 'no-op, 1 in flight',
    figures: [{ ...latency, targets: [times(1)] }],
    // A thread that the system wakes on another core answers after 60 us instead of 15, in every
    // pool; chance decides on which core it is woken, for a whole round.
    counts: 'best' as const,
  },
  { name: '1 KiB object, 64 in flight', figures: [{ ...rate, targets: noSlower }] },
  { name: '64 KiB array, 64 in flight', figures: [{ ...rate, targets: noSlower }] },
  { name: '100 us of CPU, 64 in flight', figures: [{ ...rate, targets: noSlower }] },
  { name: '1 ms of CPU, 64 in flight', figures: [{ ...rate, targets: noSlower }] },
].map((run) => ({ ...run, rounds: 5, isPaired: run.counts === undefined }));

/** Measures the tasks that two worker threads get, and their cost on the event loop. */
export const pool: Bench = {
  contenders: {
    'spillway Pool': async () => contestant(await (await import('./pool/ours.ts')).open()),
    piscina: async () => contestant((await import('./pool/piscina.ts')).open(1)),
    'piscina, 64 per worker': async () => contestant((await import('./pool/piscina.ts')).open(64)),
    tinypool: async () => contestant((await import('./pool/tinypool.ts')).open()),
    poolifier: async () => contestant((await import('./pool/poolifier.ts')).open()),
    workerpool: async () => contestant((await import('./pool/workerpool.ts')).open()),
    'raw batched': async () => contestant((await import('./pool/raw.ts')).open()),
  },
  yardsticks: ['raw batched'],
  runs,
};

function contestant(contender: PoolContender): Contestant {
  const warm = new Set<string>();
  return async (run, quick) => {
    const load = loads[run];
    if (load === undefined) throw new Error(`no run ${run}`);
    // The first contender must not be measured while its code is still being compiled.
    await keepBusy(contender, load, warm.has(run) ? 50 : 500);
    warm.add(run);
    return await keepBusy(contender, load, quick ? 100 : 400);
  };
}

/** Keeps so many tasks in flight for a time, and says how many were done and what they cost. */
async function keepBusy(contender: PoolContender, { inFlight, caller }: Load, ms: number) {
  const latencies: number[] = [];
  let done = 0;
  const startedAt = performance.now();
  const endsAt = startedAt + ms;
  const before = process.threadCpuUsage();
  const callAgain = async (): Promise<void> => {
    const call = caller(contender);
    for (let calledAt = startedAt; calledAt < endsAt; ) {
      await call();
      const now = performance.now();
      if (inFlight === 1) latencies.push((now - calledAt) * 1_000);
      calledAt = now;
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, callAgain));
  const { user, system } = process.threadCpuUsage(before);
  return {
    [rate.name]: (done * 1_000) / (performance.now() - startedAt),
    [latency.name]: median(latencies),
    [loopTime.name]: (user + system) / done,
  };
}
