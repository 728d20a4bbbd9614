import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  approveRun,
  audit,
  deleteRun,
  endDeadTasks,
  measureSpeed,
  modifyRun,
  purgeByUser,
  shareThroughput,
  stopByUser,
} from '../src/world/manage.ts';
import type { Changes } from '../src/world/records.ts';
import { Run, type Task } from '../src/world/run.ts';
import { beat, failTask, stopByWorker } from '../src/world/update-task.ts';
import {
  assertInOrder,
  draws,
  Scene,
  sprtArgs,
  stats,
  uniqueKey,
  worker,
} from './fixtures/fleet-scene.ts';

const names = (changes: Changes) => changes.actions.map(({ action }) => action);
const hour = 3_600_000;

/** Three tasks that end a run of 3 × 466 games; the third worker's results are given. */
function played(scene: Scene, third: readonly number[], args = {}): { run: Run; bad: Task } {
  const run = scene.run({ num_games: 3 * 466, ...args });
  const tasks = [0, 1, 2].map((n) => scene.task({ unique_key: uniqueKey(n) }));
  const [one, two, bad] = tasks as [Task, Task, Task];
  scene.update(one, stats([2, 50, 120, 55, 6]));
  scene.update(two, stats([3, 48, 125, 51, 6]));
  scene.update(bad, stats(third));
  return { run, bad };
}

describe('stopping by a worker', () => {
  it('is for users that gave a thousand hours; others only lose their task', () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    const { reply, changes } = stopByWorker(scene.fleet, task, { message: 'Wrong bench' });
    assert.equal(reply.refused?.status, 401);
    assert.match(reply.refused?.message as string, /too few games/);
    assert.equal(changes.actions[0]?.message, 'Wrong bench (not authorized)');
    assert.deepEqual([task.active, run.record.finished], [false, false]);
    assertInOrder(run);
  });

  it('fails the run, once', () => {
    const scene = new Scene();
    const run = scene.run();
    const [task, other] = [scene.task(), scene.task({ unique_key: uniqueKey(1) })];
    const said = { message: 'Wrong bench', cpuHours: 1000 };
    const { reply, changes } = stopByWorker(scene.fleet, task, said);
    assert.equal(reply.refused, undefined);
    assert.deepEqual(names(changes), ['stop_run']);
    assert.equal(changes.actions[0]?.task_id, 0);
    assert.equal(run.status, 'failed');
    assert.deepEqual([run.record.failures, other.active], [1, false]);
    assert.match(
      stopByWorker(scene.fleet, other, said).reply.refused?.message as string,
      /already finished/,
    );
    assert.equal(run.record.failures, 1);
    const late = stopByWorker(scene.fleet, other, { message: 'Wrong bench', cpuHours: 3 });
    assert.match(late.reply.refused?.message as string, /already finished/);
    assert.deepEqual(names(late.changes), [], 'nothing is logged of a run that is over');
  });
});

