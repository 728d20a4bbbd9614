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
/** Beats and updates come more often than they would, so that all have beaten when it is over. */
const beatMs = Math.min(120_000, joinMs);
const haste = 120_000 / beatMs;
const deadMs = 360_000;
const users = 8;
/** A worker waits 30 s for an answer. */
const beatMsMax = 5_000;

async function crowd(order: CrowdOrder): Promise<CrowdReport> {
  const child = fork(join(import.meta.dirname, 'fixtures', 'light-workers.ts'));
  try {
    child.send(order);
    const [report] = (await once(child, 'message')) as [CrowdReport];
    return report;
  } finally {
    child.kill();
  }
}

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
    const report = await crowd({
      port: scene.server.port,
      workers,
      joinMs,
      beatMs,
      updatesPerSecond: (7.4 * haste * workers) / 10_000,
      stayMs: beatMs / 2,
      patienceMs: 60_000,
      retryMs: 1_000,
      users,
      addresses: 50,
    });
    test.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.faults, []);
    assert.equal(report.joined, workers);
    assert.equal(report.busy, 0, 'nobody is told to come back');
    assert.deepEqual([report.beatsRefused, report.updatesRefused], [0, 0]);
    assert.ok(report.beats > workers / 2 && report.updates > 0);
    assert.ok(report.beatMs.max < beatMsMax, `a beat took ${report.beatMs.max} ms`);
    // By now a task that has missed one beat is dead, and no other.
    await scene.server.ask({ do: 'jump', ms: deadMs - 1.5 * beatMs });
    const usage = (await scene.server.ask({ do: 'usage' })) as FleetUsage;
    assert.ok(Object.values(usage.refused).every((count) => count === 0));
    assert.equal(usage.activeTasks, workers);
    const stored = scene.stored();
    stored.assertBalanced();
    assert.ok(!stored.actions.some(({ action }) => action === 'dead_task'));
  });
});
