import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable, readdir, readFile, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { atMost, type Run } from '../contest.ts';
import { ours } from './ours.ts';
import { endWithParent, program, Simulation } from './simulation.ts';

const tradesInDay = 3_000_000;
const growthPerSecond = 100;
const product = 'BTC-USD';
/** Clock ticks of the kernel in a second. */
const ticksPerSecond = 100;

/**
 * Parquet bytes written for each byte that is new in the table. A day has 5,760 changes of the
 * table, and 64 small files make a larger one: a trade is written at most three times in it.
 */
export const followRun: Run = {
  name: 'follow, 3 million trades in the day and 100 new a second',
  rounds: 1,
  figures: [
    { name: 'of a core', unit: '%', better: 'less', targets: [atMost(5, '%')] },
    { name: 'Parquet written for each byte', unit: 'x', better: 'less', targets: [atMost(3, 'x')] },
    { name: 'all written for each new trade', unit: 'bytes', better: 'less', targets: [] },
    { name: 'memory', unit: 'MB', better: 'less', targets: [atMost(250, 'MB')] },
  ],
};

export async function followCosts(quick: boolean): Promise<Record<string, number>> {
  const growth = ['--growth', String(growthPerSecond), '--trades', String(tradesInDay)];
  await using exchange = await Simulation.start('--rate', '0', '--latency', '20', ...growth);
  await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
  const place = { url: exchange.url, ratePerSecond: 1_000, folder: folder.path };
  await using backfill = await ours.begin(place);
  await backfill.done();
  const where = ['--data', folder.path, '--exchange', 'simulated', '--base-url', exchange.url];
  const words = [program, 'follow', product, '--port', '0', ...where];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  endWithParent(child);
  await once(createInterface(child.stdout), 'line');
  const pid = child.pid as number;
  try {
    await setTimeout(20_000);
    const written = new ParquetWatch(join(folder.path, 'table'));
    await written.look();
    const before = { ...(await usageOf(pid)), at: performance.now(), bytes: written.bytes };
    const endsAt = performance.now() + (quick ? 40_000 : 300_000);
    while (performance.now() < endsAt) {
      await setTimeout(100);
      await written.look();
    }
    const after = await usageOf(pid);
    const seconds = (performance.now() - before.at) / 1_000;
    const trades = seconds * growthPerSecond;
    const bytesEach = written.bytesOfFirst / tradesInDay;
    return {
      'of a core': (100 * (after.cpuSeconds - before.cpuSeconds)) / seconds,
      'Parquet written for each byte': (written.bytes - before.bytes) / (trades * bytesEach),
      'all written for each new trade': (after.writtenBytes - before.writtenBytes) / trades,
      memory: after.memoryMb,
    };
  } finally {
    child.kill('SIGINT');
    await once(child, 'exit');
  }
}

/** Sums up the sizes of all Parquet files that ever appear in a folder. */
class ParquetWatch {
  readonly #folder: string;
  readonly #seen = new Set<string>();
  bytes = 0;
  /** Bytes of the files that were there at the first look. */
  bytesOfFirst = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async look(): Promise<void> {
    const names = await readdir(this.#folder, { recursive: true });
    for (const name of names) {
      if (!name.endsWith('.parquet') || this.#seen.has(name)) continue;
      this.#seen.add(name);
      // The file was removed between the listing and this look.
      this.bytes += (await stat(join(this.#folder, name)).catch(() => ({ size: 0 }))).size;
    }
    this.bytesOfFirst ||= this.bytes;
  }
}

interface Usage {
  readonly cpuSeconds: number;
  readonly writtenBytes: number;
  readonly memoryMb: number;
}

async function usageOf(pid: number): Promise<Usage> {
  const [times, io, status] = await Promise.all(
    ['stat', 'io', 'status'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8')),
  );
  const fields = (times ?? '').slice((times ?? '').lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  const figure = (text: string | undefined, name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text ?? '')?.[1]);
  return {
    cpuSeconds: ticks / ticksPerSecond,
    writtenBytes: figure(io, 'wchar'),
    memoryMb: figure(status, 'VmRSS') / 1024,
  };
}
