import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SpsaResults } from '../src/protocol/read-request.ts';
import { stopByUser } from '../src/world/manage.ts';
import type { Stats } from '../src/world/records.ts';
import type { Task } from '../src/world/run.ts';
import { beat, failTask, requestSpsa, updateTask } from '../src/world/update-task.ts';
import {
  assertInOrder,
  draws,
  Scene,
  sprtArgs,
  spsaArgs,
  stats,
  uniqueKey,
} from './fixtures/fleet-scene.ts';

describe('updateTask', () => {
  it('adds what is new to the run, and says what to store', async () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    await scene.clock.advance(7000);
    const { reply, changes } = scene.update(task, stats([1, 2, 3, 2, 0]), { nps: 700_000 });
    assert.deepEqual(reply, { task_alive: true });
    assert.deepEqual([[...changes.runs], [...changes.tasks]], [[run], [task]]);
    assert.deepEqual(run.record.results, stats([1, 2, 3, 2, 0]));
    assert.equal(run.record.last_updated, 7000);
    assert.equal(task.record.worker_info.nps, 700_000);
    scene.update(task, stats([1, 2, 4, 2, 0]));
    assert.deepEqual(run.record.results, stats([1, 2, 4, 2, 0]));
    assertInOrder(run);
  });

  it('refuses more games than the task has, and ends it', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    const { reply } = scene.update(task, draws(2_000_000));
    assert.equal(reply.task_alive, false);
    assert.match(String(reply.error), /^2000000 games, and the task has \d+$/);
    assert.deepEqual([run.games, task.active, run.record.finished], [0, false, false]);
  });

  it('takes the same totals again as nothing new', () => {
    const scene = new Scene();
    const task = scene.task.bind(scene);
    const run = scene.run();
    const mine = task();
    scene.update(mine, draws(8));
    assert.deepEqual(scene.update(mine, draws(8)).reply, { task_alive: true });
    assert.deepEqual(run.record.results, draws(8));
  });

  it('keeps the address that the task was given to', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task({ remote_addr: 'home' });
    scene.update(task, draws(2), { remote_addr: 'elsewhere', country_code: 'XX' });
    assert.equal(task.record.worker_info.remote_addr, 'home');
    failTask(scene.fleet, task, 'over');
    assert.equal(scene.fleet.connections('10.0.0.1'), 0);
    assertInOrder(run);
  });

  it('follows a worker that changes its number of cores', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    scene.update(task, draws(2), { concurrency: 3 });
    assert.equal(run.record.cores, 3);
    assertInOrder(run);
    failTask(scene.fleet, task, 'over');
    assert.equal(scene.fleet.activeTask(task.name), undefined);
    assertInOrder(run);
  });

  const faults: Readonly<Record<string, readonly [Stats, Stats, SpsaResults | undefined]>> = {
    'fewer games than before': [draws(64), draws(32), undefined],
    'an odd number of new games': [draws(64), { ...draws(64), wins: 1 }, undefined],
    'SPSA games without new games': [
      draws(64),
      draws(64),
      { wins: 0, losses: 0, draws: 2, num_games: 2, sig: 0 },
    ],
  };
  for (const [why, [before, after, spsa]] of Object.entries(faults)) {
    it(`ends the task on ${why}, and counts nothing`, () => {
      const scene = new Scene();
      const run = scene.run();
      const task = scene.task();
      scene.update(task, before);
      const info = task.record.worker_info;
      const { reply, changes } = updateTask(scene.fleet, task, { info, stats: after, spsa });
      assert.equal(reply.task_alive, false);
      assert.ok(reply.error !== undefined && reply.error.length > 0);
      assert.equal(task.active, false);
      assert.deepEqual([[...changes.runs], [...changes.tasks]], [[run], [task]]);
      assert.deepEqual(run.record.results, before);
      assertInOrder(run);
    });
  }

  it('ends the task of a sequential test on half a batch', () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(16));
    const task = scene.task();
    assert.deepEqual(scene.update(task, draws(32)).reply, { task_alive: true });
    assert.match(scene.update(task, draws(48)).reply.error as string, /multiple of 32/);
    assert.deepEqual(run.record.results, draws(32));
  });

  it('answers an ended task with a word, and counts nothing', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    failTask(scene.fleet, task, 'over');
    const { reply, changes } = scene.update(task, draws(8));
    assert.equal(reply.task_alive, false);
    assert.match(reply.info as string, /not active/);
    assert.equal(changes.tasks.size + changes.runs.size + changes.actions.length, 0);
    assert.equal(run.games, 0);
  });

  it('ends a full task, and tells of crashes and time losses', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    const { reply, changes } = scene.update(task, draws(466, { time_losses: 70, crashes: 1 }));
    assert.deepEqual(reply, { task_alive: false });
    assert.equal(task.active, false);
    const [{ action, message, worker } = {}] = changes.actions;
    assert.equal(action, 'crash_or_time');
    assert.equal(message, 'Time losses:70(15.0%) Crashes:1(0.2%)');
    assert.equal(worker, 'tester-8cores-000000-5622');
    assertInOrder(run);
  });

  it('finishes a run of fixed games with its last one, and ends everyone', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 500 });
    const [one, two] = [scene.task(), scene.task({ unique_key: uniqueKey(1) })];
    scene.update(two, draws(32));
    scene.update(one, stats([0, 3, 200, 20, 10]));
    const { reply, changes } = scene.update(two, draws(34));
    assert.deepEqual(reply, { task_alive: false });
    assert.equal(run.status, 'finished');
    assert.deepEqual([run.record.is_green, run.record.is_yellow], [true, false]);
    assert.deepEqual(
      changes.actions.map(({ action, username, message }) => [action, username, message]),
      [
        [
          'finished_run',
          'author',
          'Result:accepted Elo:25.76[15.37,36.15] LOS:100% Games:500 Ptnml:[0,3,217,20,10]',
        ],
      ],
    );
    assert.equal(scene.fleet.stats.unfinishedRuns, 0);
    assertInOrder(run);
  });

  it('stops a sequential test once it is decided', () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(16));
    const other = scene.task({ unique_key: uniqueKey(1) });
    const task = scene.task({ concurrency: 100 });
    let alive = true;
    for (let n = 1; alive && n < 200; n += 1) {
      alive = scene.update(task, stats([0, 2 * n, 6 * n, 6 * n, 2 * n])).reply.task_alive;
    }
    assert.equal(run.args.sprt?.state, 'accepted');
    assert.equal(run.record.finished && run.record.is_green, true);
    assert.equal(other.active, false);
    assertInOrder(run);
  });
});

