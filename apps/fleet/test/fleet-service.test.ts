// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { SpillwayError } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { operate } from '../src/operations/operations.ts';
import { logWorker, shareThroughput, stopByUser } from '../src/world/manage.ts';
import { Run } from '../src/world/run.ts';
import { draws, spsaArgs, uniqueKey } from './fixtures/fleet-scene.ts';
import { FleetSite, info, temporaryFolder, until } from './fixtures/fleet-site.ts';

const minute = 60_000;

/** A run and its tasks as they are in memory; a start counts active tasks as just heard of. */
function picture(run: Run | undefined): unknown {
  assert.ok(run !== undefined);
  const tasks = run.tasks.map(({ record }) => {
    return { ...record, last_updated: record.active ? 'now' : record.last_updated };
  });
  return JSON.parse(JSON.stringify({ record: run.record, tasks, bad: run.badTasks }));
}

describe('a fleet service', () => {
  it('goes on after a restart exactly where it stopped', async () => {
    await using stack = new AsyncDisposableStack();
    const database = `sqlite:${join(await temporaryFolder(stack), 'fleet.db')}`;
    const before: unknown[] = [];
    let tuned = '';
    let trial: { readonly sig: number } | undefined;
    let task: object = {};
    {
      await using site = await FleetSite.open({ database });
      await site.fleet.users.change('tester', { machine_limit: 1000 });
      const fixed = await site.run({ priority: 1 });
      for (let at = 0; at < 5; at += 1) {
        const body = await site.task({ unique_key: uniqueKey(at) });
        await site.ask('update_task', { ...body, stats: draws(8 * at) });
        if (at === 3) await site.ask('failed_task', { ...body, message: 'x' });
      }
      tuned = await site.run({ ...spsaArgs(40_000), priority: 2 });
      const body = await site.task({ unique_key: uniqueKey(9) });
      trial = (await site.ask('request_spsa', body)).json;
      task = body;
      const { itp } = site.fleet.primary.world.run(fixed)?.args ?? {};
      assert.equal(itp, 100, 'not shared out since it has workers');
      // A start shares throughput out anew, so that only the rest can be the same.
      await site.fleet.primary.change((fleet) => shareThroughput(fleet));
      for (const id of [fixed, tuned]) before.push(picture(site.fleet.primary.world.run(id)));
    }
    await using site = await FleetSite.open({ database });
    const runs = [...site.fleet.primary.world.unfinished];
    assert.deepEqual(runs.map(picture), before);
    assert.deepEqual(site.fleet.primary.stats.fleet?.activeTasks, 5);
    const spsa = { num_games: 4, wins: 2, losses: 0, draws: 2, sig: trial?.sig };
    const stats = { ...draws(4), wins: 2, draws: 2, pentanomial: [0, 0, 1, 0, 1] };
    const { json } = await site.ask('update_task', { ...task, stats, spsa });
    assert.equal(json.task_alive, true, JSON.stringify(json));
    assert.equal(site.fleet.primary.world.run(tuned)?.args.spsa?.iter, 2);
    const rows = await site.fleet.storage.database.kysely
      .selectFrom('actions')
      .select('message')
      .where('action', '=', 'system_event')
      .orderBy('time')
      .execute();
    const events = rows.map(({ message }) => message?.replace(/@\d+$/, ''));
    assert.deepEqual(events, ['start fishtest', 'stop fishtest', 'start fishtest']);
  });

  it('lets all who ask for a task at once wait for one commit', async () => {
    await using site = await FleetSite.open();
    await site.fleet.users.change('tester', { machine_limit: 1000 });
    await site.run({ num_games: 400_000 });
    const mine = await site.task({ unique_key: uniqueKey(100) });
    using other = new DatabaseSync(site.database.replace('sqlite:', ''), { timeout: 10_000 });
    other.exec('begin immediate');
    const ask = (at: number) =>
      site.ask('request_task', {
        password: 'secret',
        worker_info: info({ unique_key: uniqueKey(at) }),
      });
    const asking = Array.from({ length: 40 }, (_, at) => ask(at));
    await until(() => site.fleet.primary.world.stats.activeTasks === 41);
    assert.equal((await site.ask('beat', mine)).json.task_alive, true);
    other.exec('rollback');
    for (const answer of asking) assert.ok('run' in (await answer).json);
  });

  it('answers what nobody foresaw with 500, and goes on', async () => {
    let isBroken = true;
    const bookSri = () => {
      if (isBroken) throw new Error('secret detail');
      return undefined;
    };
    await using site = await FleetSite.open();
    Object.assign(site.fleet.files.books, { sri: bookSri });
    await site.run();
    const body = { password: 'secret', worker_info: info() };
    const { status, json, text: said } = await site.ask('request_task', body);
    assert.equal(status, 500);
    assert.equal(json.error, '/api/request_task: Internal Server Error');
    assert.equal(typeof json.duration, 'number');
    assert.equal(said.includes('secret detail'), false);
    isBroken = false;
    assert.ok('run' in (await site.ask('request_task', body)).json);
  });

  it('tells who comes while it stops nothing, so that workers try again', async () => {
    await using site = await FleetSite.open();
    const { server, service } = site.fleet;
    const { hostname, port } = new URL(server.url);
    const late = connect(Number(port), hostname);
    late.write('POST /api/beat HT');
    await until(() => server.connections === 1);
    // The server has read what was sent once it has answered who came later.
    await site.ask('beat', '');
    const stopped = service.close();
    await until(() => !server.ready);
    late.end('TP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}');
    const said = await text(late);
    assert.match(said, /^HTTP\/1\.1 503 /);
    assert.match(said, /content-type: text\/plain/);
    assert.match(said, /\r\n\r\n$/);
    await stopped;
  });

  it('answers with nothing when it cannot store, and stores it later', async () => {
    await using site = await FleetSite.open();
    const id = await site.run();
    const task = await site.task();
    const { primary, storage } = site.fleet;
    const { database } = storage;
    const { batch } = database;
    database.batch = () => Promise.reject(new SpillwayError('DATABASE_FULL', 'no space'));
    const { status, text: said } = await site.ask('update_task', { ...task, stats: draws(8) });
    assert.deepEqual([status, said], [507, '']);
    assert.equal((await storage.run(id))?.games, 0);
    database.batch = batch;
    const again = await site.ask('update_task', { ...task, stats: draws(8) });
    assert.equal(again.json.task_alive, true);
    assert.equal((await storage.run(id))?.games, 8);
    assert.equal(primary.stats.writer?.failures, 1);
  });

  it('ends tasks of workers that fell silent, and measures speed, at its own time', async () => {
    const clock = new VirtualClock();
    await using site = await FleetSite.open({ clock });
    const id = await site.run();
    const silent = await site.task({ unique_key: uniqueKey(1) });
    const lively = await site.task({ unique_key: uniqueKey(2) });
    const { primary, storage } = site.fleet;
    await clock.advance(1.1 * minute);
    await primary.change((fleet) => logWorker(fleet, info(), 'barrier'));
    assert.ok(((await storage.run(id))?.record.nps ?? 0) > 0);
    for (let at = 0; at < 7; at += 1) {
      await clock.advance(minute);
      assert.equal((await site.ask('beat', lively)).json.task_alive, true);
    }
    assert.equal((await site.ask('beat', silent)).json.task_alive, false);
    await primary.change((fleet) => logWorker(fleet, info(), 'barrier'));
    const stored = await storage.run(id);
    assert.deepEqual(
      stored?.tasks.map(({ active }) => active),
      [false, true],
    );
    const rows = await storage.database.kysely
      .selectFrom('actions')
      .selectAll()
      .where('action', '=', 'dead_task')
      .execute();
    assert.deepEqual(
      rows.map(({ run_id, task_id }) => [run_id, task_id]),
      [[id, 0]],
    );
  });

  it('sees the address that a trusted proxy tells, and the country', async () => {
    await using site = await FleetSite.open({ trustProxy: '127.0.0.1' });
    const id = await site.run();
    const worker_info = info();
    const headers = { 'x-forwarded-for': '9.9.9.9, 8.8.8.8', 'x-country-code': 'CH' };
    await site.ask('request_task', { password: 'secret', worker_info }, { headers });
    const [task] = site.fleet.primary.world.run(id)?.tasks ?? [];
    const { remote_addr, country_code } = task?.record.worker_info ?? {};
    assert.deepEqual([remote_addr, country_code], ['8.8.8.8', 'CH']);
  });

  it('answers for finished runs that it has let go of', async () => {
    await using site = await FleetSite.open();
    const id = await site.run({ num_games: 2 });
    const task = await site.task({ concurrency: 1 });
    await site.ask('update_task', { ...task, stats: draws(2) });
    const { world: fleet } = site.fleet.primary;
    const finished = fleet.run(id);
    assert.ok(finished?.record.finished);
    // More finished runs than are kept.
    for (let at = 0; at <= 1000; at += 1) {
      fleet.recall(new Run({ ...finished.record, _id: at.toString(16).padStart(24, '0') }));
    }
    assert.equal(fleet.run(id) === undefined, true);
    const stranger = { ...task, worker_info: info({ unique_key: uniqueKey(7) }) };
    const refused = await site.ask('beat', stranger);
    assert.deepEqual([refused.status, /Invalid unique_key/.test(refused.json.error)], [400, true]);
    const { json } = await site.ask('update_task', { ...task, stats: draws(2) });
    assert.deepEqual([json.task_alive, /not active/.test(json.info)], [false, true]);
  });

  it('brings a finished run back once, however many of its workers ask together', async () => {
    await using stack = new AsyncDisposableStack();
    const database = `sqlite:${join(await temporaryFolder(stack), 'fleet.db')}`;
    const tasks: object[] = [];
    {
      await using site = await FleetSite.open({ database });
      const id = await site.run({ num_games: 1_000_000 });
      for (let at = 0; at < 12; at += 1) tasks.push(await site.task({ unique_key: uniqueKey(at) }));
      const { primary } = site.fleet;
      await primary.change((fleet) => stopByUser(fleet, fleet.run(id) as Run, 'author', 'enough'));
    }
    await using site = await FleetSite.open({ database });
    const { storage } = site.fleet;
    let loads = 0;
    const load = storage.run.bind(storage);
    storage.run = (...asked) => {
      loads += 1;
      return load(...asked);
    };
    const replies = await Promise.all(tasks.map((task) => site.ask('beat', task)));
    for (const { json } of replies) assert.equal(json.task_alive, false);
    assert.equal(loads, 1);
  });

  it('takes users whose names are older than the rule for names', async () => {
    await using stack = new AsyncDisposableStack();
    const database = `sqlite:${join(await temporaryFolder(stack), 'fleet.db')}`;
    const body = { password: 'secret', worker_info: info({ username: 'old_name' }) };
    {
      await using site = await FleetSite.open({ database });
      const { users, storage } = site.fleet;
      await users.add({ username: 'old_name', password: 'secret', pending: false });
      assert.match((await site.ask('request_task', body)).json.error, /username/);
      await storage.setDocument('legacy_usernames', ['old_name']);
    }
    await using site = await FleetSite.open({ database });
    assert.equal((await site.ask('request_task', body)).json.task_waiting, false);
    const worker = { name: 'old_name-8cores-000000', message: 'too hot' };
    await operate(site.fleet, 'worker-block', worker);
    assert.match((await site.ask('request_task', body)).json.error, /is blocked.*too hot/s);
  });
});
