// Demo traffic for the services of `npm start`, until a signal stops it.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { StopSignal } from 'spillway/internal';
import { askOperator, operatorSocket } from 'spillway-http';

const root = dirname(import.meta.dirname);
const { values } = parseArgs({ options: { data: { type: 'string', default: 'data' } } });
const data = resolve(values.data);
/** Removed before and after each demo, so that each shows a harvest from its start. */
const harvestFolder = join(data, 'ingest-demo');
const readMs = 1_000;
const stop = new StopSignal({ left: () => 'Ended at once.' });
const children: ChildProcess[] = [];

/** Starts a command of a service; it ends when this process does. */
function start(app: string, ...words: readonly string[]): ChildProcess {
  const file = join(root, 'apps', app, 'bin', `${app}.js`);
  const child = spawn(process.execPath, [file, ...words], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  children.push(child);
  return child;
}

/** Starts an exchange with faults, and a harvest that takes ten minutes to copy it. */
async function harvest(): Promise<void> {
  await rm(harvestFolder, { recursive: true, force: true });
  const size = ['--trades', '1000000', '--rate', '5', '--errors', '0.1'];
  const exchange = start('ingest', 'exchange', ...size, '--port', '0');
  for await (const line of createInterface(exchange.stdout as Readable)) {
    const url = /ready at (\S+):/.exec(line)?.[1];
    if (url === undefined) continue;
    const products = ['BTC-USD', 'ETH-USD', 'SOL-USD'];
    const from = ['--exchange', 'simulated', '--base-url', url, '--rate-per-second', '5'];
    start('ingest', 'follow', ...products, ...from, '--data', harvestFolder, '--port', '0');
    return;
  }
}

/** Makes a user who reads the sample articles and rates them, until the demo is stopped. */
async function read(): Promise<void> {
  const socket = operatorSocket(join(data, 'ranker'));
  const { url } = JSON.parse((await askOperator({ socket, path: '/-/stats' })).text);
  const named = { socket, path: '/-/users', body: { name: 'demo' } };
  const made = await askOperator(named);
  const again = { socket, path: '/-/users/demo/key', body: {} };
  const { key } = JSON.parse((made.status === 201 ? made : await askOperator(again)).text);
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const samples = JSON.parse(
    readFileSync(join(root, 'apps/ranker/samples/articles.json'), 'utf8'),
  ) as readonly { readonly text: string }[];
  for (let at = 0; !stop.signal.aborted; at += 1) {
    const { text } = samples[at % samples.length] as { readonly text: string };
    const score = 1 + Math.floor(Math.random() * 10);
    const calls = [
      { path: '/rank', body: { text, explain: true } },
      { path: '/correct_rank', body: { text, score } },
    ];
    for (const { path, body } of calls) {
      const sent = { method: 'POST', headers, body: JSON.stringify(body) };
      // The ranker may be restarting: the next call comes in a second.
      await fetch(url + path, sent).then(
        (answer) => answer.text(),
        () => undefined,
      );
    }
    await sleep(readMs, undefined, { signal: stop.signal }).catch(() => {});
  }
}

process.stdout.write('Demo traffic runs: none of its runs, trades and ratings are real.\n');
start('fleet', 'demo-workers', '--data', join(data, 'fleet'));
await harvest();
for (const { stdout } of children) stdout?.resume();
// When all services stop together, the ranker may be gone before its user is made.
await read().catch((error) => {
  if (!stop.signal.aborted) throw error;
});
for (const child of children) child.kill('SIGTERM');
await Promise.all(
  children.map(async (child) => {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }),
);
await rm(harvestFolder, { recursive: true, force: true });
process.stdout.write('Demo traffic has stopped.\n');
process.exit();
