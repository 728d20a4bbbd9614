import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';

export const program: string = join(
  import.meta.dirname,
  ...['..', '..', 'apps', 'ingest', 'bin', 'ingest.js'],
);

/** Counts of the exchange. */
export interface Counted {
  readonly requests: number;
  readonly refused: number;
  /** Lateness of its event loop, the worst of a hundred moments, in ms. */
  readonly lateMs: number;
}

/** The part of a rate that was used. */
export interface RateShare {
  readonly percent: number;
  readonly refused: number;
  readonly lateMs: number;
}

/** An exchange in a process of its own; it ends with this one. */
export class Simulation implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(...words: readonly string[]): Promise<Simulation> {
    return await Simulation.of(['BENCH-USD'], ...words);
  }

  static async of(products: readonly string[], ...words: readonly string[]): Promise<Simulation> {
    const all = [program, 'exchange', ...products, '--port', '0', ...words];
    const child = spawn(process.execPath, all, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
    const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
    const url = /http:\/\/\S+:\d+/.exec(line)?.[0] ?? '';
    return new Simulation(url, child);
  }

  async counted(): Promise<Counted> {
    const answer = await fetch(`${this.url}/simulation`);
    return (await answer.json()) as Counted;
  }

  /** Counts the requests of a while, after the first has come and a warm-up is over. */
  async shareOf(ratePerSecond: number, warmUpMs: number, windowMs: number): Promise<RateShare> {
    while ((await this.counted()).requests === 0) await setTimeout(10);
    await setTimeout(warmUpMs);
    const startedAt = performance.now();
    const before = await this.counted();
    await setTimeout(windowMs);
    const after = await this.counted();
    const could = ((performance.now() - startedAt) * ratePerSecond) / 1_000;
    const percent = (100 * (after.requests - before.requests)) / could;
    return { percent, refused: after.refused, lateMs: after.lateMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}
