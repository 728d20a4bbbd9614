import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { PostgresServer, postgresUrl } from 'spillway-fixtures/postgres';
import { fleet, ServedFleet } from './fixtures/fleet-command.ts';
import { draws, sprtArgs, uniqueKey } from './fixtures/fleet-scene.ts';
import { FleetSite, temporaryFolder, until } from './fixtures/fleet-site.ts';

describe('a fleet service, on Postgres', () => {
  const stack = new AsyncDisposableStack();
  let database = '';

  before(async () => {
    database = await postgresUrl(stack);
  });

  after(() => stack.disposeAsync());

  it('is found by commands that name only the data folder, or they refuse', async () => {
    await using own = new AsyncDisposableStack();
    const data = await temporaryFolder(own);
    {
      await using server = await ServedFleet.start(data, ['--database', database]);
      assert.equal(await server.stop(), 0);
    }
    const used = await readFile(join(data, 'database-used'), 'utf8');
    assert.ok(!used.includes(new URL(database).password || 'no password'));
    for (const words of [['user', 'list'], ['net', 'list'], ['export'], ['serve', '--port', '0']]) {
      const refused = await fleet(words, { data });
      assert.equal(refused.code, 2, words.join(' '));
      assert.match(refused.stderr, /--database: the server of .* used postgres/);
    }
    assert.equal(existsSync(join(data, 'fleet.db')), false, 'no other database is made');
    const found = await fleet(['user', 'list', '--database', database], { data });
    assert.match(found.stdout, /admin/);
  });

  it('plays a run, restarts, and hands over to another instance', async () => {
    let id = '';
    let game: object = {};
    {
      await using site = await FleetSite.open({ database });
      await site.fleet.users.change('tester', { machine_limit: 1000 });
      id = await site.run(sprtArgs(4));
      const tasks = await Promise.all(
        [0, 1, 2].map((at) => site.task({ unique_key: uniqueKey(at) })),
      );
      for (let games = 8; games <= 80; games += 8) {
        const updates = tasks.map((task) =>
          site.ask('update_task', { ...task, stats: draws(games) }),
        );
        for (const update of updates) assert.equal((await update).json.task_alive, true);
      }
      const [task] = tasks;
      assert.ok(task !== undefined);
      game = task;
      const said = await site.ask('failed_task', { ...task, message: 'a\0b' });
      assert.deepEqual(Object.keys(said.json), ['duration']);
      assert.equal((await site.ask('beat', { ...task, password: 'x' })).status, 401);
      const nul = { password: 'x', worker_info: { username: 'a\0b' } };
      assert.equal((await site.ask('request_version', nul)).status, 401);
      const zip = gzipSync('1. e4 *');
      const upload = { ...task, message: '', pgn: zip.toString('base64') };
      assert.equal((await site.ask('upload_pgn', upload)).status, 200);
      const stored = await site.fleet.files.pgns.find(id, task.task_id);
      assert.equal(stored?.piece.size, zip.length);
    }
    await using first = await FleetSite.open({ database });
    const run = first.fleet.primary.world.run(id);
    assert.deepEqual([run?.games, run?.record.workers], [240, 2]);
    assert.equal((await first.ask('beat', game)).json.task_alive, false);
    await using second = await FleetSite.open({ database });
    assert.equal((await second.ask('beat', game)).status, 503);
    await first.fleet.service.close();
    await until(() => second.fleet.primary.isPrimary);
    assert.deepEqual(second.fleet.primary.world.run(id)?.record, run?.record);
  });
});

describe('a fleet whose Postgres is away', () => {
  it('is not ready and says why, and is ready again by itself', async () => {
    await using server = await PostgresServer.start();
    await using site = await FleetSite.open({ database: server.url, log: false });
    const { app } = site.fleet.server.operator;
    const ready = async () => await app.inject('/-/ready');
    while ((await ready()).statusCode !== 200) await setTimeout(20);
    await server.stop();
    let told = await ready();
    for (; told.json().reasons?.database === undefined; told = await ready()) await setTimeout(20);
    assert.equal(told.statusCode, 503);
    assert.ok(told.json().unready.includes('database'));
    assert.match(told.json().reasons.database, /Postgres cannot be reached/);
    await server.start();
    while ((await ready()).statusCode !== 200) await setTimeout(20);
    assert.equal((await site.ask('request_version', { password: 'secret' })).status, 400);
  });
});
