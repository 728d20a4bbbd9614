import { setImmediate, setTimeout } from 'node:timers/promises';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { RedisServer } from 'spillway-fixtures/redis';
import {
  atLeast,
  atMost,
  type Bench,
  type Contestant,
  type Figure,
  type Run,
  times,
} from './contest.ts';

/** Waits until one more may start. */
export type Take = () => Promise<unknown>;
/** Takes a lock, once nobody else holds it, and gives the function that gives it back. */
export type Lock = (name: string) => Promise<() => Promise<unknown>>;
/** Publishes a message, and resolves when another machine has heard it. */
export type Message = () => Promise<unknown>;

/** The parts of one library; each call of a function opens what one machine would have. */
export interface Parts {
  readonly rate?: (open: Opening) => Promise<Take>;
  readonly lock?: (place: Place) => Promise<Lock>;
  readonly message?: (place: Place) => Promise<Message>;
}

export interface Library {
  readonly redis: Parts;
  readonly postgres?: Parts;
}

export interface Place {
  readonly url: string;
  /** Disposed when the run is over. */
  readonly stack: AsyncDisposableStack;
}

export interface Opening extends Place {
  readonly ratePerSecond: number;
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
/** The limit is the highest that a bucket can have, so ours cannot be more. */
const takes: Figure = {
  name: 'takes',
  unit: 'per s',
  better: 'more',
  targets: [atLeast(99_000, 'per s')],
};
const carried: Figure = {
  name: 'takes that a core of the server can carry',
  unit: 'per s',
  better: 'more',
  targets: [times(10)],
};
const cpu: Figure = {
  name: 'CPU of the server a take',
  unit: 'us',
  better: 'less',
  targets: [atMost(15, 'us')],
};
const locks = (least: number): Figure => {
  return { name: 'locks', unit: 'per s', better: 'more', targets: [times(least)] };
};
const delays = (msMax: number): readonly Figure[] => [
  { name: 'p50', unit: 'ms', better: 'less', targets: [atMost(msMax, 'ms')] },
  { name: 'p99', unit: 'ms', better: 'less', targets: [] },
];

type Figures = Readonly<Record<string, number>>;

interface Trial extends Run {
  readonly engine: keyof Library;
  /** Undefined if the library has no such part. */
  measure(parts: Parts, place: ServerPlace, ms: number): Promise<Figures> | undefined;
}

interface ServerPlace extends Place {
  /** CPU that the server has used, in milliseconds. */
  cpuMs(): Promise<number>;
}

/** Trials that each engine goes through. */
const trials: readonly Trial[] = (['redis', 'postgres'] as const).flatMap((engine) => {
  const on = engine === 'redis' ? 'Redis' : 'Postgres';
  const each: readonly Omit<Trial, 'engine' | 'rounds'>[] = [
    {
      name: `1,000 per s on ${on}, 64 callers on 4 machines`,
      figures: engine === 'redis' ? [share, most, cpu] : [share, most],
      measure: ({ rate }, place, ms) => rate && measureRate(rate, place, 1_000, ms),
    },
    {
      name: `a wanted lock passed on, on ${on}`,
      figures: delays(5),
      measure: ({ lock }, place, ms) => lock && measurePassing(lock, place, ms),
    },
    {
      name: `a message heard by another machine, on ${on}`,
      figures: delays(2),
      measure: ({ message }, place, ms) => message && measureMessages(message, place, ms),
    },
  ];
  return each.map((trial) => ({ ...trial, engine, rounds: 3 }));
});

const redisTrials: readonly Trial[] = [
  {
    name: '100,000 per s on Redis, 64 callers on 4 machines',
    engine: 'redis',
    rounds: 3,
    figures: [takes, carried],
    measure: ({ rate }, place, ms) => rate && measureRate(rate, place, 100_000, ms),
  },
  ...[1, callers].map((count): Trial => {
    return {
      name: `a free lock taken and given back on Redis, ${count} in flight`,
      engine: 'redis',
      rounds: 3,
      figures: [locks(0.5)],
      measure: ({ lock }, place, ms) => lock && measureLocks(lock, place, count, ms),
    };
  }),
];
const runs = [...trials, ...redisTrials];

/** Measures rates, locks and messages that many machines share, on real servers. */
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
  return async (name, quick) => {
    const trial = runs.find((run) => run.name === name);
    const parts = trial && library[trial.engine];
    if (trial === undefined || parts === undefined) return {};
    await using stack = new AsyncDisposableStack();
    const ms = quick ? 2_000 : 5_000;
    return (await trial.measure(parts, await open(trial.engine, stack), ms)) ?? {};
  };
}

