import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Gate } from 'spillway';
import { Listener } from 'spillway/connect';

const root = dirname(import.meta.dirname);
const guide = readFileSync(join(root, 'docs', 'guides', 'adopt.md'), 'utf8');
const programs = [...guide.matchAll(/^## (.+?)$[^#]*?```ts\n([\s\S]*?)```/gm)];
/** Folders whose packages the programs find, as those of a project would. */
const homes: Readonly<Record<string, string>> = { 'Your own Fastify': 'packages/http/test' };

async function open(t: TestContext, answer: Parameters<typeof createServer>[1]): Promise<string> {
  const listener = new Listener(createServer(answer as never));
  await listener.start();
  t.after(() => listener.close({ withinMs: 0 }));
  return listener.url;
}

async function freePort(): Promise<number> {
  const listener = new Listener(createServer());
  await listener.start();
  const { port } = new URL(listener.url);
  await listener.close();
  return Number(port);
}

async function start(t: TestContext, title: string, text: string, upstream: string) {
  const home = homes[title] ?? 'packages/spillway/test';
  const file = join(root, home, `guide-${process.pid}-${title.split(/\W/)[0]}.ts`);
  await writeFile(file, text);
  t.after(() => rm(file));
  const port = await freePort();
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const child: ChildProcess = spawn(process.execPath, [file], {
    env: { ...env, PORT: String(port), UPSTREAM: upstream },
    stdio: 'inherit',
  });
  t.after(() => child.kill('SIGKILL'));
  const url = `http://localhost:${port}`;
  for (let tries = 0; tries < 300; tries += 1) {
    const isUp = await fetch(`${url}/metrics`).then(
      () => true,
      () => false,
    );
    if (isUp) return { child, url };
    await sleep(50);
  }
  throw new Error(`${title} did not start`);
}

describe('the guide to adopting', () => {
  it('has a program for each framework', () => {
    const titles = programs.map(([, title]) => title);
    assert.equal(titles.length, 3, titles.join());
  });

  for (const [, title = '', text = ''] of programs) {
    it(`${title}: starts as it is written, answers, counts, and drains`, async (t) => {
      const upstream = await open(t, (_req, res) => {
        setTimeout(() => res.end('42 euros'), 100);
      });
      const { child, url } = await start(t, title, text, upstream);
      assert.equal(await (await fetch(`${url}/quotes`)).text(), '42 euros');
      const numbers = await (await fetch(`${url}/metrics`)).text();
      assert.match(numbers, /spillway_lane_finished_total\{lane="quotes"\} \d/);
      assert.match(numbers, /spillway_outbound_calls\w*\{outbound="exchange"\} 1/);
      const last = fetch(`${url}/quotes`);
      await sleep(50);
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      assert.equal(await (await last).text(), '42 euros', 'a request under way is answered');
      assert.deepEqual(await exited, [0, null]);
    });

    it(`${title}: answers everybody when it is asked far too much`, async (t) => {
      const gate = new Gate({ limit: 10, queueMax: 10_000 });
      const upstream = await open(t, async (_req, res) => {
        await gate.run(() => sleep(20));
        res.end('42 euros');
      });
      const { url } = await start(t, title, text, upstream);
      const ask = async (): Promise<number> => {
        const answer = await fetch(`${url}/quotes`);
        await answer.text();
        const isRefusal = answer.status === 503;
        if (isRefusal) assert.notEqual(answer.headers.get('retry-after'), null);
        return answer.status;
      };
      const statuses = await Promise.all(Array.from({ length: 400 }, ask));
      const good = statuses.filter((status) => status === 200).length;
      assert.ok(good > 0, 'some are served');
      assert.ok(statuses.includes(503), 'others are refused');
      const expected = [200, 503, 504];
      assert.deepEqual(
        statuses.filter((status) => !expected.includes(status)),
        [],
      );
    });
  }
});
