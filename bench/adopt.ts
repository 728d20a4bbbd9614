import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Contestant, Figure, Target } from './contest.ts';
import { load } from './overload/load.ts';
import { iterationsFor } from './overload/settings.ts';

/** Load on each route, in requests per second: three times the capacity behind it. */
const asked: Readonly<Record<string, number>> = { quotes: 3 * 25, score: 3 * 100 };
const patienceMs = 1_000;

/** 90 % of the 25 calls per second that the upstream can serve. */
const enough: Target = { text: 'at least 22.5 /s', met: ({ ours }) => ours >= 22.5 };

const figures = (targets: readonly Target[]): readonly Figure[] => [
  { name: 'goodput at 3x', unit: '/s', better: 'more', targets },
  { name: 'p99 of admitted at 3x', unit: 'ms', better: 'less', targets: [] },
  { name: 'lines of code', unit: '', better: 'less', targets: [] },
];

/**
 * Measures an Express app at three times its capacity, with a slow upstream (25 calls per second)
 * and a route that computes (10 ms each): bare, with the usual libraries, and as the guide to
 * adopting shows it, with nothing tuned.
 */
export const adopt: Bench = {
  contenders: {
    'spillway as the guide leads': () => contestant('ours'),
    'bare Express': () => contestant('bare'),
    'piscina, cockatiel, bottleneck, prom-client': () => contestant('peers'),
  },
  yardsticks: [],
  runs: [
    { name: 'quotes', rounds: 2, figures: figures([enough]) },
    { name: 'score', rounds: 2, figures: figures([]) },
  ],
};

async function contestant(app: string): Promise<Contestant> {
  const program = join(import.meta.dirname, 'adopt', 'server.ts');
  const upstream = fork(program, ['upstream']);
  const [upstreamPort] = (await once(upstream, 'message')) as [number];
  const ITERATIONS = String(iterationsFor(10));
  const UPSTREAM = `http://127.0.0.1:${upstreamPort}/`;
  const server = fork(program, [app], { env: { ...process.env, UPSTREAM, ITERATIONS } });
  const [port] = (await once(server, 'message')) as [number];
  return async (route, quick) => {
    const times = quick ? { warmMs: 1_000, ms: 3_000 } : { warmMs: 5_000, ms: 10_000 };
    const ratePerSecond = asked[route] ?? 0;
    const outcome = await load({ port, path: `/${route}`, ratePerSecond, patienceMs, ...times });
    // Calls that outlived their clients end before the next round.
    await new Promise((resolve) => setTimeout(resolve, quick ? 0 : 3_000));
    return {
      'goodput at 3x': outcome.goodput,
      'p99 of admitted at 3x': outcome.admittedMs,
      'lines of code': linesOf(app),
    };
  };
}

/** Lines of the app that are neither empty nor a comment. */
function linesOf(app: string): number {
  const text = readFileSync(join(import.meta.dirname, 'adopt', `${app}.ts`), 'utf8');
  return text.split('\n').filter((line) => /^(?!\s*\/\/).*\S/.test(line)).length;
}