async function open(engine: keyof Library, stack: AsyncDisposableStack): Promise<ServerPlace> {
  if (engine === 'postgres') {
    return { url: await postgresUrl(stack, { settings: [] }), stack, cpuMs: async () => 0 };
  }
  const server = stack.use(await RedisServer.start());
  const cpuMs = async () => {
    const info = String(await server.ask('INFO', 'cpu'));
    const used = info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm);
    return [...used].reduce((sum, [, seconds]) => sum + Number(seconds) * 1_000, 0);
  };
  return { url: server.url, stack, cpuMs };
}

type OpenRate = NonNullable<Parts['rate']>;

async function measureRate(open: OpenRate, place: ServerPlace, rate: number, ms: number) {
  const before = await place.cpuMs();
  const starts = await play({ open, ...place, rate, ms });
  const used = (await place.cpuMs()) - before;
  const steady = starts.filter((at) => at >= settleMs).length;
  return {
    [share.name]: (steady * 100_000) / ms / rate,
    [most.name]: (mostWithin(starts, 1_000) * 100) / rate,
    [takes.name]: (steady * 1_000) / ms,
    [cpu.name]: (used * 1_000) / starts.length,
    [carried.name]: (starts.length * 1_000) / used,
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

async function measureLocks(
  open: NonNullable<Parts['lock']>,
  place: Place,
  count: number,
  ms: number,
): Promise<Figures> {
  const lock = await open(place);
  const endsAt = performance.now() + ms;
  let done = 0;
  const call = async (name: string): Promise<void> => {
    for (; performance.now() < endsAt; done += 1) await (await lock(name))();
  };
  await Promise.all(Array.from({ length: count }, (_, at) => call(`bench-${at}`)));
  return { locks: (done * 1_000) / ms };
}

/** Two machines want one lock all the time; from giving it back until the other has it. */
async function measurePassing(
  open: NonNullable<Parts['lock']>,
  place: Place,
  ms: number,
): Promise<Figures> {
  const machines = [await open(place), await open(place)];
  const endsAt = performance.now() + ms;
  const delaysMs: number[] = [];
  let release = await machines[0]?.('wanted');
  for (let turn = 1; performance.now() < endsAt; turn += 1) {
    const wanting = machines[turn % 2]?.('wanted');
    // Time for the other to find it held, and at first to open what it listens by.
    await setTimeout(turn < 3 ? 500 : 10);
    const from = performance.now();
    const released = release?.();
    release = await wanting;
    if (turn >= 3) delaysMs.push(performance.now() - from);
    await released;
  }
  await release?.();
  return quantiles(delaysMs);
}

async function measureMessages(
  open: NonNullable<Parts['message']>,
  place: Place,
  ms: number,
): Promise<Figures> {
  const send = await open(place);
  await send();
  const endsAt = performance.now() + ms;
  const delaysMs: number[] = [];
  while (performance.now() < endsAt) {
    const from = performance.now();
    await send();
    delaysMs.push(performance.now() - from);
    await setTimeout(5);
  }
  return quantiles(delaysMs);
}

function quantiles(values: readonly number[]): Figures {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
