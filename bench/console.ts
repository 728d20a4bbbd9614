import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { askOperator, operatorSocket } from 'spillway-http';
import { atMost, type Bench, type Contestant, type Figure } from './contest.ts';

const watched = 'console, a page is open';
const unwatched = 'console, nobody looks';
const paths: Readonly<Record<string, string>> = { now: '/', lanes: '/lanes', events: '/events' };
const settleMs = 5_000;
const measureMs = 20_000;

const figures: readonly Figure[] = [
  { name: 'of a core', unit: '%', better: 'less', targets: [atMost(5, '%')] },
  { name: 'memory', unit: 'MB', better: 'less', targets: [] },
  { name: 'updates', unit: '/s', better: 'more', targets: [] },
];

/** Measures the console beside ten services with fifty parts each, at one update a second. */
export const console: Bench = {
  contenders: {
    [watched]: () => contestant(true),
    [unwatched]: () => contestant(false),
  },
  yardsticks: [unwatched],
  runs: Object.keys(paths).map((name) => ({ name: `the page ${name}`, rounds: 1, figures })),
};

async function contestant(isWatched: boolean): Promise<Contestant> {
  const data = mkdtempSync(join(tmpdir(), 'spillway-bench-console-'));
  process.once('exit', () => rmSync(data, { recursive: true, force: true }));
  const services = fork(join(import.meta.dirname, 'console', 'services.ts'), [data]);
  await once(services, 'message');
  const program = join(import.meta.dirname, '..', 'apps', 'console', 'bin', 'console.js');
  const words = [program, 'serve', '--data', data, '--port', '0'];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  await once(child, 'message');
  const socket = operatorSocket(join(data, 'console'));
  return async (run, quick) => {
    const path = paths[run.replace('the page ', '')] ?? '/';
    const stream = isWatched ? await openPage(socket, path) : undefined;
    let updates = 0;
    stream?.on('data', (chunk: Buffer) => {
      updates += chunk.toString('latin1').match(/^id: /gm)?.length ?? 0;
    });
    await sleep(quick ? 1_000 : settleMs);
    const before = await usage(socket);
    updates = 0;
    await sleep(quick ? 2_000 : measureMs);
    const after = await usage(socket);
    stream?.destroy();
    const ms = after.uptimeMs - before.uptimeMs;
    const share = (100 * (after.cpuMs - before.cpuMs)) / ms;
    const memory = after.residentBytes / 1e6;
    return { 'of a core': share, memory, updates: (updates * 1_000) / ms };
  };
}

async function usage(socket: string) {
  const { text: body } = await askOperator({ socket, path: '/-/stats' });
  const { cpuUserMs, cpuSystemMs, uptimeMs, residentBytes } = JSON.parse(body).process;
  return { cpuMs: cpuUserMs + cpuSystemMs, uptimeMs, residentBytes };
}

/** Loads a page as a browser does, and listens to its changes. */
async function openPage(socket: string, path: string): Promise<IncomingMessage> {
  const answer = await askOperator({ socket, path: '/-/open', method: 'POST' });
  const link = new URL(JSON.parse(answer.text).url);
  const entered = await ask(link, {});
  const cookie = String(entered.headers['set-cookie']).split(';')[0] ?? '';
  const page = await text(await ask(new URL(path, link), { cookie }));
  const version = /data-live-version="([^"]+)"/.exec(page)?.[1] ?? '';
  const live = new URL(`${path === '/' ? '' : path}/_live`, link);
  const stream = await ask(live, { cookie, 'last-event-id': version });
  if (stream.statusCode !== 200) throw new Error(`${live.pathname}: ${stream.statusCode}`);
  return stream;
}

async function ask(url: URL, headers: Record<string, string>): Promise<IncomingMessage> {
  const [answer] = await once(get(url, { headers }), 'response');
  return answer;
}
