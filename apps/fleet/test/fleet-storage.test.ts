// Slow: stores thousands of records for each case.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { seededRandom, systemClock, wallClock } from 'spillway';
import { nextTurn } from 'spillway/internal';
import { Database } from 'spillway-sql';
import { ChangeWriter } from '../src/storage/change-writer.ts';
import type { FleetSchema } from '../src/storage/fleet-schema.ts';
import { FleetStorage } from '../src/storage/fleet-storage.ts';
import {
  approveRun,
  blockWorker,
  newRunRecord,
  addRun as placeRun,
  stopByUser,
  unblockWorker,
} from '../src/world/manage.ts';
import type { Changes, RunArgs } from '../src/world/records.ts';
import { requestTask } from '../src/world/request-task.ts';
import { Run, type Task } from '../src/world/run.ts';
import { requestSpsa, updateTask } from '../src/world/update-task.ts';
import { World } from '../src/world/world.ts';
import { draws, runArgs, spsaArgs, stats, uniqueKey, worker } from './fixtures/fleet-scene.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

/** A fleet and its storage, without a server. */
async function openStorage(stack: AsyncDisposableStack) {
  const path = join(await temporaryFolder(stack), 'fleet.db');
  const database = stack.use(await Database.open<FleetSchema>({ url: `sqlite:${path}` }));
  const storage = new FleetStorage(database);
  await storage.migrate();
  const fleet = newFleet();
  const writer = new ChangeWriter({ database, world: fleet, fence: 1, clock: systemClock });
  stack.defer(() => writer.close());
  const addRun = async (changes: Partial<RunArgs> = {}) => {
    const id = `${fleet.unfinished.size}`.padStart(24, '0');
    const run = new Run(newRunRecord({ id, args: runArgs(changes), now: wallClock.now() }));
    await writer.store(placeRun(fleet, run, 'added'));
    await writer.store(approveRun(fleet, run, 'approver'));
    return run;
  };
  const addTask = (number: number, run: Run): { task: Task; changes: Changes } => {
    const info = worker({ unique_key: uniqueKey(number), concurrency: 4 });
    const baseUrl = 'http://x';
    const { changes } = requestTask(fleet, { info, machineLimit: 1e6, baseUrl });
    return { task: run.tasks.at(-1) as Task, changes };
  };
  return { path, storage, fleet, writer, addRun, addTask };
}

/** For a database with one run: what its tasks come to, and what it says itself. */
const balance = `select sum(json_extract(tasks.record, '$.stats.draws')) played,
  json_extract(runs.record, '$.results.draws') counted from runs, tasks`;

function newFleet(): World {
  return new World({ clock: wallClock, random: seededRandom(1) });
}

/** All that is stored of a run is what is in memory. */
async function assertSame(storage: FleetStorage, run: Run): Promise<void> {
  const stored = await storage.run(run.id.toUpperCase());
  assert.deepEqual(stored?.record, JSON.parse(JSON.stringify(run.record)));
  assert.deepEqual(
    stored?.tasks.map(({ record }) => record),
    run.tasks.map(({ record }) => JSON.parse(JSON.stringify(record))),
  );
  assert.deepEqual(stored?.badTasks, run.badTasks);
}

