import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export const program: string = join(
  import.meta.dirname,
  ...['..', '..', 'apps', 'ingest', 'bin', 'ingest.js'],
);

/** Counts of the exchange. */
export interface Counted {
  readonly requests: number;
  readonly refused: number;
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
    const all = [program, 'exchange', 'BENCH-USD', '--port', '0', ...words];
    const child = spawn(process.execPath, all, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
    const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
    const url = /http:\/\/\S+:\d+/.exec(line)?.[0] ?? '';
    return new Simulation(url, child);
  }

  async counted(): Promise<Counted> {
    const answer = await fetch(`${this.url}/simulation`);
    return (await answer.json()) as Counted;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}
