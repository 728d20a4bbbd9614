// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { blockWorker, deleteRun, logWorker, unblockWorker } from '../src/world/manage.ts';
import type { Stats } from '../src/world/records.ts';
import {
  draws,
  openings,
  runArgs,
  sprtArgs,
  spsaArgs,
  stats,
  uniqueKey,
} from './fixtures/fleet-scene.ts';
import { type Answer, FleetSite, info, type TaskBody } from './fixtures/fleet-site.ts';

const unknownRun = '0'.repeat(24);
let keys = 0;

/** A worker that nobody has seen. */
function fresh(): { readonly unique_key: string } {
  keys += 1;
  return { unique_key: uniqueKey(keys) };
}

describe('the worker API, from a task to its end', () => {
  let site: FleetSite;

  before(async () => {
    site = await FleetSite.open();
    await site.fleet.files.books.store(new Map([['book.epd', { ...openings, sri: 'sri' }]]));
    await site.fleet.users.change('tester', { machine_limit: 1000 });
  });

  after(() => site[Symbol.asyncDispose]());

  /** Asserts that the status is 200, and gives the answer without its duration. */
  function said({ status, json }: Answer): unknown {
    assert.equal(status, 200, JSON.stringify(json));
    const { duration, ...rest } = json;
    assert.equal(typeof duration, 'number');
    return rest;
  }

  async function assertInvalid(endpoint: string, body: unknown, error: RegExp): Promise<void> {
    const { status, json } = await site.ask(endpoint, body);
    assert.equal(status, 400, JSON.stringify(json));
    assert.match(json.error, error);
    assert.ok(json.error.startsWith(`/api/${endpoint}: `), json.error);
    assert.equal(typeof json.duration, 'number');
  }

  const update = (task: TaskBody, totals: Stats, more = {}) =>
    site.ask('update_task', { ...task, stats: totals, ...more });

  /** Ends whatever runs, so that the next test has the only one. */
  async function only(changes = {}): Promise<string> {
    await site.fleet.primary.change((fleet) => {
      const [first, ...rest] = [...fleet.unfinished].map((run) =>
        deleteRun(fleet, run, 'approver'),
      );
      for (const { runs, tasks, actions } of rest) {
        for (const run of runs) first?.runs.add(run);
        for (const task of tasks) first?.tasks.add(task);
        first?.actions.push(...actions);
      }
      return first ?? logWorker(fleet, info(), 'nothing to end');
    });
    return site.run(changes);
  }

  it('gives a task in the shape that workers read', async () => {
    const id = await only();
    const body = { password: 'secret', worker_info: info(fresh()) };
    const { json } = await site.ask('request_task', body);
    assert.deepEqual(Object.keys(json), ['run', 'task_id', 'duration']);
    assert.deepEqual(Object.keys(json.run), ['_id', 'args', 'my_task']);
    assert.equal(json.run._id, id);
    const { itp } = json.run.args;
    assert.deepEqual(json.run.args, { ...runArgs({ itp }), book_sri: 'sri' });
    const { num_games } = json.run.my_task;
    assert.deepEqual(json.run.my_task, { num_games, start: 0, stats: draws(0) });
    assert.ok(num_games > 0 && num_games % 2 === 0);
    assert.equal(json.task_id, 0);
  });

  it('sends no checksum of a book it does not know', async () => {
    await only({ book: 'other.epd' });
    const body = { password: 'secret', worker_info: info(fresh()) };
    const { json } = await site.ask('request_task', body);
    assert.equal('book_sri' in json.run.args, false);
  });

  it('has no task when nothing fits', async () => {
    await only({ threads: 64 });
    const body = { password: 'secret', worker_info: info(fresh()) };
    assert.deepEqual(said(await site.ask('request_task', body)), { task_waiting: false });
  });

  it('refuses tasks to blocked workers, to namesakes and beyond the machine limit', async () => {
    await only();
    const worker_info = info({ concurrency: 7, unique_key: uniqueKey(9_000) });
    const body = { password: 'secret', worker_info };
    await site.task(worker_info);
    const twin = uniqueKey(9_000).replace('4d17', '4d18');
    const namesake = { ...body, worker_info: { ...worker_info, unique_key: twin } };
    const { json } = await site.ask('request_task', namesake);
    assert.equal(json.task_waiting, false);
    assert.match(json.error, /tester-7cores-0006y0/);
    await site.fleet.primary.change((fleet) =>
      blockWorker(fleet, 'tester-7cores-0006y0', 'boss', 'why'),
    );
    const blocked = await site.ask('request_task', body);
    assert.equal(blocked.json.task_waiting, false);
    assert.match(blocked.json.error, /why/);
    assert.match(blocked.json.error, /http:\/\/127.0.0.1:\d+\/workers\/tester-7cores/);
    await site.fleet.primary.change((fleet) =>
      unblockWorker(fleet, 'tester-7cores-0006y0', 'boss'),
    );
    await site.fleet.users.change('tester', { machine_limit: 1 });
    const limited = await site.ask('request_task', { ...body, worker_info: info(fresh()) });
    assert.match(limited.json.error, /machine|limit/i);
    await site.fleet.users.change('tester', { machine_limit: 1000 });
  });

  it('gives a worker that asks again a new task, and fails the old one', async () => {
    await only();
    const key = fresh();
    const first = await site.task(key);
    const second = await site.task(key);
    assert.equal(second.task_id, first.task_id + 1);
    assert.deepEqual(said(await site.ask('beat', first)), { task_alive: false });
    assert.deepEqual(said(await site.ask('beat', second)), { task_alive: true });
  });

  it('adds up results, takes the same totals twice, and ends a task that is full', async () => {
    const id = await only({ num_games: 20 });
    const task = await site.task({ ...fresh(), concurrency: 1 });
    assert.deepEqual(said(await update(task, draws(8))), { task_alive: true });
    assert.deepEqual(said(await update(task, draws(8))), { task_alive: true });
    assert.deepEqual(site.fleet.primary.world.run(id)?.record.results, draws(8));
    assert.deepEqual(said(await update(task, draws(20))), { task_alive: false });
    const late = said(await update(task, draws(20))) as { task_alive: boolean; info: string };
    assert.equal(late.task_alive, false);
    assert.match(late.info, /not active/);
    assert.deepEqual(said(await site.ask('beat', task)), { task_alive: false });
    assert.equal((await site.fleet.storage.run(id))?.record.finished, true);
  });

  it('ends a task whose totals cannot be, with 200 and an error', async () => {
    await only(sprtArgs(4));
    const sequential = await site.task(fresh());
    for (const [totals, error] of [[draws(6), /multiple of 8/]] as const) {
      const { json, status } = await update(sequential, totals);
      assert.deepEqual([status, json.task_alive], [200, false]);
      assert.match(json.error, error);
    }
    await only();
    const fewer = await site.task(fresh());
    await update(fewer, draws(8));
    const { json, status } = await update(fewer, draws(6));
    assert.deepEqual([status, json.task_alive], [200, false]);
    assert.match(json.error, /fewer/);
    assert.deepEqual(said(await site.ask('beat', fewer)), { task_alive: false });
  });

  it('answers each broken request with what is wrong with it, and changes nothing', async () => {
    const id = await only();
    const task = await site.task(fresh());
    const run = site.fleet.primary.world.run(id);
    const before = JSON.stringify([run?.record, run?.tasks[0]?.record.stats]);
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ extra: 1 }, /extra/],
      [{ worker_info: { ...task.worker_info, extra: 1 } }, /extra/],
      [{ worker_info: { ...task.worker_info, nps: undefined } }, /nps/],
      [{ worker_info: { ...task.worker_info, concurrency: 0 } }, /concurrency.*value:0/],
      [{ worker_info: { ...task.worker_info, unique_key: 'x' } }, /unique_key.*value:"x"/],
      [{ worker_info: { ...task.worker_info, compiler: 'icc' } }, /compiler.*value:"icc"/],
      [{ worker_info: { ...task.worker_info, worker_arch: 'z80' } }, /worker_arch.*value:"z80"/],
      [{ run_id: 'xyz' }, /run_id/],
      [{ run_id: unknownRun }, new RegExp(`Invalid run_id: ${unknownRun}`)],
      [{ task_id: 1 }, /Invalid task_id: 1$/],
      [{ task_id: Number.MAX_SAFE_INTEGER }, /Invalid task_id/],
      [{ task_id: -1 }, /task_id/],
      [{ run_id: undefined }, /run_id/],
      [{ run_id: undefined, task_id: undefined }, /Missing run_id$/],
      [{ task_id: undefined }, /Missing task_id$/],
      [{ worker_info: { ...task.worker_info, ...fresh() } }, /Invalid unique_key/],
      [{ stats: { ...draws(8), wins: -1 } }, /wins/],
      [{ stats: { ...draws(8), wins: 8 } }, /stats/],
    ];
    for (const [change, error] of cases) {
      await assertInvalid('update_task', { ...task, stats: draws(8), ...change }, error);
      await assertInvalid('beat', { ...task, ...change }, error);
      const spsa = site.ask('request_spsa', { ...task, ...change });
      assert.equal((await spsa).status, 400);
      await assertInvalid('failed_task', { ...task, message: 'x', ...change }, error);
      await assertInvalid('stop_run', { ...task, message: 'x', ...change }, error);
      await assertInvalid('upload_pgn', { ...task, message: '', pgn: 'x', ...change }, error);
    }
    await assertInvalid('update_task', task, /Missing stats$/);
    await assertInvalid('upload_pgn', { ...task, message: '' }, /Missing pgn$/);
    await assertInvalid('upload_pgn', { ...task, message: '', pgn: 'AAAA' }, /gzip/);
    await assertInvalid('request_spsa', task, /Not a tuning/);
    assert.equal(JSON.stringify([run?.record, run?.tasks[0]?.record.stats]), before);
    assert.deepEqual(said(await site.ask('beat', task)), { task_alive: true });
  });

  it('takes whole numbers for fractions, and true for one', async () => {
    await only();
    const odd = { ...info(fresh()), nps: 0, concurrency: true };
    const { json } = await site.ask('request_task', { password: 'secret', worker_info: odd });
    assert.ok('run' in json, JSON.stringify(json));
  });

  it('tunes: parameters, results with their signature, new parameters', async () => {
    const id = await only(spsaArgs(40_000));
    const task = await site.task(fresh());
    const { json: trial } = await site.ask('request_spsa', task);
    const keys = ['w_params', 'b_params', 'sig', 'task_alive', 'duration'];
    assert.deepEqual(Object.keys(trial), keys);
    assert.deepEqual(Object.keys(trial.w_params[0]), ['name', 'value', 'c', 'R', 'flip']);
    assert.deepEqual(Object.keys(trial.b_params[0]), ['name', 'value']);
    const spsa = { num_games: 4, wins: 2, losses: 0, draws: 2, sig: trial.sig };
    const totals = stats([0, 0, 1, 0, 1]);
    assert.deepEqual(said(await update(task, totals, { spsa })), { task_alive: true });
    assert.equal(site.fleet.primary.world.run(id)?.args.spsa?.iter, 2);
    const again = await site.ask('request_spsa', { ...task, stats: totals, spsa });
    assert.equal(again.json.task_alive, true);
    await site.ask('failed_task', { ...task, message: 'enough' });
    const { json: over } = await site.ask('request_spsa', task);
    assert.equal(over.task_alive, false);
    assert.match(over.info, /not active/);
  });

  it('lets a worker give its task up, once', async () => {
    await only();
    const task = await site.task(fresh());
    const body = { ...task, message: `make\0: ${'error '.repeat(500_000)}` };
    assert.deepEqual(said(await site.ask('failed_task', body)), {});
    const { task_alive, info } = said(await site.ask('failed_task', body)) as Record<
      string,
      unknown
    >;
    assert.equal(task_alive, false);
    assert.match(String(info), /not active/);
    const { kysely } = site.fleet.storage.database;
    const rows = await kysely
      .selectFrom('actions')
      .selectAll()
      .where('run_id', '=', task.run_id)
      .where('action', '=', 'failed_task')
      .execute();
    assert.deepEqual(
      rows.map(({ message, task_id }) => [message?.slice(0, 11), task_id]),
      [['make: error', task.task_id]],
    );
  });

  it('stops a run on the word of who has given much, and only the task for others', async () => {
    const id = await only();
    const task = await site.task(fresh());
    const other = await site.task(fresh());
    const body = { ...task, message: 'wrong bench' };
    const few = await site.ask('stop_run', body);
    assert.equal(few.status, 401);
    assert.match(few.json.error, /^\/api\/stop_run: .*too few games/);
    assert.equal(typeof few.json.duration, 'number');
    assert.deepEqual(said(await site.ask('beat', task)), { task_alive: false });
    assert.deepEqual(said(await site.ask('beat', other)), { task_alive: true });
    const { kysely } = site.fleet.storage.database;
    const row = { username: 'tester', cpu_hours: 1000, record: '{}' };
    await kysely.insertInto('contributors').values(row).execute();
    assert.deepEqual(said(await site.ask('stop_run', { ...other, message: 'wrong bench' })), {});
    const stored = await site.fleet.storage.run(id);
    assert.deepEqual([stored?.record.finished, stored?.record.failed], [true, true]);
    const late = await site.ask('stop_run', { ...other, message: 'wrong bench' });
    assert.equal(late.status, 401);
    assert.match(late.json.error, /already finished/);
    await kysely.deleteFrom('contributors').execute();
  });

  it('writes down what workers say, cut to its limit', async () => {
    await only();
    const task = await site.task(fresh());
    const { run_id, task_id, ...alone } = task;
    assert.deepEqual(said(await site.ask('worker_log', { ...alone, message: 'alone' })), {});
    const long = 'x'.repeat(6_000);
    assert.deepEqual(said(await site.ask('worker_log', { ...task, message: long })), {});
    await assertInvalid(
      'worker_log',
      { ...alone, run_id, message: 'x' },
      /Missing task_id for worker_log run context$/,
    );
    const rows = await site.fleet.storage.database.kysely
      .selectFrom('actions')
      .selectAll()
      .where('action', '=', 'worker_log')
      .orderBy('time')
      .execute();
    const [first, last] = rows.slice(-2);
    assert.deepEqual([first?.message, first?.run_id], ['alone', null]);
    assert.deepEqual([last?.message?.length, last?.run_id, last?.task_id], [5120, run_id, task_id]);
  });
});
