import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import type { Harvesting, Pipeline } from '../ingest.ts';
import { endWithParent, program } from './simulation.ts';

/** Generous, since the simulated exchange takes 3 s for an answer on average. */
const patience: readonly string[] = ['--first-answer-seconds', '60'];

/** `ingest run`, as it is installed and with nothing tuned. */
export const ours: Pipeline = {
  // The user writes only the command line.
  codeLines: 1,
  async begin({ url, ratePerSecond, folder, store, leaseSeconds, ...others }) {
    const { product = 'BTC-USD', priority = 0 } = others;
    const place = ['--data', folder, '--exchange', 'simulated', '--base-url', url];
    const shared = store === undefined ? [] : ['--store', store];
    const lease = leaseSeconds === undefined ? [] : ['--lease-seconds', String(leaseSeconds)];
    const rate = ['--rate-per-second', String(ratePerSecond), '--json'];
    const words = [program, 'run', product, ...place, ...shared, ...lease, ...patience, ...rate];
    const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'ignore'] });
    setPriority(child.pid as number, priority);
    endWithParent(child);
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    const closed = once(child, 'close');
    const harvesting: Harvesting = {
      async done() {
        await closed;
        const { trades, status, peakMb } = JSON.parse(text);
        if (status !== 'ok') throw new Error(text);
        return { trades, peakMb };
      },
      async [Symbol.asyncDispose]() {
        child.kill('SIGKILL');
        await closed;
      },
    };
    return harvesting;
  },
};
