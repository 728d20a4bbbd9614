import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Stats } from '../src/world/records.ts';
import { zeroStats } from '../src/world/world.ts';
import { draws, sprtArgs, stats, uniqueKey } from './fixtures/fleet-scene.ts';
import { type GivenTask, readTask } from './fixtures/scripted-task.ts';
import type { ScriptedWorker } from './fixtures/scripted-worker.ts';
import { ServedScene } from './fixtures/served-scene.ts';

interface Named {
  readonly run_id: string;
  readonly task_id: number;
}

interface Wanted {
  readonly status: number;
  readonly error?: RegExp;
  readonly info?: RegExp;
  readonly task_alive?: boolean;
}

let scene: ServedScene;
let fixedId: string;
before(async () => {
  scene = await ServedScene.open();
  fixedId = await scene.run({ num_games: 100_000 });
});
after(async () => {
  scene.assertNoFailures();
  await scene[Symbol.asyncDispose]();
});

/** A worker that was given a task. */
async function atWork(worker = scene.worker()): Promise<{ worker: ScriptedWorker; named: Named }> {
  const given: GivenTask = readTask(await worker.call('request_task'));
  return { worker, named: { run_id: given.runId, task_id: given.taskId } };
}

/** Sends it, and gets what is wanted; stored tasks and runs stay as they were. */
async function changesNothing(
  worker: ScriptedWorker,
  endpoint: string,
  body: unknown,
  wanted: Wanted,
): Promise<void> {
  const before = scene.stored().runs;
  await gives(worker, endpoint, body, wanted);
  assert.deepEqual(scene.stored().runs, before);
}

async function gives(
  worker: ScriptedWorker,
  endpoint: string,
  body: unknown,
  { status, error, info, task_alive }: Wanted,
): Promise<void> {
  const answer = await worker.send(endpoint, body);
  const text = JSON.stringify(answer);
  assert.equal(answer.status, status, text);
  const { reply } = answer;
  if (error === undefined) assert.equal(reply.error, undefined, text);
  else {
    assert.match(reply.error ?? '', error);
    // The worker shows the path of requests that were refused as such.
    if (status !== 200) assert.ok(reply.error?.startsWith(`/api/${endpoint}: `), text);
  }
  if (info !== undefined) assert.match(reply.info ?? '', info);
  assert.equal(reply.task_alive, task_alive, text);
}