describe('FleetStorage', () => {
  it('stores the last state of each record, whatever the order of the answers', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun();
    const tasks = Array.from({ length: 10 }, (_, at) => {
      const { task, changes } = addTask(at, run);
      return { task, stored: writer.store(changes) };
    });
    await Promise.all(tasks.map(({ stored }) => stored));
    const before = writer.stats.transactions;
    const waits: Promise<void>[] = [];
    for (let games = 2; games <= 100; games += 2) {
      for (const { task } of tasks) {
        const { worker_info: info } = task.record;
        const { changes } = updateTask(fleet, task, { info, stats: draws(games) });
        waits.push(writer.store(changes));
      }
      if (games % 10 === 0) await waits.at(-1);
    }
    await Promise.all(waits);
    const { transactions, waiting, failures } = writer.stats;
    assert.deepEqual([waiting, failures], [0, 0]);
    assert.ok(transactions - before <= 20, `${transactions - before} transactions`);
    assert.equal(run.games, 1000);
    await assertSame(storage, run);
  });

  it('is one moment of the world in each transaction', async () => {
    await using stack = new AsyncDisposableStack();
    const { path, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun();
    const { task, changes } = addTask(0, run);
    await writer.store(changes);
    using reader = new DatabaseSync(path, { readOnly: true });
    const read = reader.prepare(balance);
    const { worker_info: info } = task.record;
    for (let games = 2; games <= 60; games += 2) {
      const stored = writer.store(updateTask(fleet, task, { info, stats: draws(games) }).changes);
      const { played, counted } = read.get() as Record<string, number>;
      assert.equal(played, counted);
      await stored;
      assert.equal(read.get()?.played, games);
    }
  });

  it('is one moment of the world also when it is too long for one turn', async () => {
    await using stack = new AsyncDisposableStack();
    const { path, storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun({ num_games: 2_000_000 });
    const waits = Array.from({ length: 2_000 }, (_, at) => writer.store(addTask(at, run).changes));
    // The writing has begun, and the last task's turn has not come yet.
    await new Promise<void>(nextTurn);
    const task = run.tasks.at(-1) as Task;
    const { worker_info: info } = task.record;
    const late = writer.store(updateTask(fleet, task, { info, stats: draws(8) }).changes);
    await Promise.all(waits);
    using reader = new DatabaseSync(path, { readOnly: true });
    const { played, counted } = reader.prepare(balance).get() ?? {};
    assert.deepEqual([played, counted], [0, 0]);
    await late;
    await assertSame(storage, run);
  });

  it('writes the history of a tuning only when it has grown, and reads it back', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun(spsaArgs(400));
    const { task, changes } = addTask(0, run);
    await writer.store(changes);
    const { worker_info: info } = task.record;
    for (let at = 1; at <= 20; at += 1) {
      const { reply, changes: asked } = requestSpsa(fleet, task);
      await writer.store(asked);
      assert.ok('sig' in reply);
      const spsa = { wins: 2, losses: 0, draws: 2, num_games: 4, sig: reply.sig };
      const totals = stats([0, 0, at, 0, at]);
      await writer.store(updateTask(fleet, task, { info, stats: totals, spsa }).changes);
    }
    assert.ok((run.args.spsa?.param_history?.length ?? 0) > 1);
    await assertSame(storage, run);
    const row = await storage.database.kysely
      .selectFrom('runs')
      .select('record')
      .executeTakeFirstOrThrow();
    assert.equal(row.record.includes('param_history'), false);
  });

  it('reads runs with more tasks than it reads at once, in their order', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun({ num_games: 2_000_000 });
    const waits = Array.from({ length: 4_100 }, (_, at) => writer.store(addTask(at, run).changes));
    await Promise.all(waits);
    await assertSame(storage, run);
    const { runs } = await storage.load();
    assert.deepEqual(
      [...runs].map(({ tasks }) => tasks.length),
      [4_100],
    );
    assert.equal((await storage.task(run.id, 4_099))?.start, run.tasks[4_099]?.record.start);
    assert.equal(await storage.task(run.id, 4_100), undefined);
    assert.equal(await storage.task('f'.repeat(24), 0), undefined);
  });

  it('keeps purged tasks, blocked workers and entries of the log', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun({ num_games: 400, auto_purge: true });
    for (let at = 0; run.openGames > 0; at += 1) {
      const { task, changes } = addTask(at, run);
      await writer.store(changes);
      const { num_games, worker_info: info } = task.record;
      const totals = draws(num_games, at === 0 ? { crashes: 4 } : {});
      await writer.store(updateTask(fleet, task, { info, stats: totals }).changes);
      if (at > 100) break;
    }
    assert.equal(run.badTasks.length, 1);
    await assertSame(storage, run);
    await writer.store(blockWorker(fleet, 'a-1cores-x', 'boss', 'too\0 slow'));
    await writer.store(blockWorker(fleet, 'b-1cores-x', 'boss', 'why not'));
    await writer.store(unblockWorker(fleet, 'b-1cores-x', 'boss'));
    const { blocked = [] } = await storage.load();
    assert.deepEqual(
      [...blocked].map(([name, { message }]) => [name, message]),
      [['a-1cores-x', 'too slow']],
    );
    const rows = await storage.database.kysely
      .selectFrom('actions')
      .selectAll()
      .orderBy('time')
      .orderBy('id')
      .execute();
    const names = rows.map(({ action }) => action);
    assert.deepEqual(names.slice(0, 2), ['new_run', 'approve_run']);
    assert.deepEqual(names.slice(-3), ['block_worker', 'block_worker', 'block_worker']);
    assert.ok(rows.every(({ id }) => /^[0-9a-f]{24}$/.test(id)));
    assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
  });

  it('tells of a write that failed, and makes up for it', async () => {
    await using stack = new AsyncDisposableStack();
    const { path, storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun();
    const { task, changes } = addTask(0, run);
    await writer.store(changes);
    const options = { url: `sqlite:${path}`, deadlineMs: 500 };
    const database = stack.use(await Database.open<FleetSchema>(options));
    const hasty = new ChangeWriter({ database, world: fleet, fence: 1, clock: systemClock });
    stack.defer(() => hasty.close());
    using other = new DatabaseSync(path, { timeout: 10_000 });
    other.exec('begin immediate');
    const { worker_info: info } = task.record;
    const update = updateTask(fleet, task, { info, stats: draws(8) });
    await assert.rejects(
      hasty.store(update.changes),
      ({ status }) => status === 503 || status === 504,
    );
    assert.equal(hasty.stats.failures, 1);
    other.exec('rollback');
    // On a busy machine a write may need more than its deadline again.
    while (hasty.stats.waiting > 0) await hasty.flush().catch(() => {});
    await assertSame(storage, run);
  });

  it('stores nothing of an instance after another has become the primary', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, fleet, writer, addRun, addTask } = await openStorage(stack);
    const run = await addRun();
    const { database } = storage;
    const writerOf = (world: World, fence: number) =>
      new ChangeWriter({ database, world, fence, clock: systemClock });
    const next = writerOf(newFleet(), 2);
    await next.claim();
    assert.equal(await storage.fence(), 2);
    const { changes } = addTask(0, run);
    await assert.rejects(writer.store(changes), { code: 'LEASE_LOST' });
    assert.equal(writer.signal.aborted, true);
    await assert.rejects(writer.store(changes), { code: 'LEASE_LOST' });
    assert.throws(() => writer.assertRoom(), { code: 'LEASE_LOST' });
    await assert.rejects(writerOf(fleet, 1).claim(), { code: 'LEASE_LOST' });
    assert.equal((await storage.run(run.id))?.tasks.length, 0);
    next.close();
  });

  it('gives up what the database will never take', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage, fleet, writer, addRun } = await openStorage(stack);
    const run = await addRun();
    await storage.database.kysely.schema.dropTable('actions').execute();
    const changes = stopByUser(fleet, run, 'boss', 'enough');
    await assert.rejects(writer.store(changes), { code: 'DATABASE_LOST', status: 503 });
    assert.equal(writer.signal.aborted, true);
    assert.equal((await storage.run(run.id))?.record.finished, false);
  });

  it('keeps named values', async () => {
    await using stack = new AsyncDisposableStack();
    const { storage } = await openStorage(stack);
    assert.equal(await storage.document('books'), undefined);
    await storage.setDocument('books', { a: [1] });
    await storage.setDocument('books', { a: [2] });
    assert.deepEqual(await storage.document('books'), { a: [2] });
  });
});
