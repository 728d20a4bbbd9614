import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { availableParallelism, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { atLeast, atMost, type Run } from '../contest.ts';
import type { Pipeline } from '../ingest.ts';
import { endWithParent, Simulation } from './simulation.ts';

const ratePerSecond = 50;
const cases: Readonly<Record<string, { readonly processes: number; readonly isSqlite: boolean }>> =
  {
    'all cores busy, 1 process on SQLite': { processes: 1, isSqlite: true },
    'all cores busy, 4 processes on SQLite': { processes: 4, isSqlite: true },
    'all cores busy, 1 process on Postgres': { processes: 1, isSqlite: false },
    'all cores busy, 4 processes on Postgres': { processes: 4, isSqlite: false },
  };

/** Measures the rate of a client that shares its cores with programs of the same priority. */
export const busyRuns: readonly Run[] = Object.keys(cases).map((name) => ({
  name,
  rounds: 1,
  figures: [
    { name: 'share of the rate', unit: '%', better: 'more', targets: [atLeast(97, '%')] },
    { name: 'answered 429', unit: 'requests', better: 'less', targets: [atMost(0, 'requests')] },
    {
      name: 'lateness of the exchange, p99',
      unit: 'ms',
      better: 'less',
      targets: [atMost(20, 'ms')],
    },
  ],
}));

export async function keepsItsRate(
  name: string,
  pipeline: Pipeline,
  quick: boolean,
): Promise<Record<string, number>> {
  const { processes, isSqlite } = cases[name] as (typeof cases)[string];
  await using stack = new AsyncDisposableStack();
  const ids = Array.from({ length: processes }, (_, at) => `BENCH${at}-USD`);
  const words = ['--rate', String(ratePerSecond), '--latency', '100', '--errors', '0'];
  const exchange = stack.use(await Simulation.of(ids, ...words, '--trades', '100000000'));
  const { path: folder } = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-bench-')));
  const store = isSqlite ? `sqlite:${join(folder, 'ingest.db')}` : await postgresUrl(stack);
  const priority = exchange.clientPriority;
  for (let at = 0; at < availableParallelism(); at += 1) stack.use(burner(priority));
  const place = { url: exchange.url, ratePerSecond, folder, store, priority };
  for (const product of ids) stack.use(await pipeline.begin({ ...place, product }));
  const share = await exchange.shareOf(15_000, quick ? 10_000 : 60_000);
  return {
    'share of the rate': share.percent,
    'answered 429': share.refused,
    'lateness of the exchange, p99': share.lateMs,
  };
}

/** Starts a process that keeps one core busy until it is disposed. */
function burner(priority: number): Disposable {
  const child: ChildProcess = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  setPriority(child.pid as number, priority);
  endWithParent(child);
  return { [Symbol.dispose]: () => void child.kill('SIGKILL') };
}
