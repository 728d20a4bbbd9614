import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Gate, seededRandom } from 'spillway';
import { Listener } from 'spillway/connect';
import { freePort } from 'spillway-fixtures/free-port';
import { scratchFolder } from 'spillway-fixtures/scratch';

const root = dirname(import.meta.dirname);
const guide = readFileSync(join(root, 'docs', 'guides', 'adopt.md'), 'utf8');
const programs = [...guide.matchAll(/^## (.+?)$[^#]*?```ts\n([\s\S]*?)```/gm)];
/** Folders whose packages the programs find, as those of a project would. */
const homes: Readonly<Record<string, string>> = { 'Your own Fastify': 'packages/http' };

async function open(t: TestContext, answer: Parameters<typeof createServer>[1]): Promise<string> {
  const listener = new Listener(createServer(answer as never));
  await listener.start();
  t.after(() => listener.close({ withinMs: 0 }));
  return listener.url;
}

async function start(t: TestContext, title: string, text: string, upstream: string) {
  const folder = await scratchFolder(homes[title] ?? 'packages/spillway');
  t.after(() => folder.remove());
  const file = join(folder.path, 'main.ts');
  await writeFile(file, text);
  const port = await freePort();
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const child: ChildProcess = spawn(process.execPath, [file], {
    env: { ...env, PORT: String(port), UPSTREAM: upstream },
    stdio: 'inherit',
  });
  t.after(() => child.kill('SIGKILL'));
  const url = `http://localhost:${port}`;
  while (child.exitCode === null && child.signalCode === null) {
    const isUp = await fetch(`${url}/metrics`).then(
      () => true,
      () => false,
    );
    if (isUp) return { child, url };
    await sleep(50);
  }
  throw new Error(`${title} did not start`);
}

interface Asked {
  /** Zero if the client left after a second. */
  readonly status: number;
  /** Milliseconds from the first request of all. */
  readonly endedAt: number;
}

async function statusOf(url: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  get(url, { signal: AbortSignal.timeout(1_000) }, (res) => {
    res.resume().once('end', () => resolve(res.statusCode ?? 0));
    res.once('error', () => resolve(0));
  }).once('error', () => resolve(0));
  return await promise;
}

/** Asks at a rate, by chance, whatever comes back, as clients do that do not know each other. */
async function askAt(url: string, perSecond: number, ms: number): Promise<Asked[]> {
  const random = seededRandom(1);
  const asked: Promise<Asked>[] = [];
  const startedAt = performance.now();
  for (let at = 0; at < ms; at += (-Math.log(1 - random()) * 1_000) / perSecond) {
    await sleep(Math.max(0, startedAt + at - performance.now()));
    const end = (status: number) => ({ status, endedAt: performance.now() - startedAt });
    asked.push(statusOf(url).then(end));
  }
  return await Promise.all(asked);
}

/** Good answers a second for ten clients each of whom waits for its answer before it asks again. */
async function capacityOf(url: string, ms: number): Promise<number> {
  const startedAt = performance.now();
  let good = 0;
  const client = async () => {
    while (performance.now() < startedAt + ms) {
      const status = await statusOf(url);
      if (status === 200) good += 1;
    }
  };
  await Promise.all(Array.from({ length: 10 }, client));
  return (good * 1_000) / (performance.now() - startedAt);
}

/** With fewer good answers per second, of the upstream's 80, the machine is the bottleneck. */
const capacityMin = 20;

/**
 * Goodput at three times the capacity, as a share of the capacity; undefined if the machine is too
 * busy with other tests to tell.
 */
async function shareGiven(url: string): Promise<number | undefined> {
  const before = await capacityOf(url, 600);
  const asked = await askAt(url, 3 * 80, 3_000);
  const others = asked.filter(({ status }) => ![0, 200, 503, 504].includes(status));
  assert.deepEqual(others, [], 'answers that say what is the matter');
  const isGood = ({ status, endedAt }: Asked) => {
    return status === 200 && endedAt > 1_000 && endedAt <= 3_000;
  };
  const goodput = asked.filter(isGood).length / 2;
  // The machine may be busy with other tests: then less can be given.
  const capacity = Math.min(before, await capacityOf(url, 600));
  return capacity < capacityMin ? undefined : goodput / capacity;
}

describe('the guide to adopting', () => {
  it('has a program for each framework', () => {
    const titles = programs.map(([, title]) => title);
    assert.equal(titles.length, 3, titles.join());
  });

  for (const [, title = '', text = ''] of programs) {
    it(`${title}: starts as it is written, answers, counts, and drains`, async (t) => {
      const underWay = Promise.withResolvers<void>();
      const mayAnswer = Promise.withResolvers<void>();
      let calls = 0;
      const upstream = await open(t, async (_req, res) => {
        calls += 1;
        if (calls === 2) {
          underWay.resolve();
          await mayAnswer.promise;
        }
        res.end('42 euros');
      });
      const { child, url } = await start(t, title, text, upstream);
      assert.equal(await (await fetch(`${url}/quotes`)).text(), '42 euros');
      const numbers = await (await fetch(`${url}/metrics`)).text();
      assert.match(numbers, /spillway_lane_finished_total\{lane="quotes"\} \d/);
      assert.match(numbers, /spillway_outbound_calls\w*\{outbound="exchange"\} 1/);
      const last = fetch(`${url}/quotes`);
      await underWay.promise;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      mayAnswer.resolve();
      assert.equal(await (await last).text(), '42 euros', 'a request under way is answered');
      assert.deepEqual(await exited, [0, null]);
    });

    it(`${title}: gives what can be given when it is asked three times as much`, async (t) => {
      const gate = new Gate({ limit: 10, queueMax: 100_000 });
      // It does 80 calls a second, in the order in which they came, also for who has gone.
      const upstream = await open(t, async (_req, res) => {
        await gate.run(() => sleep(125));
        res.end('42 euros');
      });
      const { url } = await start(t, title, text, upstream);
      const quotes = `${url}/quotes`;
      // A machine that stands still for a second gives less: what lasts shows in another round.
      const shares: number[] = [];
      while (!shares.some((share) => share >= 0.6)) {
        assert.ok(shares.length < 3, `${shares} of what can be given`);
        const share = await shareGiven(quotes);
        if (share !== undefined) shares.push(share);
      }
    });
  }
});
