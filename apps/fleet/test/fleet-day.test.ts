import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { every } from 'spillway';
import { audit, endDeadTasks, shareThroughput } from '../src/world/manage.ts';
import type { Changes } from '../src/world/records.ts';
import {
  assertInOrder,
  Scene,
  sprtArgs,
  spsaArgs,
  uniqueKey,
  worker,
} from './fixtures/fleet-scene.ts';
import { VirtualWorker } from './fixtures/virtual-worker.ts';

describe('a day of a fleet', () => {
  it('plays fixed, sequential and tuning runs to their end, with workers that die', async () => {
    const scene = new Scene(5);
    const { clock, random, fleet } = scene;
    const finished: string[] = [];
    const dead: string[] = [];
    const onChanges = ({ actions }: Changes) => {
      for (const { action, run_id = '', worker: name = '' } of actions) {
        if (action === 'finished_run') finished.push(run_id);
        if (action === 'dead_task') dead.push(name);
      }
    };
    const runs = [
      scene.run({ num_games: 80_000, username: 'ann' }),
      scene.run({ ...sprtArgs(16), username: 'bob' }),
      scene.run({ ...spsaArgs(20_000), username: 'cid' }),
      scene.run({ num_games: 2000, tc: '60+0.6', threads: 4, username: 'dan' }),
      scene.run({ num_games: 30_000, username: 'eve', auto_purge: true, priority: -1 }),
    ];
    const workers = Array.from({ length: 120 }, (_, n) => {
      const info = worker({
        unique_key: uniqueKey(n),
        concurrency: [4, 8, 16, 32][n % 4] as number,
        remote_addr: `10.0.0.${n % 40}`,
      });
      const deathChance = n % 10 === 0 ? 0.2 : 0;
      return new VirtualWorker({ clock, random, fleet, info, edge: 0.1, deathChance, onChanges });
    });
    for (const one of workers) clock.after(60_000 * random(), one.ask);
    const failures: unknown[] = [];
    const onError = (error: unknown) => failures.push(error);
    const run = async () => {
      onChanges(endDeadTasks(fleet).changes);
      shareThroughput(fleet);
      assert.deepEqual(audit(fleet).actions, []);
    };
    await using upkeep = every({ name: 'upkeep', periodMs: 60_000, run, onError, clock });
    upkeep.start();
    const hour = 3_600_000;
    for (let n = 0; n < 24 && fleet.unfinished.size > 0; n += 1) {
      await clock.advance(hour);
      for (const run of runs) assertInOrder(run);
    }
    assert.deepEqual(failures, []);
    assert.equal(fleet.unfinished.size, 0, 'all runs end within the day');
    assert.deepEqual(new Set(finished), new Set(runs.map(({ id }) => id)));
    const [fixed, test, tuning] = runs as [(typeof runs)[0], (typeof runs)[0], (typeof runs)[0]];
    assert.equal(fixed.games, 80_000);
    assert.deepEqual([test.args.sprt?.state, test.record.is_green], ['accepted', true]);
    assert.equal(test.args.sprt?.overshoot?.skipped_updates, 0, 'every batch was seen');
    assert.ok((tuning.args.spsa?.iter as number) >= 9000, 'the tuning took nearly all games in');
    // A healthy worker is never taken for dead; a dead one is noticed once, unless its run ended.
    assert.equal(workers.filter(({ dropped }) => dropped > 0).length, 0);
    const died = workers.filter(({ alive }) => !alive).length;
    assert.ok(dead.length > 3 && dead.length <= died, `${dead.length} of ${died} noticed`);
    assert.equal(new Set(dead).size, dead.length);
    assert.equal(fleet.stats.activeTasks, 0);
  });
});
