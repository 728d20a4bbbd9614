// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { Database } from 'spillway-sql';
import { Primary } from '../src/primary/primary.ts';
import type { FleetSchema } from '../src/storage/fleet-schema.ts';
import { FleetStorage } from '../src/storage/fleet-storage.ts';
import { audit } from '../src/world/manage.ts';
import type { Run } from '../src/world/run.ts';
import { uniqueKey } from './fixtures/fleet-scene.ts';
import { FleetSite, info, temporaryFolder, until } from './fixtures/fleet-site.ts';

describe('the primary instance of a fleet', () => {
  it('answers 503 while another instance is the primary, takes games, and takes over', async () => {
    await using stack = new AsyncDisposableStack();
    const database = `sqlite:${join(await temporaryFolder(stack), 'fleet.db')}`;
    const first = stack.use(await FleetSite.open({ database }));
    await first.run();
    const task = await first.task();
    const second = stack.use(await FleetSite.open({ database }));
    const { fleet } = second;
    const refused = await second.ask('beat', task);
    assert.equal(refused.status, 503);
    assert.equal(refused.text, '', 'a worker takes an error for an order to give up');
    assert.equal(refused.headers['retry-after'], '1');
    assert.equal((await second.ask('request_version', task)).status, 503);
    await assert.rejects(fleet.primary.change(audit), { code: 'NOT_PRIMARY' });
    const upload = { ...task, message: '', pgn: 'H4sIAAAAAAAAA9MCAFsmuQkBAAAA' };
    const taken = await second.ask('upload_pgn', upload);
    assert.deepEqual(Object.keys(taken.json), ['duration']);
    for (const [change, error] of [
      [{ run_id: '0'.repeat(24) }, /Invalid run_id: 0/],
      [{ task_id: 7 }, /Invalid task_id: 7/],
      [{ worker_info: info({ unique_key: uniqueKey(5) }) }, /Invalid unique_key/],
      [{ pgn: undefined }, /Missing pgn/],
    ] as const) {
      const { status, json } = await second.ask('upload_pgn', { ...upload, ...change });
      assert.equal(status, 400);
      assert.match(json.error, error);
    }
    for (const call of ['request_task', 'update_task', 'failed_task']) {
      const { status, text } = await second.ask(call, task);
      assert.deepEqual([status, text], [503, ''], call);
    }
    // Calls that change nothing: one of them may be the first that the new primary takes.
    const calls = ['beat', 'request_version'];
    const closed = first.fleet.service.close();
    for (let round = 0; !fleet.primary.isPrimary; round += 1) {
      const { status, text } = await second.ask(calls[round % calls.length] as string, task);
      if (!fleet.primary.isPrimary) assert.deepEqual([status, text], [503, '']);
    }
    await closed;
    assert.equal((await second.ask('beat', task)).json.task_alive, true);
  });

  it('is the one that has the lock, however long the database takes to answer', async () => {
    await using stack = new AsyncDisposableStack();
    const path = join(await temporaryFolder(stack), 'fleet.db');
    const database = stack.use(await Database.open<FleetSchema>({ url: `sqlite:${path}` }));
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    class SlowStorage extends FleetStorage {
      override async fence(): Promise<number> {
        asked.resolve();
        await answer.promise;
        return await super.fence();
      }
    }
    const storage = new SlowStorage(database);
    await storage.migrate();
    const clock = new VirtualClock();
    const lockPath = `${path}-primary`;
    const primary = new Primary({ storage, clock, random: Math.random, leaseMs: 1, lockPath });
    const started = primary.start({ signal: new AbortController().signal });
    await asked.promise;
    await clock.advance(60_000);
    answer.resolve();
    await started;
    assert.ok(primary.isPrimary);
    await primary.close();
  });

  it('is so again under a higher fence when the file of its lock was deleted', async () => {
    await using site = await FleetSite.open();
    const { primary } = site.fleet;
    const id = await site.run();
    const { fence = 0 } = primary.stats;
    const path = site.database.slice('sqlite:'.length);
    rmSync(join(dirname(path), '.locks', `${basename(path)}-primary-owner`));
    await until(() => (primary.stats.fence ?? 0) > fence);
    await until(() => primary.isPrimary && primary.world.run(id) !== undefined);
    const task = await site.task();
    assert.equal((await site.ask('beat', task)).json.task_alive, true);
  });

  it('drops what a bug left half changed, and loads what was stored', async () => {
    await using site = await FleetSite.open();
    const id = await site.run();
    const task = await site.task();
    const { primary } = site.fleet;
    const broken = primary.change((fleet) => {
      const run = fleet.run(id) as Run;
      run.record.results.wins = 1_000_000;
      throw new TypeError('a bug');
    });
    await assert.rejects(broken, { message: 'a bug' });
    const meanwhile = await site.ask('beat', task);
    assert.equal(meanwhile.json?.error, undefined, 'a worker would give its task up');
    await until(() => primary.isPrimary && primary.world.run(id)?.record.results.wins === 0);
    assert.equal((await site.ask('beat', task)).json.task_alive, true);
  });

  it('does not start on records it cannot read, and leaves nothing behind', async () => {
    await using stack = new AsyncDisposableStack();
    const path = join(await temporaryFolder(stack), 'fleet.db');
    {
      await using site = await FleetSite.open({ database: `sqlite:${path}` });
      await site.run();
    }
    {
      using database = new DatabaseSync(path);
      database.exec(`update runs set record = '{'`);
    }
    const opened = FleetSite.open({ database: `sqlite:${path}` });
    await assert.rejects(opened, { code: 'SERVICE_START' });
  });

  it('does not open a database it does not know', async () => {
    await using stack = new AsyncDisposableStack();
    const path = join(await temporaryFolder(stack), 'fleet.db');
    {
      using database = new DatabaseSync(path);
      database.exec('create table runs (id text)');
    }
    const opened = FleetSite.open({ database: `sqlite:${path}` });
    await assert.rejects(opened, { code: 'DATABASE_MIGRATION' });
  });
});