describe('purge', () => {
  const off = [60, 110, 55, 6, 2];

  it('sets the worst worker aside when a person asks, and the run goes on', () => {
    const scene = new Scene();
    const { run, bad } = played(scene, off);
    assert.equal(run.record.finished, true);
    const changes = purgeByUser(scene.fleet, run, 'approver');
    assert.equal(bad.record.bad, true);
    assert.deepEqual(bad.record.stats, draws(0));
    const purged = changes.purged[0]?.record;
    assert.deepEqual([purged?.task_id, purged?.residual_color], [2, 'red']);
    assert.deepEqual(purged?.stats, stats(off));
    assert.deepEqual(
      run.badTasks,
      changes.purged.map(({ record }) => record),
    );
    assert.deepEqual(names(changes), ['purge_run']);
    assert.equal(run.record.finished, false);
    assert.equal(run.openGames, 466);
    assertInOrder(run);
    assert.equal(scene.task({ unique_key: uniqueKey(3) }).record.start, 3 * 466);
    assert.throws(() => purgeByUser(scene.fleet, run, 'approver'), /not finished/);
  });

  it('happens by itself where the run asks for it, and the run is not reported as finished', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 3 * 466, auto_purge: true });
    const tasks = [0, 1, 2].map((n) => scene.task({ unique_key: uniqueKey(n) })) as Task[];
    for (const task of tasks.slice(0, 2)) scene.update(task, stats([2, 50, 120, 55, 6]));
    const { reply, changes } = scene.update(tasks[2] as Task, stats(off));
    assert.deepEqual(reply, { task_alive: false });
    assert.deepEqual(
      changes.actions.map(({ action, message, username }) => [action, message, username]),
      [['purge_run', 'Auto purge', run.args.username]],
    );
    assert.equal(run.status, 'waiting');
    assert.ok(scene.fleet.unfinished.has(run));
    assertInOrder(run);
  });

  it('says why it did not happen, and then the run is finished', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 466, auto_purge: true });
    const { changes } = scene.update(scene.task(), draws(466));
    assert.deepEqual(names(changes), ['purge_run', 'finished_run']);
    assert.match(changes.actions[0]?.message as string, /^Auto purge \(not performed\): no bad/);
    assert.equal(run.status, 'finished');
  });

  it('takes tasks with crashes first, and then nothing else', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 3 * 466 });
    const tasks = [0, 1, 2].map((n) => scene.task({ unique_key: uniqueKey(n) })) as Task[];
    scene.update(tasks[0] as Task, stats([2, 50, 120, 55, 6], { crashes: 4 }));
    scene.update(tasks[1] as Task, stats([3, 48, 125, 51, 6]));
    scene.update(tasks[2] as Task, stats(off));
    const { purged } = purgeByUser(scene.fleet, run, 'author');
    assert.deepEqual(
      purged.map(({ record }) => [record.task_id, record.residual, record.residual_color]),
      [[0, 10, 'red']],
    );
    assertInOrder(run);
  });

  it('leaves failed and old runs alone', async () => {
    const scene = new Scene();
    const { run } = played(scene, off);
    await scene.clock.advance(30 * 24 * hour + 1);
    assert.throws(() => purgeByUser(scene.fleet, run, 'author'), {
      message: /too old/,
      status: 400,
    });
    const failing = scene.run();
    const said = { message: 'broken', cpuHours: 5000 };
    stopByWorker(scene.fleet, scene.task({ unique_key: uniqueKey(9) }), said);
    assert.throws(() => purgeByUser(scene.fleet, failing, 'author'), /failed/);
  });

  it('makes a decided sequential test look for its answer again', () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(1));
    const good = scene.task({ unique_key: uniqueKey(1) });
    const bad = scene.task({ unique_key: uniqueKey(2), concurrency: 64 });
    scene.update(good, stats([2, 50, 115, 51, 2]));
    for (let n = 10; !run.record.finished && n < 900; n += 10) {
      scene.update(bad, stats([0, 0, 0, n, n]));
    }
    assert.equal(run.args.sprt?.state, 'accepted');
    purgeByUser(scene.fleet, run, 'approver');
    assert.equal(run.args.sprt?.state, '');
    assert.ok((run.args.sprt?.lost_samples as number) > 0);
    assert.equal(run.record.is_green || run.record.finished, false);
    assertInOrder(run);
  });
});

describe('people', () => {
  it('approve, stop and delete runs, each once', () => {
    const scene = new Scene();
    const run = scene.run({ auto_purge: true }, false);
    assert.equal(run.status, 'pending');
    assert.deepEqual(names(approveRun(scene.fleet, run, 'boss')), ['approve_run']);
    assert.deepEqual(names(approveRun(scene.fleet, run, 'boss')), []);
    assert.deepEqual([run.record.approver, run.status], ['boss', 'waiting']);
    const task = scene.task();
    assert.deepEqual(names(stopByUser(scene.fleet, run, 'author', '')), ['purge_run', 'stop_run']);
    assert.deepEqual(names(stopByUser(scene.fleet, run, 'author', '')), []);
    assert.equal(task.active, false);
    assert.deepEqual(names(deleteRun(scene.fleet, run, 'author')), ['delete_run']);
    assert.equal(run.record.deleted, true);
    assertInOrder(run);
  });

  it('change what may be changed; an author who asks for more needs a new approval', () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(16));
    const to = { num_games: 1000, priority: 0, throughput: 100, auto_purge: true, info: 'new' };
    const author = { username: 'author', isApprover: false };
    modifyRun(scene.fleet, run, to, author);
    assert.deepEqual([run.args.num_games, run.args.auto_purge, run.args.info], [1000, true, 'new']);
    assert.equal(run.record.approved, true);
    const changes = modifyRun(scene.fleet, run, { ...to, throughput: 200 }, author);
    assert.deepEqual(names(changes), ['approve_run', 'modify_run']);
    assert.equal(run.record.approved, false);
    stopByUser(scene.fleet, run, 'author', '');
    modifyRun(scene.fleet, run, to, { username: 'boss', isApprover: true });
    assert.equal(run.record.finished, false);
    for (const num_games of [1500.5, 1500, 0, 3_201_000]) {
      assert.throws(() => modifyRun(scene.fleet, run, { ...to, num_games }, author), {
        status: 400,
      });
    }
    const fixed = scene.run();
    assert.throws(
      () => modifyRun(scene.fleet, fixed, { ...to, num_games: 5000 }, author),
      /increased/,
    );
  });
});

