import { atMost, type Bench, type Contestant, type Figure, type Run, times } from './contest.ts';

/** One caller after the other enters, does the work and leaves. */
export type Passes = (work: () => Promise<void>, count: number) => Promise<void>;

export const limit = 8;
export const queueMax = 20_000;

const callersOf: Readonly<Record<string, number>> = {
  uncontended: 1,
  contended: 64,
  'deep queue': limit + 10_000,
};

const cost = { name: 'CPU per pass', unit: 'ns', better: 'less' } as const;
const aboveBare = 150;
/** Short enough that some rounds meet no noise, long enough for a garbage collection in each. */
const stretchNsMin = 30_000_000;

function run(name: string, targets: Figure['targets']): Run {
  // Other programs on the machine can only make a pass slower.
  return { name, rounds: 5, counts: 'best', figures: [{ ...cost, targets }] };
}

/** Measures the cost of a pass through a limiter, beside an empty async function. */
export const gate: Bench = {
  contenders: {
    'spillway Lane': async () => contestant((await import('./gate/ours.ts')).lane),
    'spillway Lane, awaited': async () => contestant((await import('./gate/ours.ts')).awaited),
    'spillway Gate': async () => contestant((await import('./gate/ours.ts')).gate),
    'bare await': async () => contestant(bareAwait),
    'bare permit': async () => contestant((await import('./gate/floor.ts')).passes),
    'p-limit': async () => contestant((await import('./gate/p-limit.ts')).passes),
    'p-queue': async () => contestant((await import('./gate/p-queue.ts')).passes),
    'async-sema': async () => contestant((await import('./gate/async-sema.ts')).passes),
    cockatiel: async () => contestant((await import('./gate/cockatiel.ts')).passes),
    bottleneck: async () => contestant((await import('./gate/bottleneck.ts')).passes, 1_000),
  },
  yardsticks: ['spillway Lane, awaited', 'spillway Gate', 'bare await', 'bare permit'],
  runs: [
    run('uncontended', [
      {
        peer: 'bare await',
        text: `at most ${aboveBare} ns more`,
        met: ({ ours, peer }) => ours - peer <= aboveBare,
      },
      times(2, 'p-limit'),
    ]),
    run('contended', []),
    run('deep queue', [atMost(1_000, 'ns')]),
  ],
};

async function bareAwait(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await work();
}

async function work(): Promise<void> {}

/** A slow contender may run with fewer callers: `callersMax`. */
function contestant(passes: Passes, callersMax: number = Infinity): Contestant {
  const passesEach = new Map<string, number>();
  return async (name, quick) => {
    const callers = Math.min(callersOf[name] ?? 1, callersMax);
    const stretch = async (each: number): Promise<number> => {
      const before = process.cpuUsage();
      await Promise.all(Array.from({ length: callers }, () => passes(work, each)));
      const { user, system } = process.cpuUsage(before);
      return (user + system) * 1_000;
    };
    let each = passesEach.get(name) ?? 1;
    while ((await stretch(each)) < stretchNsMin) each *= 2;
    passesEach.set(name, each);
    const leastWithin = async (ms: number): Promise<number> => {
      let least = await stretch(each);
      for (const endsAt = performance.now() + ms; performance.now() < endsAt; ) {
        least = Math.min(least, await stretch(each));
      }
      return least;
    };
    // V8 drops compiled code that was idle while the others were measured: warm up again.
    await leastWithin(quick ? 0 : 400);
    return { [cost.name]: (await leastWithin(quick ? 0 : 400)) / (callers * each) };
  };
}
