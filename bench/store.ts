import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { atMost, type Bench, type Contestant, times } from './contest.ts';

export interface Table extends AsyncDisposable {
  /** Adds one row in a transaction of its own, and returns when it is safe on the disk. */
  insert(name: string): Promise<unknown>;
}

export const createTable = 'CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL)';
export const insertRow = 'INSERT INTO item (name) VALUES (?)';
const callers = 64;

/** Durable single-row transactions, and how long they block the event loop. */
export const store: Bench = {
  contenders: {
    'spillway SqliteFile': async () => contestant((await import('./store/ours.ts')).open),
    'node:sqlite on the loop': async () => contestant((await import('./store/on-loop.ts')).open),
  },
  yardsticks: [],
  runs: [
    {
      name: 'durable transactions, 64 callers',
      rounds: 5,
      figures: [
        { name: 'transactions', unit: 'per s', better: 'more', targets: [times(15)] },
        { name: 'p99 loop delay', unit: 'ms', better: 'less', targets: [atMost(5, 'ms')] },
      ],
    },
  ],
};

function contestant(open: (path: string) => Promise<Table>): Contestant {
  return async (_run, quick) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-bench-'));
    await using table = await open(join(folder.path, 'bench.db'));
    await keepBusy(table, 200);
    return await keepBusy(table, quick ? 300 : 1_500);
  };
}

async function keepBusy(table: Table, ms: number): Promise<Readonly<Record<string, number>>> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  let done = 0;
  delay.enable();
  const startedAt = performance.now();
  const call = async (): Promise<void> => {
    while (performance.now() - startedAt < ms) {
      await table.insert('a row of some forty characters, as rows are');
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  const tookMs = performance.now() - startedAt;
  delay.disable();
  return {
    transactions: (done * 1_000) / tookMs,
    'p99 loop delay': delay.percentile(99) / 1e6,
  };
}