describe('housekeeping', () => {
  it('ends tasks that were silent for six minutes, the longest silent first', async () => {
    const scene = new Scene();
    const run = scene.run();
    const [one, two, three] = [0, 1, 2].map((n) => scene.task({ unique_key: uniqueKey(n) })) as [
      Task,
      Task,
      Task,
    ];
    scene.update(two, draws(40, { crashes: 5 }));
    await scene.clock.advance(1000);
    beat(scene.fleet, one);
    await scene.clock.advance(359_000);
    assert.deepEqual(names(endDeadTasks(scene.fleet).changes), []);
    await scene.clock.advance(1);
    const { changes, reply: more } = endDeadTasks(scene.fleet);
    assert.deepEqual(names(changes), ['dead_task', 'crash_or_time', 'dead_task']);
    assert.deepEqual([...changes.tasks], [three, two]);
    assert.deepEqual([one.active, more], [true, false]);
    assertInOrder(run);
  });

  it('ends at most a thousand at a time', async () => {
    const scene = new Scene();
    scene.run({ num_games: 1e9 });
    for (let n = 0; n < 1500; n += 1) scene.task({ unique_key: uniqueKey(n) });
    await scene.clock.advance(400_000);
    assert.equal(endDeadTasks(scene.fleet).reply, true);
    assert.equal(scene.fleet.stats.activeTasks, 500);
    assert.equal(endDeadTasks(scene.fleet).reply, false);
    assert.equal(scene.fleet.stats.activeTasks, 0);
  });

  it('shares throughput by what the submitter already has, and measures speed', () => {
    const scene = new Scene();
    const [one, two] = [scene.run({ priority: 1 }), scene.run()];
    const other = scene.run({ username: 'other', tc: '60+0.6' });
    scene.task();
    shareThroughput(scene.fleet);
    assert.deepEqual([one.args.itp, two.args.itp].map(Math.round), [97, 97]);
    assert.equal(Math.round(other.args.itp), 400);
    const changes = measureSpeed(scene.fleet);
    assert.deepEqual([...changes.runs], [one]);
    assert.equal(one.record.nps, 8 * 628_000);
    assert.ok(Math.abs(one.record.games_per_minute - (8 * 60) / 30.912) < 1e-9);
    failTask(scene.fleet, one.tasks[0] as Task, 'over');
    measureSpeed(scene.fleet);
    assert.deepEqual([one.record.nps, one.record.games_per_minute], [0, 0]);
  });

  it('finds sums that are wrong', () => {
    const scene = new Scene();
    const run = scene.run();
    scene.task();
    assert.deepEqual(names(audit(scene.fleet)), []);
    run.record.cores += 1;
    assert.match(audit(scene.fleet).actions[0]?.message as string, /cores: 9, not 8/);
  });

  it('keeps finished runs for a while after they were asked for', async () => {
    const scene = new Scene();
    const run = scene.run();
    stopByUser(scene.fleet, run, 'author', '');
    await scene.clock.advance(299_000);
    assert.equal(scene.fleet.run(run.id.toUpperCase()), run);
    await scene.clock.advance(300_000);
    scene.fleet.forgetIdle();
    assert.equal(scene.fleet.run(run.id), run);
    await scene.clock.advance(300_001);
    scene.fleet.forgetIdle();
    assert.equal(scene.fleet.run(run.id), undefined);
    const again = new Run(run.record);
    assert.equal(scene.fleet.recall(again), again);
    assert.equal(scene.fleet.recall(run), again);
  });

  it('finds a task only for its own worker', () => {
    const scene = new Scene();
    const run = scene.run();
    const mine = scene.task();
    const named = { run_id: run.id, task_id: 0, worker_info: worker() };
    assert.equal(scene.fleet.find({ ...named, run_id: run.id.toUpperCase() }), mine);
    assert.equal(scene.fleet.find({ worker_info: worker() }), undefined);
    assert.equal(scene.fleet.find({ run_id: run.id, worker_info: worker() }), undefined);
    const refused = (changes: object, message: RegExp) => {
      const refusal = { code: 'REQUEST_REFUSED', status: 400, message };
      assert.throws(() => scene.fleet.find({ ...named, ...changes }), refusal);
    };
    refused({ run_id: '0'.repeat(24) }, /^Invalid run_id: 000/);
    refused({ task_id: 1 }, /^Invalid task_id: 1/);
    const other = worker({ unique_key: uniqueKey(1), username: 'thief' });
    refused({ worker_info: other }, /^Invalid unique_key/);
    refused({ worker_info: worker({ username: 'thief' }) }, /^Invalid username/);
  });
});
