import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Harvesting, Pipeline } from '../ingest.ts';
import { program } from './simulation.ts';

/** `ingest run`, as it is installed and with nothing tuned. */
export const ours: Pipeline = {
  async begin(url, ratePerSecond): Promise<Harvesting> {
    const folder = await mkdtempDisposable(join(tmpdir(), 'ingest-bench-'));
    const place = ['--data', folder.path, '--exchange', 'simulated', '--base-url', url];
    const rate = ['--rate-per-second', String(ratePerSecond), '--json'];
    const words = [program, 'run', 'BENCH-USD', ...place, ...rate];
    const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'ignore'] });
    process.once('exit', () => child.kill('SIGKILL'));
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    const closed = once(child, 'close');
    return {
      async done() {
        await closed;
        const { trades, status, peakMb } = JSON.parse(text);
        if (status !== 'ok') throw new Error(text);
        return { trades, peakMb };
      },
      async [Symbol.asyncDispose]() {
        child.kill('SIGKILL');
        await closed;
        await folder.remove();
      },
    };
  },
};
