import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { wallClock } from 'spillway';
import { fleetLanes } from '../src/server/fleet-lanes.ts';
import { lightPost } from './fixtures/light-wire.ts';
import { ServedScene } from './fixtures/served-scene.ts';

/** Beats that wait for one check; with many more, a slow machine would take longer to read them. */
const waiting = 1_200;
/** A hash names its cost: this one keeps a thread busy for longer than a beat may wait. */
const endlessHash = `scrypt$32768$8$1000$${'A'.repeat(22)}==$${'A'.repeat(43)}=`;

describe('beats while passwords are checked', () => {
  it('do not wait for those of other users', async () => {
    await using scene = await ServedScene.open();
    await scene.server.ask({ do: 'add user', username: 'slow' });
    const database = new DatabaseSync(join(scene.folder, 'fleet.db'), { timeout: 10_000 });
    database
      .prepare('update users set password_hash = ? where username = ?')
      .run(endlessHash, 'slow');
    database.close();
    const known = scene.worker();
    await known.call('request_version');
    const body = JSON.stringify({ password: 'secret', worker_info: { username: 'slow' } });
    let answered = 0;
    for (let count = 0; count < waiting; count += 1) {
      const address = `127.0.0.${2 + (count % 50)}`;
      void lightPost(scene.server.port, '/api/beat', body, address).then(() => {
        answered += 1;
      });
    }
    const { status, reply } = await known.send('beat', known.body());
    assert.deepEqual([status, reply.error], [400, '/api/beat: Missing run_id']);
    assert.equal(answered, 0, 'the others still wait');
  });

  it('have a permit each, as many as 10,000 workers send in the 20 s of a check', () => {
    const { limit } = fleetLanes(wallClock).workers.beat.stats;
    assert.ok(limit > (10_000 / 120) * 20, `${limit} permits`);
  });
});