describe('a tuning', () => {
  function batch(scene: Scene, task: Task, { sig, total }: { sig: number; total: number }) {
    const spsa = { wins: 20, losses: 10, draws: 2, num_games: 32, sig };
    const info = task.record.worker_info;
    const totals = stats([0, 0, total / 2 - 10, 0, 10].map((n) => Math.max(0, n)));
    return updateTask(scene.fleet, task, { info, stats: totals, spsa });
  }

  it('moves parameters by games that were played with the flips it gave, once', () => {
    const scene = new Scene(3);
    const run = scene.run(spsaArgs(60_000));
    const task = scene.task();
    const { reply, changes } = requestSpsa(scene.fleet, task);
    assert.ok('sig' in reply);
    assert.deepEqual([...changes.tasks], [task]);
    assert.equal(task.record.spsa_params?.iter, 0);
    const [tempo] = run.args.spsa?.params ?? [];
    const before = tempo?.theta as number;
    batch(scene, task, { sig: reply.sig, total: 32 });
    const moved = (tempo?.theta as number) - before;
    assert.equal(Math.sign(moved), reply.w_params[0]?.flip);
    assert.equal(run.args.spsa?.iter, 16);
    assert.equal(task.record.spsa_params, undefined);
    const after = tempo?.theta;
    batch(scene, task, { sig: reply.sig, total: 64 });
    assert.equal(tempo?.theta, after, 'flips are used once');
    assertInOrder(run);
  });

  it('ignores games with another signature', () => {
    const scene = new Scene(3);
    const run = scene.run(spsaArgs(60_000));
    const task = scene.task();
    const { reply } = requestSpsa(scene.fleet, task);
    assert.ok('sig' in reply);
    assert.equal(batch(scene, task, { sig: reply.sig + 1, total: 32 }).reply.task_alive, true);
    assert.equal(run.args.spsa?.iter, 0);
    assert.equal(run.games, 32);
  });

  it('gives an ended task no parameters, and other runs none at all', () => {
    const scene = new Scene();
    const tuning = scene.run(spsaArgs(60_000));
    const task = scene.task();
    requestSpsa(scene.fleet, task);
    failTask(scene.fleet, task, 'over');
    assert.equal(task.record.spsa_params, undefined);
    assert.equal(requestSpsa(scene.fleet, task).reply.task_alive, false);
    stopByUser(scene.fleet, tuning, 'author', 'enough');
    assert.deepEqual([tuning.record.is_green, tuning.record.is_yellow], [false, false]);
    scene.run();
    const refused = { code: 'REQUEST_REFUSED', status: 400 };
    assert.throws(() => requestSpsa(scene.fleet, scene.task()), refused);
  });
});

describe('beat and failed task', () => {
  it('keeps a task alive, and says when it is not', async () => {
    const scene = new Scene();
    scene.run();
    const task = scene.task();
    await scene.clock.advance(1000);
    const { reply, changes } = beat(scene.fleet, task);
    assert.deepEqual(reply, { task_alive: true });
    assert.equal(task.record.last_updated, 1000);
    assert.deepEqual([[...changes.beats], changes.tasks.size], [[task], 0]);
    const failed = failTask(scene.fleet, task, 'x'.repeat(6000));
    assert.deepEqual(failed.reply, {});
    assert.equal(failed.changes.actions[0]?.message?.length, 5120);
    assert.deepEqual(beat(scene.fleet, task).reply, { task_alive: false });
    const again = failTask(scene.fleet, task, 'again');
    assert.match(JSON.stringify(again.reply), /"task_alive":false,"info":/);
    assert.equal(again.changes.actions.length, 0);
  });

  it('tells of crashes with a task that is given up', () => {
    const scene = new Scene();
    scene.run();
    const task = scene.task();
    const stats = { ...draws(8), crashes: 4 };
    updateTask(scene.fleet, task, { info: task.record.worker_info, stats });
    const { changes } = failTask(scene.fleet, task, 'over');
    assert.deepEqual(
      changes.actions.map(({ action }) => action),
      ['crash_or_time', 'failed_task'],
    );
  });
});
