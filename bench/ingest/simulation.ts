import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';

export const program: string = join(
  import.meta.dirname,
  ...['..', '..', 'apps', 'ingest', 'bin', 'ingest.js'],
);

/** Ends a child when this process ends, even if this process is killed. */
export function endWithParent(child: ChildProcess): void {
  const end = () => void child.kill('SIGKILL');
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
}

/** Steps of `nice` by which the exchange has priority over its clients. */
const prioritySteps = 10;

/** Counts that the exchange keeps. */
export interface Counted {
  readonly requests: number;
  readonly refused: number;
  /** Requests that its rate would have let through so far, by its own clock and lateness. */
  readonly permitted: number;
  /** Lateness of its event loop since it was last asked, the worst of a hundred moments, in ms. */
  readonly lateMs: number;
}

/** The part of a rate that was used. */
export interface RateShare {
  readonly percent: number;
  readonly refused: number;
  readonly lateMs: number;
}

/** An exchange in a process of its own, with a higher priority; it ends with this one. */
export class Simulation implements AsyncDisposable {
  readonly url: string;
  /** Priority for the clients, which is lower than that of the exchange. */
  readonly clientPriority: number;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
    const own = getPriority();
    const isRaised = getPriority(child.pid) < own;
    // A plain user cannot raise a priority but can lower one: then the clients get a lower one.
    this.clientPriority = isRaised ? own : Math.min(19, own + prioritySteps);
  }

  static async start(...words: readonly string[]): Promise<Simulation> {
    return await Simulation.of(['BTC-USD'], ...words);
  }

  static async of(products: readonly string[], ...words: readonly string[]): Promise<Simulation> {
    // `renice` covers all threads of the process; where it is not permitted, the run goes on.
    const raise = ['-n', String(-prioritySteps), process.execPath];
    const all = [...raise, program, 'exchange', ...products, '--port', '0', ...words];
    const child = spawn('nice', all, { stdio: ['ignore', 'pipe', 'ignore', 'ipc'] });
    const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
    const url = /http:\/\/\S+:\d+/.exec(line)?.[0] ?? '';
    return new Simulation(url, child);
  }

  async counted(): Promise<Counted> {
    const answer = await fetch(`${this.url}/simulation`);
    return (await answer.json()) as Counted;
  }

  /** Counts requests for some time, after the first request and a warm-up. */
  async shareOf(warmUpMs: number, windowMs: number): Promise<RateShare> {
    while ((await this.counted()).requests === 0) await setTimeout(10);
    await setTimeout(warmUpMs);
    const before = await this.counted();
    await setTimeout(windowMs);
    const after = await this.counted();
    const answered = after.requests - after.refused - (before.requests - before.refused);
    const percent = (100 * answered) / (after.permitted - before.permitted);
    return { percent, refused: after.refused, lateMs: after.lateMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}
