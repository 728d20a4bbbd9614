import { setTimeout } from 'node:timers/promises';
import { atMost, type Bench, type Contestant, type Run, type Target } from './contest.ts';

/** Waits until the limiter lets one more call start. */
export type Take = () => Promise<unknown>;

const callers = 45;
/** The first second does not count: the bucket starts full, so it has more than the others. */
const settleMs = 1_000;

/** Burst after a rest: a hundredth of a second's worth, or one. */
export function burstOf(ratePerSecond: number): number {
  return Math.max(1, ratePerSecond / 100);
}

/** 99.5 to 100 %, to a tenth of a percent: the rate is used fully and never exceeded. */
const wholeRate: Target = {
  text: '99.5 to 100 %',
  met: ({ ours }) => ours >= 99.5 && ours < 100.05,
};

const rateOf: Readonly<Record<string, number>> = {
  '15 per s, 45 callers': 15,
  '1,000 per s, 45 callers': 1_000,
};

const runs = Object.entries(rateOf).map(([name, ratePerSecond]): Run => {
  const most = ratePerSecond + burstOf(ratePerSecond);
  return {
    name,
    rounds: 1,
    // Contenders can share a core at the slow rate; at the fast one they would delay each other.
    together: ratePerSecond < 100,
    figures: [
      { name: 'share of the rate', unit: '%', better: 'more', targets: [wholeRate] },
      {
        name: 'most in any second',
        unit: 'starts',
        better: 'less',
        targets: [atMost(most, 'starts')],
      },
    ],
  };
});

/** Measures which share of its rate a limiter grants, and whether it ever grants more. */
export const bucket: Bench = {
  contenders: {
    'spillway Bucket': async () => contestant((await import('./bucket/ours.ts')).open),
    'bottleneck minTime': async () => contestant((await import('./bucket/bottleneck.ts')).open),
    'p-queue window': async () => contestant((await import('./bucket/p-queue.ts')).openWindow),
    'p-queue spaced': async () => contestant((await import('./bucket/p-queue.ts')).openSpaced),
  },
  yardsticks: [],
  runs,
};

function contestant(open: (ratePerSecond: number) => Take): Contestant {
  return async (name, quick) => {
    const ratePerSecond = rateOf[name] ?? Number.NaN;
    const starts = await startsOf(open(ratePerSecond), settleMs + (quick ? 2_000 : 10_000));
    const steady = starts.filter((at) => at >= settleMs);
    return {
      'share of the rate': (slope(steady) * 1_000 * 100) / ratePerSecond,
      'most in any second': mostWithin(starts, 1_000),
    };
  };
}

/** Time of each start, in milliseconds from the beginning. */
async function startsOf(take: Take, ms: number): Promise<number[]> {
  const starts: number[] = [];
  const startedAt = performance.now();
  const call = async (): Promise<void> => {
    for (;;) {
      await take();
      const at = performance.now() - startedAt;
      if (at > ms) return;
      starts.push(at);
    }
  };
  const calls = Array.from({ length: callers }, call);
  // Callers still waiting at the end are abandoned: the next run has a new limiter.
  await Promise.race([setTimeout(ms), Promise.all(calls)]);
  return starts;
}

/**
 * Starts per millisecond: the slope of the line through the starts. Unlike a count between two
 * moments it does not depend on whether a burst falls just inside or just outside.
 */
function slope(starts: readonly number[]): number {
  const meanAt = starts.reduce((sum, at) => sum + at, 0) / starts.length;
  const meanIndex = (starts.length - 1) / 2;
  let together = 0;
  let alone = 0;
  for (const [index, at] of starts.entries()) {
    together += (at - meanAt) * (index - meanIndex);
    alone += (at - meanAt) ** 2;
  }
  return together / alone;
}

/** The largest number of starts in any window of this many milliseconds. */
function mostWithin(starts: readonly number[], ms: number): number {
  let most = 0;
  let first = 0;
  for (const [index, at] of starts.entries()) {
    while (at - (starts[first] ?? at) >= ms) first += 1;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
