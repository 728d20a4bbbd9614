import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { after, describe, it } from 'node:test';

const root = dirname(import.meta.dirname);
const folder = await mkdtemp(join(tmpdir(), 'spillway-start-'));
after(() => rm(folder, { recursive: true }));

/** `npm start` in a group of its own, as a terminal starts it. */
class Started implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  text = '';

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
      });
    }
  }

  /** Waits until it has said this. */
  async says(words: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = words.exec(this.text);
      if (found !== null) return found;
      const more = once(this.#child.stdout as Readable, 'data');
      const other = once(this.#child.stderr as Readable, 'data');
      const ended = this.#ended.then(() => assert.fail(`ended without ${words}: ${this.text}`));
      await Promise.race([more, other, ended]);
    }
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
    const [, console] = await first.says(/Open it once with:\n {2}(http:\/\/\S+)\n/);
    assert.equal((await fetch(String(console), { redirect: 'manual' })).status, 302);
    assert.equal((await fetch(String(console), { redirect: 'manual' })).status, 401);
    await first.interrupt();
    await first.ended();
    assert.equal(first.text.match(/Stopped; nothing was left\.\n/g)?.length, 2);
    assert.match(first.text, /Stopped; [\d,]+ trades came in \d+ requests, all committed\.\n/);
    assert.match(first.text, /All services have stopped/);
    assert.doesNotMatch(first.text, /again/);
    await assert.rejects(fetch(`${url}/-/live`));

    await using second = new Started(...words);
    await second.says(/Accounts: 1/);
    await second.says(/Ranker is ready/);
    assert.doesNotMatch(second.text, /password {2}/);
    await second.interrupt();
    await second.ended();
    assert.match(second.text, /All services have stopped; their data are in /);
  });

  it('ends its services too when npm is told to end', async () => {
    await using started = new Started('--data', join(folder, 'terminated'), ...ports);
    const [, url] = await started.says(/Ranker is ready at (http:\/\/127\.0\.0\.1:\d+),/);
    await started.says(/Fleet is ready/);
    await started.says(/Ingest is ready/);
    started.terminate();
    // Its output is closed when the last of its services is gone.
    await started.ended();
    assert.match(started.text, /All services have stopped/);
    await assert.rejects(fetch(`${url}/-/live`));
  });

  it('ends with the reason when a port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    try {
      const { port } = taken.address() as AddressInfo;
      const data = join(folder, 'taken');
      await using started = new Started('--data', data, ...ports, '--fleet-port', String(port));
      await started.says(new RegExp(`127\\.0\\.0\\.1:${port} is in use`));
      await started.says(/fleet has ended by itself/);
      assert.equal(await started.ended(), 1);
    } finally {
      taken.close();
    }
  });

  it('says what it takes', async () => {
    await using wrong = new Started('--nonsense');
    assert.equal(await wrong.ended(), 2);
    assert.match(wrong.text, /--nonsense[\s\S]*npm start -- --data <folder>/);
  });
});
