import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { taskRecord, taskRow } from '../src/storage/rows.ts';
import {
  addRun,
  endDeadTasks,
  newRunRecord,
  purgeByUser,
  stopByUser,
} from '../src/world/manage.ts';
import { Run } from '../src/world/run.ts';
import { beat, settle } from '../src/world/update-task.ts';
import { assertInOrder, draws, runArgs, Scene, stats, uniqueKey } from './fixtures/fleet-scene.ts';
import { ask, FleetSite, until } from './fixtures/fleet-site.ts';

/** More than may be dealt with in one turn of the event loop. */
const many = 1_000;
const turnMax = 256;

/** A run with many workers at work, each at an address of its own. */
function crowded(): { readonly scene: Scene; readonly run: Run } {
  const scene = new Scene();
  const run = scene.run({ num_games: 1_000_000 });
  for (let at = 0; at < many; at += 1) scene.task(own(at));
  return { scene, run };
}

function own(at: number): { readonly unique_key: string; readonly remote_addr: string } {
  return { unique_key: uniqueKey(at), remote_addr: `10.0.${at >> 8}.${at & 255}` };
}

describe('a run with many active tasks', () => {
  it('ends for everybody at once, though few of its tasks are closed in one turn', () => {
    const { scene, run } = crowded();
    const { fleet } = scene;
    const [first] = run.tasks;
    const last = run.tasks.at(-1);
    assert.ok(first && last);
    scene.update(last, draws(8));
    const { tasks } = stopByUser(fleet, run, 'author', 'enough');
    assert.ok(tasks.size <= turnMax, `${tasks.size} tasks in one turn`);
    assert.equal(last.record.active, true, 'its record waits');
    for (const task of run.tasks) assert.equal(task.active, false);
    const { workers, cores, committed_games, finished } = run.record;
    assert.deepEqual([workers, cores, committed_games, finished], [0, 0, 8, true]);
    assert.deepEqual([fleet.stats.activeTasks, fleet.activeTask(last.name)], [0, undefined]);
    assert.deepEqual(beat(fleet, last).reply, { task_alive: false });
    assert.equal(scene.update(last, draws(16)).reply.task_alive, false);
    assert.equal(fleet.connections(own(many - 1).remote_addr), 0);
    const next = scene.run({ num_games: 1_000_000 });
    const asked = scene.ask(own(many - 1), 1);
    assert.ok('run' in asked.reply, 'its worker is free');
    assert.deepEqual(asked.changes.actions, [], 'nothing of it is stale');
    let turns = 0;
    for (const closed = new Set(tasks); fleet.isUnsettled; turns += 1) {
      const changes = settle(fleet);
      assert.ok(changes.tasks.size <= turnMax);
      for (const task of changes.tasks) {
        assert.ok(!closed.has(task), 'each is closed once');
        closed.add(task);
      }
      if (!fleet.isUnsettled) assert.equal(closed.size, many);
    }
    assert.ok(turns > many / turnMax - 1);
    for (const { record } of run.tasks) assert.equal(record.active, false);
    assert.equal(fleet.activeTask(last.name)?.run, next, 'the new task stays');
    assert.equal(endDeadTasks(fleet).changes.tasks.size, 0);
  });

  it('has no task that lives again, after a crash in between or with the run itself', () => {
    const { scene, run } = crowded();
    const [first] = run.tasks;
    assert.ok(first);
    scene.update(first, draws(8, { crashes: 4 }));
    const stored = run.tasks.map((task) => taskRecord(taskRow(task)));
    stopByUser(scene.fleet, run, 'author', 'enough');
    const after = new Run(structuredClone(run.record), stored, []);
    assert.deepEqual([after.activeTasks.size, after.tasks.at(-1)?.record.active], [0, false]);
    const { tasks } = purgeByUser(scene.fleet, run, 'author');
    assert.deepEqual([run.record.finished, scene.fleet.isUnsettled], [false, false]);
    assert.ok(tasks.size > many - turnMax, 'all that waited is stored with it');
    assert.ok(run.tasks.every(({ active, record }) => !(active || record.active)));
    assert.equal(run.record.workers, 0);
    assertInOrder(run);
  });

  it('is closed in the background, one turn after the other, and stored', async () => {
    await using site = await FleetSite.open();
    const { primary, storage } = site.fleet;
    const { scene, run } = crowded();
    const now = scene.clock.now();
    const id = 'a'.repeat(24);
    const record = { ...newRunRecord({ id, args: runArgs(), now }), ...run.record, _id: id };
    const big = new Run(
      record,
      run.tasks.map((task) => taskRecord(taskRow(task))),
    );
    await primary.change((fleet) => addRun(fleet, big, 'added'));
    const sizes: number[] = [];
    await primary.change((fleet) => {
      const changes = stopByUser(fleet, big, 'author', 'enough');
      sizes.push(changes.tasks.size);
      return changes;
    });
    const shown = await ask(`${site.fleet.server.url}/api/get_task/${id}/${many - 1}`, '', {
      method: 'GET',
      headers: {},
    });
    assert.equal(shown.json.active, false, 'whatever its record says');
    await until(() => !primary.world.isUnsettled);
    assert.ok((sizes[0] as number) <= turnMax);
    await primary.change((fleet) => settle(fleet));
    const again = await storage.run(id);
    assert.equal(again?.tasks.filter((task) => task.record.active).length, 0);
  });
});

describe('a purge in a run with many tasks', () => {
  it('looks at workers, and not at all their tasks', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 4_000_000 });
    const workers = 20;
    for (let at = 0; at < many; at += 1) {
      const bad = at % workers === 7;
      const task = scene.task({ unique_key: uniqueKey(at % workers) });
      scene.update(task, stats(bad ? [0, 0, 2, 4, 4] : [1, 2, 4, 2, 1]));
    }
    stopByUser(scene.fleet, run, 'author', 'enough');
    let looks = 0;
    for (const task of run.tasks) {
      const { record } = task;
      Object.defineProperty(task, 'record', {
        get: () => {
          looks += 1;
          return record;
        },
      });
    }
    const { purged } = purgeByUser(scene.fleet, run, 'author');
    assert.equal(purged.length, many / workers);
    assert.ok(purged.every(({ record }) => record.task_id % workers === 7));
    assert.deepEqual(
      purged.map(({ id }) => id),
      purged.map((_, at) => at),
    );
    assert.ok(looks < 30 * purged.length, `${looks} looks at tasks`);
  });
});
