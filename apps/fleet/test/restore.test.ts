import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import type { VirtualClock } from 'spillway/testing';
import { endDeadTasks, restore } from '../src/world/manage.ts';
import { requestTask } from '../src/world/request-task.ts';
import { Run, type Task } from '../src/world/run.ts';
import { beat, failTask, updateTask } from '../src/world/update-task.ts';
import { World } from '../src/world/world.ts';
import { assertInOrder, draws, Scene, uniqueKey, worker } from './fixtures/fleet-scene.ts';

/** The same run as if read from a store. */
function stored(run: Run): Run {
  const tasks = run.tasks.map(({ record }) => structuredClone(record));
  return new Run(structuredClone(run.record), tasks, run.badTasks);
}

function started(clock: VirtualClock, runs: readonly Run[]) {
  const fleet = new World({ clock, random: seededRandom(1) });
  const blocked = [['tester-8cores-00000x', { message: 'no', last_updated: 0 }]] as const;
  return { fleet, changes: restore(fleet, { runs, blocked }) };
}

describe('a start', () => {
  it('goes on with every task, and gives silent workers their time again', async () => {
    const scene = new Scene();
    const run = scene.run();
    const task = scene.task();
    scene.update(task, draws(8));
    await scene.clock.advance(400_000);
    const { fleet, changes } = started(scene.clock, [stored(run)]);
    assert.deepEqual([changes.runs.size, changes.actions], [0, []]);
    assert.equal(endDeadTasks(fleet).changes.tasks.size, 0);
    const again = fleet.find({ run_id: run.id, task_id: 0, worker_info: worker() });
    assert.deepEqual(beat(fleet, again).reply, { task_alive: true });
    const update = { info: worker(), stats: draws(466) };
    assert.deepEqual(updateTask(fleet, again, update).reply, { task_alive: false });
    assertInOrder(again.run);
    assert.equal(fleet.blocked.get('tester-8cores-00000x')?.message, 'no');
  });

  it('remembers which runs a worker has seen, and which was its last', async () => {
    const scene = new Scene();
    const runs = [scene.run(), scene.run()];
    for (let n = 0; n < 3; n += 1) {
      failTask(scene.fleet, scene.task(), '');
      await scene.clock.advance(1);
    }
    const third = scene.run();
    const { fleet } = started(scene.clock, [...runs, third].map(stored));
    const limited = worker({ near_github_api_limit: true });
    const request = { info: limited, machineLimit: 9, baseUrl: '' };
    const { reply } = requestTask(fleet, request);
    assert.ok('run' in reply);
    assert.equal(reply.run._id, runs[1]?.id, 'not the last one, and not one it never saw');
  });

  it('corrects sums that are wrong, ends what was decided, and says so', () => {
    const scene = new Scene();
    const [run, full] = [scene.run(), scene.run({ num_games: 466 })];
    scene.update(scene.task(), draws(8));
    const last = scene.task({ unique_key: uniqueKey(1) });
    assert.equal(last.run, full);
    const [one, two] = [stored(run), stored(full)];
    one.record.results.wins += 2;
    one.record.committed_games = 7;
    (two.tasks[0] as Task).record.stats = draws(466);
    const { fleet, changes } = started(scene.clock, [one, two]);
    for (const each of [one, two]) assertInOrder(each);
    assert.deepEqual([...changes.runs], [one, two]);
    assert.match(changes.actions[0]?.message as string, /committed_games: 7, not 466/);
    assert.equal(two.status, 'finished');
    assert.deepEqual([...fleet.unfinished], [one]);
  });

  it('lets one of two active tasks of a name live: the one heard of last', async () => {
    const scene = new Scene();
    const run = scene.run();
    const first = scene.task();
    await scene.clock.advance(1);
    scene.task();
    const copy = stored(run);
    const revived = new Run(
      { ...copy.record, workers: 2, cores: 16, committed_games: 932 },
      copy.tasks.map(({ record }) => ({ ...record, active: true })),
    );
    (revived.tasks[0] as Task).record.last_updated = 0;
    const { fleet } = started(scene.clock, [revived]);
    assert.deepEqual(
      revived.tasks.map(({ active }) => active),
      [false, true],
    );
    assert.equal(fleet.activeTask(first.name), revived.tasks[1]);
    assertInOrder(revived);
  });
});
