// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explore } from 'spillway/testing';
import { failTask } from '../src/world/update-task.ts';
import { Play } from './fixtures/fleet-play.ts';
import { Scene, uniqueKey } from './fixtures/fleet-scene.ts';

describe('a fleet under random traffic', () => {
  it('keeps every balance, follows every rule, and survives restarts', async () => {
    const counts: Record<string, number> = {};
    await explore(20, async (random) => {
      const play = new Play(random);
      for (let step = 0; step < 1000; step += 1) {
        await play.step();
        if (step % 20 === 0) play.assertInOrder();
      }
      play.assertInOrder();
      for (const [kind, count] of Object.entries(play.counts)) {
        counts[kind] = (counts[kind] ?? 0) + count;
      }
    });
    // Traffic that never does something proves nothing about it.
    const seen = ['assigned', 'nothing', 'refused', 'finished_run', 'purge_run', 'crash_or_time'];
    for (const kind of [...seen, 'dead_task', 'failed_task', 'stop_run', 'revived']) {
      assert.ok((counts[kind] ?? 0) > 10, `${kind}: ${counts[kind] ?? 0}`);
    }
  });

  it('gives each run cores by its throughput, whoever comes and goes', async () => {
    await explore(20, async (random) => {
      const scene = new Scene();
      const runs = [10, 25, 50, 100, 200, 400].map((throughput) => {
        return scene.run({ throughput, username: `u${throughput}`, num_games: 1e9 });
      });
      const cores = (n: number) => [1, 2, 4, 8][n % 4] as number;
      const ask = (n: number) => {
        const changes = { unique_key: uniqueKey(n), concurrency: cores(n), nps: 0 };
        return scene.task(changes);
      };
      const tasks = Array.from({ length: 400 }, (_, n) => ask(n));
      for (let step = 0; step < 2000; step += 1) {
        const n = Math.floor(random() * tasks.length);
        failTask(scene.fleet, tasks[n] as never, '');
        tasks[n] = ask(n);
      }
      const all = tasks.reduce((sum, { record }) => sum + record.worker_info.concurrency, 0);
      for (const { record, args } of runs) {
        const share = (all * args.itp) / runs.reduce((sum, run) => sum + run.args.itp, 0);
        // A run is short of its share by no more than a few workers.
        assert.ok(
          Math.abs(record.cores - share) <= 16 + 0.2 * share,
          `${record.cores} of ${share}`,
        );
      }
    });
  });
});
