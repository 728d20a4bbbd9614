import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { wallClock } from 'spillway';
import { stopByUser } from '../src/world/manage.ts';

import { FleetSite, temporaryFolder } from './fixtures/fleet-site.ts';

describe('games that nobody looks at any more', () => {
  it('go after a day, ten days or fifty, with their files', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const site = stack.use(await FleetSite.open({ folder }));
    const { kysely } = site.fleet.storage.database;
    const { pgns } = site.fleet.files;
    const pgn = gzipSync('1. e4 *').toString('base64');
    const add = async (tc: string, state: object, days: number) => {
      const id = await site.run({ tc });
      const task = await site.task();
      assert.equal(task.run_id, id);
      assert.equal((await site.ask('upload_pgn', { ...task, message: '', pgn })).status, 200);
      await site.fleet.primary.change((fleet) => {
        const run = fleet.run(id) as NonNullable<ReturnType<typeof fleet.run>>;
        return stopByUser(fleet, run, 'tester', 'enough');
      });
      const last_updated = wallClock.now() - days * 86_400_000;
      await kysely
        .updateTable('runs')
        .set({ ...state, last_updated })
        .where('id', '=', id)
        .execute();
      return id;
    };
    const over = { finished: 1, deleted: 0 };
    const old = [
      await add('10+0.1', over, 1.1),
      await add('60+0.6', over, 10.1),
      await add('10+0.1', { ...over, deleted: 1 }, 10.2),
      await add('10+0.1', { finished: 0 }, 50.1),
    ];
    const young = [
      await add('10+0.1', over, 0.9),
      await add('60+0.6', over, 9.9),
      await add('10+0.1', { ...over, deleted: 1 }, 9.8),
      await add('10+0.1', { finished: 0 }, 49.9),
    ];
    assert.deepEqual(new Set(await pgns.prune()), new Set(old));
    assert.deepEqual(new Set(await readdir(join(folder, 'pgns'))), new Set(young));
    for (const id of old) assert.equal((await pgns.ofRun(id)).pgns.length, 0);
    for (const id of young) assert.equal((await pgns.ofRun(id)).pgns.length, 1);
    assert.deepEqual(await pgns.prune(), []);
  });
});
