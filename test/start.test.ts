import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { after, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { askOperator, operatorSocket } from 'spillway-http';

const root = dirname(import.meta.dirname);
const folder = await mkdtemp(join(tmpdir(), 'spillway-start-'));
after(() => rm(folder, { recursive: true }));

/** `npm start` in a group of its own, as a terminal starts it. */
class Started implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #more = Promise.withResolvers<void>();
  text = '';
  /** Only what came by stderr: the order of lines of two streams is not known. */
  errors = '';

  constructor(...words: readonly string[]) {
    this.#child = spawn('npm', ['start', '--', ...words], {
      cwd: root,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#ended = once(this.#child, 'close');
    for (const stream of [this.#child.stdout, this.#child.stderr] as Readable[]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        this.text += chunk;
        if (stream === this.#child.stderr) this.errors += chunk;
        this.#more.resolve();
        this.#more = Promise.withResolvers();
      });
    }
  }

  /** Waits until it has said this. */
  async says(words: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = words.exec(this.text);
      if (found !== null) return found;
      const ended = this.#ended.then(() => assert.fail(`ended without ${words}: ${this.text}`));
      await Promise.race([this.#more.promise, ended]);
    }
  }

  /** The one address to open. */
  async link(): Promise<string> {
    return (
      (await this.says(/Open this first; the link works once:\n {2}(http:\/\/\S+)\n/))[1] ?? ''
    );
  }

  /** Ctrl-C: the terminal tells all of the group, and npm may tell its own child again. */
  async interrupt(): Promise<void> {
    for (let times = 0; times < 2; times += 1) {
      process.kill(-(this.#child.pid as number), 'SIGINT');
      // Two that wait to be delivered are one: a turn lets the first arrive.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Ends npm alone, as a supervisor does. */
  terminate(): void {
    this.#child.kill('SIGTERM');
  }

  async ended(): Promise<number | null> {
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    process.kill(-(this.#child.pid as number), 'SIGKILL');
    await this.#ended;
  }
}

/** The console in a browser that came by its link. */
class Opened {
  readonly #origin: string;
  readonly #cookies: string[] = [];

  static async at(link: string): Promise<Opened> {
    const opened = new Opened(link);
    assert.equal((await opened.#ask(link)).status, 302);
    assert.equal((await opened.#ask(link)).status, 401, 'a link works once');
    return opened;
  }

  private constructor(link: string) {
    this.#origin = new URL(link).origin;
  }

  async read(path: string): Promise<string> {
    return await (
      await this.#ask(this.#origin + path, { cookie: this.#cookies.join('; ') })
    ).text();
  }

  /** Sends the form of this action. */
  async send(action: string): Promise<void> {
    const form = await this.read('/launch');
    const token = /name="_csrf" value="([^"]+)"/.exec(form)?.[1] ?? '';
    const body = new URLSearchParams({ _csrf: token, action });
    const headers = { cookie: this.#cookies.join('; ') };
    assert.equal((await this.#ask(`${this.#origin}/launch`, headers, body)).status, 303);
  }

  async #ask(url: string, headers: Record<string, string> = {}, body?: URLSearchParams) {
    const post = body && { method: 'POST', body };
    const answer = await fetch(url, { redirect: 'manual', headers, ...post });
    const set = answer.headers.getSetCookie().map((each) => each.split(';')[0] as string);
    this.#cookies.push(...set);
    return answer;
  }
}

interface Stats {
  readonly parts: Readonly<Record<string, { readonly stats: { readonly calls?: number } }>>;
  readonly routes: readonly { readonly path: string; readonly answers: Record<string, number> }[];
}

/** Waits until the stats of a service are as wanted. */
async function statsOf(data: string, isWanted: (stats: Stats) => boolean): Promise<void> {
  for (;;) {
    const call = { socket: operatorSocket(data), path: '/-/stats' };
    const answer = await askOperator(call).catch(() => undefined);
    if (answer !== undefined && isWanted(JSON.parse(answer.text))) return;
    await sleep(100);
  }
}

async function answersOf(data: string, name: string, path: string): Promise<void> {
  await statsOf(join(data, name), ({ routes }) => {
    return routes.some((route) => route.path === path && Number(route.answers['200']) > 0);
  });
}

const names = ['fleet', 'ingest', 'ranker', 'console'];
const ports = names.flatMap((name) => [`--${name}-port`, '0']);
const words = ['--data', folder, ...ports];

describe('npm start', () => {
  it('serves on this machine, shows the first login once, and drains on Ctrl-C', async () => {
    await using first = new Started(...words);
    const [, url] = await first.says(/Fleet is ready at (http:\/\/127\.0\.0\.1:\d+),/);
    const [, password] = await first.says(/user {6}admin\n {2}password {2}(\S+)\n/);
    const version = await fetch(`${url}/api/request_version`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ password, worker_info: { username: 'admin' } }),
    });
    assert.equal(version.status, 200);
    const [, page] = await first.says(
      /Ingest is ready at (http:\/\/127\.0\.0\.1:\d+), and follows/,
    );
    await first.says(/of a SIMULATED exchange/);
    const shown = await fetch(`${page}/`);
    assert.match(await shown.text(), /simulated exchange, trades are made up/);
    assert.equal((await fetch(`${page}/-/live`)).status, 200);
    const [, ranker] = await first.says(/Ranker is ready at (http:\/\/127\.0\.0\.1:\d+),/);
    const [key] = await first.says(/rk_[\w-]+/);
    const headers = { authorization: `Bearer ${key}` };
    const { articles } = (await (await fetch(`${ranker}/articles`, { headers })).json()) as {
      readonly articles: readonly { readonly title: string; readonly rank: number | null }[];
    };
    assert.equal(articles.length, 10);
    const opened = await Opened.at(await first.link());
    const logins = await opened.read('/launch');
    assert.ok(logins.includes(String(password)) && logins.includes(key), logins);
    await opened.send('forget');
    const later = await opened.read('/launch');
    assert.ok(!later.includes(String(password)) && !later.includes(key), later);
    await first.interrupt();
    await first.ended();
    assert.equal(first.text.match(/Stopped; nothing was left\.\n/g)?.length, 2);
    assert.match(first.text, /Stopped; [\d,]+ trades came in \d+ requests, all committed\.\n/);
    assert.match(first.text, /All services have stopped/);
    assert.doesNotMatch(first.text, /again/);
    await assert.rejects(fetch(`${url}/-/live`));

    await using second = new Started(...words);
    await second.says(/Accounts: 1/);
    await second.link();
    await using third = new Started(...words);
    assert.equal(await third.ended(), 1);
    assert.match(third.text, /fleet runs already with its data in .*; .*npx console open/);
    assert.doesNotMatch(second.text, /password {2}/);
    await second.interrupt();
    await second.ended();
    assert.match(second.text, /All services have stopped; their data are in /);
  });

  it('has demo traffic with a switch, and ends all of it when npm is told to end', async () => {
    const data = join(folder, 'terminated');
    await using started = new Started('--data', data, '--demo', ...ports);
    const [, url] = await started.says(/Ranker is ready at (http:\/\/127\.0\.0\.1:\d+),/);
    const opened = await Opened.at(await started.link());
    await started.says(/Demo traffic runs: none of its runs, trades and ratings are real/);
    await answersOf(data, 'fleet', '/api/update_task');
    await answersOf(data, 'ranker', '/correct_rank');
    const harvest = join(data, 'ingest-demo');
    const hasFetched = ({ parts }: Stats) => Number(parts.breaker?.stats.calls) > 0;
    await statsOf(harvest, hasFetched);
    assert.match(await opened.read('/'), /Demo traffic\..*None of it is real/);
    await opened.send('stop');
    // Also while the last demo is still ending.
    await opened.send('start');
    await started.says(/Demo traffic has stopped[\s\S]*Demo traffic runs/);
    await statsOf(harvest, hasFetched);
    started.terminate();
    // Its output is closed when the last of its services is gone.
    await started.ended();
    assert.match(started.text, /All services have stopped/);
    assert.equal(started.text.match(/Demo traffic has stopped/g)?.length, 2);
    assert.equal(existsSync(harvest), false);
    await assert.rejects(fetch(`${url}/-/live`));
  });

  it('names the flag of a port that is taken, before anything is started', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    try {
      const { port } = taken.address() as AddressInfo;
      const data = join(folder, 'taken');
      const own = ports.with(ports.indexOf('--ranker-port') + 1, String(port));
      await using started = new Started('--data', data, ...own);
      assert.equal(await started.ended(), 1);
      const why = `ranker: 127.0.0.1:${port} is in use; choose another with --ranker-port`;
      assert.ok(started.text.includes(`${why}\nNothing was started.`), started.text);
      assert.doesNotMatch(started.text, /is ready/);
      assert.equal(existsSync(data), false, 'a refused start leaves no folder');
    } finally {
      taken.close();
    }
  });

  it('says what is wrong with a folder that cannot be written to', async () => {
    await using wrong = new Started('--data', join(root, 'package.json', 'data'), ...ports);
    assert.equal(await wrong.ended(), 1);
    assert.match(wrong.text, /--data: .* cannot be written to \(ENOTDIR\)\nNothing was started/);
  });

  it('says what is wrong with a port that is none', async () => {
    for (const port of ['abc', '-5']) {
      await using wrong = new Started('--data', join(folder, 'port'), '--fleet-port', port);
      assert.equal(await wrong.ended(), 1);
      const why = `--fleet-port: must be a number from 0 to 65535, got '${port}'\nNothing`;
      assert.ok(wrong.text.includes(why), wrong.text);
    }
  });

  it('stops all if one cannot start, and says which at the end', async () => {
    const data = join(folder, 'broken');
    await mkdir(data);
    await writeFile(join(data, 'fleet'), 'a file where its folder would be');
    await using started = new Started('--data', data, ...ports);
    assert.equal(await started.ended(), 1);
    assert.match(started.errors, /^fleet: EEXIST/m);
    assert.match(started.errors, /fleet did not start; its reason stands above\. .*\n$/);
  });

  it('says what it takes', async () => {
    await using wrong = new Started('--nonsense');
    assert.equal(await wrong.ended(), 2);
    assert.match(wrong.errors, /'--nonsense'.*\nnpm start -- --help lists all options\.\n$/);
    await using help = new Started('--help');
    assert.equal(await help.ended(), 0);
    assert.match(help.text, /npm start -- --data <folder>/);
  });
});
