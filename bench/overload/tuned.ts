import { atLeast, atMost } from '../contest.ts';
import { type Case, figure } from './case.ts';
import { Client } from './client.ts';
import { load, type Outcome } from './load.ts';
import { capacityOf } from './settings.ts';

/** Loads, as multiples of the capacity of the route; the first is the normal one. */
const loads = [0.8, 1, 2, 5, 10] as const;
const most = 10;

const kept = 'goodput at 10x of its own peak';
const stretched = 'p99 of admitted at 10x of that at 0.8x';
const figures = [
  ...loads.map((times) => figure(`goodput at ${times}x`, '/s', 'more')),
  ...loads.map((times) => figure(`p99 of admitted at ${times}x`, 'ms', 'less')),
  figure(kept, '%', 'more', atLeast(90, '%')),
  figure(stretched, 'x', 'less', { text: 'under 2x', met: ({ ours }) => ours < 2 }),
  figure('p99 of refusals at 10x', 'ms', 'less', atMost(5, 'ms')),
  figure('p99 of beat at 10x', 'ms', 'less', atMost(20, 'ms')),
];

/**
 * A handler that computes, and one that calls a dependency which fails under too much load, each
 * with a lane of its own whose numbers are right.
 */
export const tuned: readonly Case[] = ['cpu', 'dependency'].map((name) => ({
  run: { name, rounds: 1, figures, together: name === 'dependency' },
  isTuned: true,
  async measure({ start }, quick) {
    const { port } = await start([]);
    const path = `/${name}`;
    const times = quick ? { warmMs: 300, ms: 1_000 } : { warmMs: 500, ms: 5_000 };
    const outcomes = new Map<number, Outcome>();
    for (const multiple of loads) {
      await calm(port, path);
      const ratePerSecond = (capacityOf[name] ?? 0) * multiple;
      outcomes.set(multiple, await load({ port, path, ratePerSecond, beats: true, ...times }));
    }
    return figuresOf(outcomes);
  },
}));

function figuresOf(outcomes: ReadonlyMap<number, Outcome>): Record<string, number> {
  const result: Record<string, number> = {};
  for (const [multiple, { goodput, admittedMs }] of outcomes) {
    result[`goodput at ${multiple}x`] = goodput;
    result[`p99 of admitted at ${multiple}x`] = admittedMs;
  }
  const peak = Math.max(...[...outcomes.values()].map(({ goodput }) => goodput));
  const normal = outcomes.get(loads[0]) as Outcome;
  const worst = outcomes.get(most) as Outcome;
  return {
    ...result,
    [kept]: (worst.goodput / peak) * 100,
    [stretched]: worst.admittedMs / normal.admittedMs,
    'p99 of refusals at 10x': worst.refusedMs,
    'p99 of beat at 10x': worst.beatMs,
  };
}

/** Waits until five requests in a row succeed, at most 3 s: then the server has recovered. */
async function calm(port: number, path: string): Promise<void> {
  const client = new Client(port, 1, 2_000);
  const until = performance.now() + 3_000;
  for (let good = 0; good < 5 && performance.now() < until; ) {
    const { status } = await client.get(path);
    good = status === 200 ? good + 1 : 0;
  }
  client.close();
}
