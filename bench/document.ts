import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bench, type Contestant, type Figure, type Run, times } from './contest.ts';

/** A value of 1 KiB; every transaction changes one of its fields. */
export interface Value {
  count: number;
  readonly padding: string;
}

/** The operations that are measured; each resolves when it is durable. */
export interface Subject extends AsyncDisposable {
  /** Adds one to the count; resolves when the file contains it. */
  increment(): Promise<void>;
  /** Content of the file. */
  count(): Promise<number>;
  /** Takes the lock between processes and gives it back. */
  lock(): Promise<void>;
}

export const initial: Value = { count: 0, padding: 'x'.repeat(1_000) };

const callers = 100;
const rate = { name: 'rate', unit: '/s', better: 'more' } as const;

function run(name: string, targets: Figure['targets']): Run {
  return { name, rounds: 3, figures: [{ ...rate, targets }] };
}

/** Durable changes of a JSON file that many processes may change, and the lock underneath. */
export const document: Bench = {
  contenders: {
    spillway: async () => contestant((await import('./document/ours.ts')).subject),
    'write-file-atomic + proper-lockfile': async () =>
      contestant((await import('./document/write-file-atomic.ts')).subject),
  },
  yardsticks: [],
  runs: [run('transactions, 100 callers, 1 KiB', [times(20)]), run('lock', [times(10)])],
};

function contestant(open: (folder: string) => Promise<Subject>): Contestant {
  return async (name, quick) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-bench-'));
    await using subject = await open(folder.path);
    const done = name === 'lock' ? locks : transactions;
    await done(subject, 100);
    return { [rate.name]: await done(subject, quick ? 300 : 2_000) };
  };
}

async function locks(subject: Subject, msMin: number): Promise<number> {
  const startedAt = performance.now();
  let count = 0;
  for (; performance.now() - startedAt < msMin; count += 1) await subject.lock();
  return (1_000 * count) / (performance.now() - startedAt);
}

async function transactions(subject: Subject, msMin: number): Promise<number> {
  const before = await subject.count();
  const startedAt = performance.now();
  let count = 0;
  const call = async () => {
    for (; performance.now() - startedAt < msMin; count += 1) await subject.increment();
  };
  await Promise.all(Array.from({ length: callers }, call));
  const tookMs = performance.now() - startedAt;
  const kept = (await subject.count()) - before;
  if (kept !== count) throw new Error(`${count} were acknowledged, and ${kept} are there`);
  return (1_000 * count) / tookMs;
}