describe('odd requests to a served fleet', () => {
  it('that cannot be read are refused, and name what is wrong', async () => {
    const { worker, named } = await atWork();
    const whole = worker.body(named) as { worker_info: object };
    const info = (changes: object): object => ({
      ...whole,
      worker_info: { ...whole.worker_info, ...changes },
    });
    const { nps: _nps, ...slow } = whole.worker_info as Record<string, unknown>;
    const table: readonly (readonly [unknown, RegExp])[] = [
      ['{', /request is not json encoded/],
      ['', /request is not json encoded/],
      [[], /dict|object/],
      ['"x"', /dict|object/],
      [{}, /request\['password'\] is missing/],
      [{ ...whole, sugar: 1 }, /sugar/],
      [info({ sugar: 1 }), /sugar/],
      [{ ...whole, worker_info: slow }, /nps/],
      [info({ concurrency: 0 }), /concurrency/],
      [info({ unique_key: 'x' }), /unique_key/],
      [info({ compiler: 'icc' }), /compiler/],
      [info({ worker_arch: 'z80' }), /worker_arch/],
      [{ ...whole, run_id: 'x' }, /run_id/],
      [{ ...whole, run_id: '0'.repeat(24) }, /Invalid run_id: 0{24}/],
      [{ ...whole, task_id: 99_999 }, /Invalid task_id/],
      [{ ...whole, task_id: -1 }, /task_id/],
      [{ ...whole, run_id: undefined }, /run_id/],
      [worker.body(), /Missing run_id/],
      [worker.body({ run_id: named.run_id }), /Missing task_id/],
    ];
    for (const [body, error] of table) {
      await changesNothing(worker, 'beat', body, { status: 400, error });
    }
    await gives(worker, 'beat', whole, { status: 200, task_alive: true });
  });

  it('by nobody it knows are refused alike', async () => {
    const { worker, named } = await atWork();
    const whole = worker.body(named) as { worker_info: object };
    const stranger = { ...whole, worker_info: { ...whole.worker_info, username: 'nobody' } };
    const error = /Invalid username or password\./;
    for (const endpoint of ['beat', 'request_version', 'request_task', 'update_task']) {
      for (const body of [{ ...whole, password: 'wrong' }, stranger]) {
        await changesNothing(worker, endpoint, body, { status: 401, error });
      }
    }
  });

  it('for the task of another are refused', async () => {
    const { named } = await atWork();
    const thief = scene.worker();
    const stolen = { ...named, stats: draws(24), message: 'mine', pgn: 'H4sI' };
    for (const endpoint of ['beat', 'update_task', 'failed_task', 'stop_run', 'upload_pgn']) {
      const error = /Invalid unique_key/;
      await changesNothing(thief, endpoint, thief.body(stolen), { status: 400, error });
    }
  });

  it('with results that cannot be are refused', async () => {
    const { worker, named } = await atWork();
    const wrong: readonly Partial<Stats>[] = [
      { wins: -1, draws: 1 },
      { wins: 1 },
      { wins: 1.5, draws: 0.5 },
      { pentanomial: [0, 0, 0, 0] },
      { pentanomial: [0, 0, -1, 0, 1] },
      { pentanomial: [0, 0, 1, 0, 0] },
      { crashes: -1 },
    ];
    for (const changes of wrong) {
      const body = worker.body({ ...named, stats: { ...zeroStats(), ...changes } });
      await changesNothing(worker, 'update_task', body, { status: 400, error: /stats/ });
    }
    const none = worker.body(named);
    await changesNothing(worker, 'update_task', none, { status: 400, error: /Missing stats/ });
  });

  it('with games that are no gzip file are refused', async () => {
    const { worker, named } = await atWork();
    for (const pgn of ['', 'e4 e5', Buffer.from('1. e4 e5').toString('base64')]) {
      const body = worker.body({ ...named, message: '', pgn });
      await changesNothing(worker, 'upload_pgn', body, { status: 400, error: /./ });
    }
    const none = worker.body({ ...named, message: '' });
    await changesNothing(worker, 'upload_pgn', none, { status: 400, error: /Missing pgn/ });
  });

  it('that repeat an update change nothing, and older ones end the task', async () => {
    const { worker, named } = await atWork();
    const update = (games: number): object => worker.body({ ...named, stats: draws(games) });
    await gives(worker, 'update_task', update(24), { status: 200, task_alive: true });
    await gives(worker, 'update_task', update(24), { status: 200, task_alive: true });
    const { results } = scene.stored().run(fixedId).record;
    const older = { status: 200, error: /fewer/, task_alive: false };
    await gives(worker, 'update_task', update(12), older);
    const stored = scene.stored();
    assert.deepEqual(stored.run(fixedId).record.results, results);
    assert.equal(stored.run(fixedId).tasks[named.task_id]?.active, false);
    stored.assertBalanced();
  });

  it('about a task that is over are answered, and change nothing', async () => {
    const { worker, named } = await atWork();
    const message = 'my power fails';
    await gives(worker, 'failed_task', worker.body({ ...named, message }), { status: 200 });
    const dead = { status: 200, task_alive: false };
    const over = { ...dead, info: /not active/ };
    await changesNothing(worker, 'beat', worker.body(named), dead);
    const body = worker.body({ ...named, stats: draws(24) });
    await changesNothing(worker, 'update_task', body, over);
    await changesNothing(worker, 'failed_task', worker.body({ ...named, message }), over);
  });

  it('end a task of a sequential test that is not updated by batches', async () => {
    const id = await scene.run({ ...sprtArgs(16), priority: 5 });
    const { worker, named } = await atWork();
    assert.equal(named.run_id, id);
    const body = worker.body({ ...named, stats: stats([0, 1, 3, 0, 0]) });
    const uneven = { status: 200, error: /multiple of 32/, task_alive: false };
    await gives(worker, 'update_task', body, uneven);
    scene.stored().assertBalanced();
    await gives(worker, 'request_spsa', worker.body(named), { status: 400, error: /./ });
  });

  it('from a worker with two keys, or twice from one, leave one active task', async () => {
    const { worker, named } = await atWork();
    const twin = scene.worker({
      info: { unique_key: worker.info.unique_key.replace('5622', '1111') },
    });
    await changesNothing(twin, 'request_task', twin.body(), { status: 200, error: /already/ });
    const again = await atWork(worker);
    assert.notDeepEqual(again.named, named);
    const stored = scene.stored();
    assert.equal(stored.run(named.run_id).tasks[named.task_id]?.active, false);
    assert.ok(stored.actions.some(({ message }) => message === 'Stale active task'));
    stored.assertBalanced();
  });

  it('to stop a run need CPU hours', async () => {
    const { worker, named } = await atWork();
    const body = worker.body({ ...named, message: 'wrong bench' });
    await gives(worker, 'stop_run', body, { status: 401, error: /too few games/ });
    assert.equal(scene.stored().run(named.run_id).record.finished, false);
    await scene.server.ask({ do: 'add user', username: 'veteran', cpuHours: 2000 });
    const info = { unique_key: uniqueKey(7000) };
    const veteran = await atWork(scene.worker({ username: 'veteran', info }));
    const stop = veteran.worker.body({ ...veteran.named, message: 'wrong bench' });
    await gives(veteran.worker, 'stop_run', stop, { status: 200 });
    const { record, tasks } = scene.stored().run(veteran.named.run_id);
    assert.deepEqual([record.finished, record.failed, record.workers], [true, true, 0]);
    assert.ok(tasks.every(({ active }) => !active));
    await changesNothing(veteran.worker, 'stop_run', stop, {
      status: 401,
      error: /already finished/,
    });
    const late = veteran.worker.body({ ...veteran.named, stats: draws(24) });
    const over = { status: 200, task_alive: false, info: /not active/ };
    await changesNothing(veteran.worker, 'update_task', late, over);
  });
});
