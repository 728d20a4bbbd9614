import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { after, describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { playPairs } from '../src/commands/demo-workers.ts';
import { RequestReader } from '../src/protocol/read-request.ts';
import { eloEstimate } from '../src/statistics/elo.ts';
import { zeroStats } from '../src/world/world.ts';
import { runArgs, sprtArgs } from './fixtures/fleet-scene.ts';
import { info } from './fixtures/fleet-site.ts';
import { type Mishaps, ScriptedWorker } from './fixtures/scripted-worker.ts';

type Answers = (endpoint: string, body: Record<string, unknown>) => object | string;

const open: { close(): void }[] = [];
after(() => {
  for (const one of open) one.close();
});

/** A server that says what it is told to say, and a worker that talks to it. */
async function scene(answers: Answers, mishaps: Mishaps = {}) {
  const heard: string[] = [];
  const reader = new RequestReader();
  const server = createServer(async (request, response) => {
    const endpoint = (request.url ?? '').replace('/api/', '');
    const body = (await json(request)) as Record<string, unknown>;
    if (endpoint !== 'request_version') reader.read(body);
    heard.push(endpoint);
    const said = answers(endpoint, body);
    if (said === '') response.writeHead(503).end();
    else {
      response.setHeader('content-type', 'application/json');
      response.end(typeof said === 'string' ? said : JSON.stringify({ duration: 0, ...said }));
    }
  });
  open.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const random = seededRandom(5);
  return { heard, worker: new ScriptedWorker({ server: { url }, random, number: 1, mishaps }) };
}

function task(numGames: number, args: object = {}): object {
  const my_task = { num_games: numGames, start: 0, stats: zeroStats() };
  const book_sri = 'x'.repeat(64);
  return {
    run: { _id: 'a'.repeat(24), args: { ...runArgs(args), book_sri }, my_task },
    task_id: 3,
  };
}

/** Gives one such task, and takes everything. */
function giving(given: object): Answers {
  return (endpoint) => {
    if (endpoint === 'request_version') return { version: 325 };
    return endpoint === 'request_task' ? given : { task_alive: true };
  };
}

describe('the scripted worker', () => {
  it('says the version, asks, beats, updates by batches, and uploads its games', async () => {
    const { heard, worker } = await scene(giving(task(60)));
    assert.equal(await worker.turn(), 'done');
    const batches = ['beat', 'update_task', 'beat', 'update_task', 'beat', 'update_task'];
    assert.deepEqual(heard, ['request_version', 'request_task', ...batches, 'upload_pgn']);
    const [played] = worker.played;
    assert.equal(played?.acknowledged, played?.sent);
  });

  it('updates a sequential test after each batch', async () => {
    const { heard, worker } = await scene(giving(task(64, sprtArgs(16))));
    assert.equal(await worker.turn(), 'done');
    assert.equal(heard.filter((endpoint) => endpoint === 'update_task').length, 2);
  });

  it('does not survive an object without a duration', async () => {
    const { worker } = await scene(() => '{"version":325}');
    await assert.rejects(worker.turn(), { name: 'WorkerKilledError' });
  });

  it('takes an empty answer for a bad network, and tries an update five times', async () => {
    const given = giving(task(60));
    const { heard, worker } = await scene((endpoint, body) =>
      endpoint === 'update_task' ? '' : given(endpoint, body),
    );
    assert.equal(await worker.turn(), 'failed');
    assert.deepEqual(heard.slice(3), [...Array(5).fill('update_task'), 'failed_task']);
    assert.equal(worker.played[0]?.acknowledged.draws, 0);
  });

  it('stops a run whose bench is wrong, and tells of crashes when they double', async () => {
    const wrong = await scene(giving(task(60)), { bench: '1' });
    assert.equal(await wrong.worker.turn(), 'stopped');
    assert.equal(wrong.heard.at(-1), 'stop_run');
    const crashing = await scene(giving(task(96)), { crashes: 1 });
    assert.equal(await crashing.worker.turn(), 'done');
    const logs = crashing.heard.filter((endpoint) => endpoint === 'worker_log');
    assert.equal(logs.length, 3);
  });

  it('plays games that the server takes, and as strongly as it is told', () => {
    const random = seededRandom(9);
    for (const elo of [-300, -20, 0, 20, 300]) {
      const stats = playPairs(zeroStats(), 5000, elo, random);
      assert.ok(new RequestReader().read({ password: '', worker_info: info(), stats }));
      const estimate = eloEstimate(stats.pentanomial);
      assert.ok(Math.abs(estimate.elo - elo) < 2 * estimate.error95, `${elo}: ${estimate.elo}`);
    }
  });
});
