import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { FleetUsage } from './fixtures/fleet-process.ts';
import type { CrowdOrder, CrowdReport } from './fixtures/light-workers.ts';
import { ServedScene } from './fixtures/served-scene.ts';

// The whole proof is FLEET_BURST_WORKERS=10000, at rates from 20 to 200.
const { FLEET_BURST_WORKERS = '1200', FLEET_BURST_RATE = '200' } = process.env;
const workers = Number(FLEET_BURST_WORKERS);
/** Requests for a task each second, besides those of workers that were told to come back. */
const rate = Number(FLEET_BURST_RATE);
const joinMs = (1_000 * workers) / rate;
/** Beats and updates come more often than they would, so that there are many while they join. */
const beatMs = Math.min(120_000, joinMs);
const haste = 120_000 / beatMs;
/** A task that is silent for this long lives, and one that is silent twice as long does not. */
const silentMs = 300_000;
const users = 8;

describe('a burst of workers', () => {
  it('takes nothing from those that are at work', async (test) => {
    await using scene = await ServedScene.open();
    for (let count = 0; count < users; count += 1) {
      const username = `user${count}`;
      await scene.server.ask({ do: 'add user', username });
      // They have had workers here before: the server knows that their passwords are right.
      await scene.worker({ username }).call('request_version');
    }
    for (let count = 0; count < 10; count += 1) await scene.run({ num_games: 3_000_000 });
    const crowd = fork(join(import.meta.dirname, 'fixtures', 'light-workers.ts'));
    using _end = { [Symbol.dispose]: () => void crowd.kill() };
    const order: CrowdOrder = {
      port: scene.server.port,
      workers,
      joinMs,
      beatMs,
      updatesPerSecond: (7.4 * haste * workers) / 10_000,
      patienceMs: 600_000,
      retryMs: 1_000,
      users,
      addresses: 50,
    };
    crowd.send(order);
    await once(crowd, 'message');
    await scene.server.ask({ do: 'jump', ms: silentMs });
    crowd.send('beat');
    const [report] = (await once(crowd, 'message')) as [CrowdReport];
    test.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.faults, []);
    assert.equal(report.joined, workers);
    assert.equal(report.busy, 0, 'nobody is told to come back');
    assert.deepEqual([report.beatsRefused, report.updatesRefused], [0, 0]);
    assert.ok(report.beats > workers && report.updates > 0);
    // A task whose last beat was answered and not noted is dead now, and no other.
    await scene.server.ask({ do: 'jump', ms: silentMs });
    const usage = (await scene.server.ask({ do: 'usage' })) as FleetUsage;
    assert.ok(Object.values(usage.refused).every((count) => count === 0));
    assert.equal(usage.activeTasks, workers);
    const stored = scene.stored();
    stored.assertBalanced();
    assert.ok(!stored.actions.some(({ action }) => action === 'dead_task'));
  });
});
