import { once } from 'node:events';
import { Agent, get as httpGet, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { atMost, type Bench, type Contestant, type Figure } from './contest.ts';
import { Connections } from './fleet/connections.ts';
import { serverProcess } from './fleet/server-process.ts';
import { type SeededTask, Workers } from './fleet/workers.ts';

const withTabs = 'with 5,000 open tabs';
const withoutTabs = 'without open tabs';
const tabs = 5_000;
const seed = { users: 20, runs: 100, tasks: 10_000 };
/** Updates per second: each has 24 games, so these are 1,000 games per second. */
const updatesPerSecond = 42;
/** Heartbeats per second of 10,000 workers, each of which sends one every two minutes. */
const beatsPerSecond = 83;
/** Warm-up: tabs stay open for hours, but the first messages run code that is not compiled. */
const settleMs = 15_000;

/** Every page, of a sequential test where it is about a run. */
const paths = [
  ...['/tests', '/tests/finished', '/tests/user/user1', '/tests/machines', '/tests/run?id={id}'],
  ...['/tests/view/{id}', '/tests/tasks/{id}', '/tests/stats/{id}', '/tests/live_elo/{id}'],
  ...['/actions', '/contributors', '/user_management?group=all', '/user', '/workers/show'],
  ...['/nns', '/upload', '/sprt_calc', '/rate_limits'],
] as const;

const eachPage = 'each page, 100 active runs and 10,000 machines';
const live = '1,000 games a second';
const share = 'of a core';
const beat = 'p99 of beat';

function pageFigures(path: string): Figure[] {
  const common = { better: 'less' } as const;
  return [
    { ...common, name: `time of ${path}`, unit: 'ms', targets: [atMost(20, 'ms')] },
    { ...common, name: `size of ${path}`, unit: 'KB', targets: [atMost(100, 'KB')] },
  ];
}

/** Measures what a page costs the server, and how thousands of open pages delay the workers. */
export const pages: Bench = {
  contenders: {
    [withTabs]: () => contestant(tabs),
    [withoutTabs]: () => contestant(0),
  },
  yardsticks: [withoutTabs],
  runs: [
    { name: eachPage, rounds: 1, figures: paths.flatMap(pageFigures) },
    {
      name: live,
      rounds: 3,
      figures: [
        {
          name: share,
          unit: '%',
          better: 'less',
          targets: [
            {
              peer: withoutTabs,
              text: 'at most 10 % of a core more',
              met: ({ ours, peer }) => ours - peer <= 10,
            },
          ],
        },
        {
          name: beat,
          unit: 'ms',
          better: 'less',
          targets: [
            {
              peer: withoutTabs,
              text: 'at most 1 ms more',
              met: ({ ours, peer }) => ours - peer <= 1,
            },
          ],
        },
      ],
    },
  ],
};

/** The tabs and the load come from this process; the server has one of its own. */
async function contestant(count: number): Promise<Contestant> {
  const ask = await serverProcess();
  const url = await ask<string>({ do: 'serve' });
  await ask({ do: 'add user', username: 'approver', isApprover: true });
  const tasks = await ask<SeededTask[]>({ do: 'seed', ...seed });
  const connections = new Connections(Number(new URL(url).port));
  const workers = new Workers(connections, tasks, { askers: 1, crowd: 0 });
  const cpuUs = async (): Promise<number> => (await ask<{ cpuUs: number }>({ do: 'usage' })).cpuUs;
  const open = new Tabs(Number(new URL(url).port));
  return async (run, quick) => {
    if (run === eachPage) {
      const cookie = await logIn(url);
      return await measurePages(url, cookie, await sequentialRun(url), quick ? 3 : 15);
    }
    await open.atLeast(count);
    await paced(workers, settleMs);
    const before = await cpuUs();
    const startedAt = performance.now();
    const beats = await paced(workers, quick ? 6_000 : 10_000);
    const tookMs = performance.now() - startedAt;
    const usedMs = ((await cpuUs()) - before) / 1_000;
    if (count > 0 && open.bytes === 0) throw new Error('the tabs hear nothing');
    const sorted = beats.toSorted((a, b) => a - b);
    const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
    return { [share]: (100 * usedMs) / tookMs, [beat]: p99 / 1_000 };
  };
}

/** Sends updates and heartbeats at an even rate; returns the server's time for each beat, in us. */
async function paced(workers: Workers, ms: number): Promise<number[]> {
  const taken: number[] = [];
  const underWay: Promise<unknown>[] = [];
  const startedAt = performance.now();
  let updates = 0;
  let beats = 0;
  for (let passed = 0; passed < ms; passed = performance.now() - startedAt) {
    for (; updates < (passed * updatesPerSecond) / 1_000; updates += 1) {
      underWay.push(workers.send('update_task'));
    }
    for (; beats < (passed * beatsPerSecond) / 1_000; beats += 1) {
      underWay.push(workers.send('beat').then((us) => taken.push(us)));
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(underWay);
  return taken;
}

/** Tabs that have the home page open: they read every message and check nothing. */
class Tabs {
  readonly #port: number;
  readonly #sockets: Socket[] = [];
  bytes = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async atLeast(count: number): Promise<void> {
    while (this.#sockets.length < count) {
      // A browser has the page before it asks for changes.
      const page = await fetch(`http://127.0.0.1:${this.#port}/tests`);
      const version = /data-live-version="([^"]+)"/.exec(await page.text())?.[1] ?? '';
      const more = Math.min(100, count - this.#sockets.length);
      await Promise.all(Array.from({ length: more }, () => this.#open(version)));
    }
  }

  async #open(version: string): Promise<void> {
    const socket = connect({ port: this.#port, host: '127.0.0.1' });
    this.#sockets.push(socket);
    const headers = `host: localhost\r\nlast-event-id: ${version}`;
    socket.write(`GET /tests/_live HTTP/1.1\r\n${headers}\r\n\r\n`);
    const [first] = (await once(socket, 'data')) as [Buffer];
    if (!first.toString('latin1').startsWith('HTTP/1.1 200')) throw new Error(String(first));
    socket.on('data', (chunk) => {
      this.bytes += chunk.length;
    });
  }
}

async function logIn(url: string): Promise<string> {
  const asked = httpGet(`${url}/login`, { headers: { accept: 'text/html' } });
  const [form] = (await once(asked, 'response')) as [IncomingMessage];
  const text = String(await buffer(form));
  const token = /name="csrf-token" content="([^"]+)"/.exec(text)?.[1] ?? '';
  const cookies = new Map<string, string>();
  const keep = (answer: IncomingMessage): void => {
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [name = '', value = ''] = (line.split(';')[0] ?? '').split(/=(.*)/s);
      cookies.set(name, value);
    }
  };
  const cookie = () => [...cookies].map((pair) => pair.join('=')).join('; ');
  keep(form);
  const fields = { username: 'approver', password: 'secret', csrf_token: token };
  const body = String(new URLSearchParams(fields));
  const type = 'application/x-www-form-urlencoded';
  const headers = { 'content-type': type, 'content-length': body.length, cookie: cookie() };
  const sent = request(`${url}/login`, { method: 'POST', headers });
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  keep(answer);
  answer.resume();
  if (answer.statusCode !== 302) throw new Error(`log in: ${answer.statusCode}`);
  return cookie();
}

async function sequentialRun(url: string): Promise<string> {
  const answer = await fetch(`${url}/api/active_runs`);
  const runs = (await answer.json()) as Record<
    string,
    { readonly args: { readonly sprt?: object } }
  >;
  return Object.keys(runs).find((id) => runs[id]?.args.sprt !== undefined) ?? '';
}

/** The median time, over a connection that is kept, and the bytes of each page. */
async function measurePages(
  url: string,
  cookie: string,
  id: string,
  times: number,
): Promise<Record<string, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { cookie, accept: 'text/html', 'accept-encoding': 'gzip, br' };
  const result: Record<string, number> = {};
  for (const path of paths) {
    const took: number[] = [];
    let bytes = 0;
    for (let time = 0; time < times; time += 1) {
      const startedAt = performance.now();
      const asked = httpGet(`${url}${path.replace('{id}', id)}`, { agent, headers });
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      bytes = (await buffer(answer)).length;
      took.push(performance.now() - startedAt);
      if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
    }
    result[`time of ${path}`] = took.toSorted((a, b) => a - b)[times >> 1] ?? Number.NaN;
    result[`size of ${path}`] = bytes / 1_000;
  }
  agent.destroy();
  return result;
}
