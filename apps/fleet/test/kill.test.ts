import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { type Random, seededRandom } from 'spillway';
import { gamesOf, type RunRecord, type TaskRecord } from 'spillway-fleet';
import { draws, sprtArgs, uniqueKey } from './fixtures/fleet-scene.ts';
import { ask, FleetSite, info, temporaryFolder } from './fixtures/fleet-site.ts';

const rounds = 20;
const workers = 16;
const program = join(import.meta.dirname, 'fixtures', 'fleet-child.ts');

/** One machine: plays what it gets, and knows how many games were acknowledged. */
interface Machine {
  readonly body: { readonly password: string; readonly worker_info: object };
  task?: { readonly run_id: string; readonly task_id: number; readonly games: number };
  sent: number;
}

async function startServer(
  database: string,
  cache: string,
): Promise<{ child: ChildProcess; url: string }> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...rest } = process.env;
  const env = { ...rest, NODE_COMPILE_CACHE: cache };
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [program, database], { env, stdio: [...stdio] });
  const failed = once(child, 'exit').then(() => assert.fail('the server ended'));
  const line = once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  const [url] = (await Promise.race([line, failed])) as [string];
  failed.catch(() => {});
  return { child, url };
}

/** Works until the server is gone; every acknowledged total goes into the book. */
async function work(url: string, machine: Machine, book: Map<string, number>): Promise<void> {
  try {
    for (;;) {
      if (machine.task === undefined) {
        const { json } = await ask(`${url}/api/request_task`, JSON.stringify(machine.body));
        const { run, task_id } = json ?? {};
        if (run === undefined) continue;
        machine.task = { run_id: run._id, task_id, games: run.my_task.num_games };
        machine.sent = 0;
      }
      const { run_id, task_id, games } = machine.task;
      machine.sent = Math.min(games, machine.sent + 8);
      const stats = draws(machine.sent);
      const body = JSON.stringify({ ...machine.body, run_id, task_id, stats });
      const { status, json } = await ask(`${url}/api/update_task`, body);
      assert.equal(status, 200, JSON.stringify(json));
      assert.equal(json.error, undefined);
      book.set(`${run_id}/${task_id}`, machine.sent);
      if (!json.task_alive) delete machine.task;
    }
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    // The connection is gone: what was sent last may be stored or not.
  }
}

/** Reads what is on the disk, with the server dead. */
function assertStored(path: string, book: ReadonlyMap<string, number>): number {
  using database = new DatabaseSync(path);
  let games = 0;
  for (const row of database.prepare('select id, record from runs').all()) {
    const run = JSON.parse(String(row.record)) as RunRecord;
    const tasks = database
      .prepare('select id, record from tasks where run_id = ? order by id')
      .all(String(row.id))
      .map((task) => JSON.parse(String(task.record)) as TaskRecord);
    const sum = tasks.reduce((total, { stats }) => total + gamesOf(stats), 0);
    assert.equal(gamesOf(run.results), sum, 'the balance is broken');
    assert.equal(run.workers, tasks.filter(({ active }) => active).length);
    assert.equal(
      run.total_games,
      tasks.reduce((total, { num_games }) => total + num_games, 0),
    );
    games += sum;
    for (const [at, { stats }] of tasks.entries()) {
      const acknowledged = book.get(`${run._id}/${at}`) ?? 0;
      const stored = gamesOf(stats);
      const isTrue = stored === acknowledged || stored === acknowledged + 8;
      assert.ok(isTrue, `task ${at}: ${stored} stored, ${acknowledged} acknowledged`);
    }
  }
  return games;
}

describe('a fleet server that is killed', () => {
  it(`has stored all it acknowledged, ${rounds} times`, async () => {
    const random: Random = seededRandom(7);
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const path = join(folder, 'fleet.db');
    const database = `sqlite:${path}`;
    {
      await using site = await FleetSite.open({ database });
      await site.fleet.users.change('tester', { machineLimit: 1000 });
      await site.run(sprtArgs(4));
    }
    const book = new Map<string, number>();
    const machines = Array.from({ length: workers }, (_, at): Machine => {
      const worker_info = info({ unique_key: uniqueKey(at) });
      return { body: { password: 'secret', worker_info }, sent: 0 };
    });
    let games = 0;
    for (let round = 0; round < rounds; round += 1) {
      const { child, url } = await startServer(database, join(folder, 'compiled'));
      stack.defer(() => void child.kill('SIGKILL'));
      const before = book.size;
      const all = machines.map((machine) => work(url, machine, book));
      // After some acknowledgements, at whatever instruction the server is then.
      const wanted = 20 + Math.floor(random() * 200);
      let seen = 0;
      const set = book.set.bind(book);
      const enough = Promise.withResolvers<void>();
      book.set = (name, value) => {
        seen += 1;
        if (seen === wanted) enough.resolve();
        return set(name, value);
      };
      await Promise.race([enough.promise, Promise.all(all)]);
      child.kill('SIGKILL');
      await Promise.all([once(child, 'exit'), ...all]);
      delete (book as { set?: unknown }).set;
      const now = assertStored(path, book);
      assert.ok(now > games, `nothing was played in round ${round}, ${before} tasks before`);
      games = now;
      // A worker that does not know whether its last result arrived sends it again.
      for (const machine of machines) {
        const { task } = machine;
        if (task !== undefined) machine.sent = book.get(`${task.run_id}/${task.task_id}`) ?? 0;
      }
    }
  });
});
