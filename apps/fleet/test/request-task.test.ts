import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EmptyTasks } from '../src/world/empty-tasks.ts';
import { blockWorker, stopByUser, unblockWorker } from '../src/world/manage.ts';
import type { StoredWorkerInfo } from '../src/world/records.ts';
import { archFilter, demoUsername, wrap } from '../src/world/request-task.ts';
import { failTask } from '../src/world/update-task.ts';
import {
  assertInOrder,
  draws,
  Scene,
  sprtArgs,
  spsaArgs,
  uniqueKey,
} from './fixtures/fleet-scene.ts';

const nothing = { task_waiting: false };

describe('requestTask', () => {
  it('gives a task with all that a worker reads, and says what to store', () => {
    const scene = new Scene();
    const run = scene.run();
    const { reply, changes } = scene.ask();
    assert.ok('run' in reply);
    assert.deepEqual(reply, {
      run: { _id: run.id, args: run.args, my_task: { num_games: 466, start: 0, stats: draws(0) } },
      task_id: 0,
    });
    assert.deepEqual([...changes.runs], [run]);
    assert.deepEqual([...changes.tasks], [run.tasks[0]]);
    assert.deepEqual(changes.actions, []);
    assert.equal(run.status, 'active');
    assertInOrder(run);
  });

  it('starts each task where the openings of the last one end', () => {
    const scene = new Scene();
    scene.run();
    const first = scene.task({ unique_key: uniqueKey(1) });
    const second = scene.task({ unique_key: uniqueKey(2) });
    assert.equal(second.record.start, first.record.num_games);
  });

  it('has nothing for a worker when there is no run', () => {
    assert.deepEqual(new Scene().ask().reply, nothing);
  });

  it('gives workers that make results up only runs of their own account', () => {
    const scene = new Scene();
    scene.run({ priority: 9 });
    assert.deepEqual(scene.ask({ username: demoUsername }).reply, nothing);
    const own = scene.run({ username: demoUsername });
    assert.equal(scene.task({ username: demoUsername }).run, own);
  });

  it('gives out no more games than are left, and whole batches to a sequential test', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 500 });
    assert.equal(scene.task({ unique_key: uniqueKey(1) }).record.num_games, 466);
    assert.equal(scene.task({ unique_key: uniqueKey(2) }).record.num_games, 34);
    assert.deepEqual(scene.ask({ unique_key: uniqueKey(3) }).reply, nothing);
    assert.equal(run.openGames, 0);
    const test = scene.run({ ...sprtArgs(16), num_games: 500 });
    assert.equal(scene.task({ unique_key: uniqueKey(4) }).record.num_games, 480);
    assert.equal(scene.task({ unique_key: uniqueKey(5) }).record.num_games, 32);
    assert.equal(test.openGames, -12);
  });

  it('tells a blocked worker why, and remembers that it asked', async () => {
    const scene = new Scene();
    scene.run();
    const message = `${'Too many time losses. '.repeat(8)}Bye.`;
    const blocked = blockWorker(scene.fleet, 'tester-8cores-000000', 'boss', message);
    assert.deepEqual(blocked.actions[0], {
      time: 0,
      action: 'block_worker',
      username: 'boss',
      worker: 'tester-8cores-000000',
      message: 'blocked',
    });
    await scene.clock.advance(5000);
    const { reply, changes } = scene.ask();
    assert.ok('error' in reply && reply.error !== undefined);
    assert.match(reply.error, /^Request_task: tester-8cores-000000 is blocked/);
    assert.match(reply.error, /http:\/\/fleet\.test\/workers\/tester-8cores-000000/);
    assert.match(reply.error, /\/actions\?text="tester-8cores-000000"/);
    assert.ok(reply.error.split('\n').every((line) => line.length <= 70));
    assert.deepEqual([...changes.blocked], ['tester-8cores-000000']);
    assert.equal(scene.fleet.blocked.get('tester-8cores-000000')?.last_updated, 5000);
    unblockWorker(scene.fleet, 'tester-8cores-000000', 'boss');
    assert.equal(unblockWorker(scene.fleet, 'tester-8cores-000000', 'boss').actions.length, 0);
    assert.ok('run' in scene.ask().reply);
  });

  it('refuses a second worker of one name until the first was silent for two minutes', async () => {
    const scene = new Scene();
    const run = scene.run();
    const first = scene.task();
    const twin = { unique_key: uniqueKey(0).replace('5622', '5623') };
    await scene.clock.advance(120_000);
    const { reply } = scene.ask(twin);
    assert.ok('error' in reply && reply.error !== undefined);
    assert.match(reply.error, /already/);
    await scene.clock.advance(1);
    assert.ok('run' in scene.ask(twin).reply);
    assert.equal(first.active, false);
    assertInOrder(run);
  });

  it('fails the active task of a worker that asks again', () => {
    const scene = new Scene();
    const run = scene.run();
    const first = scene.task();
    const { reply, changes } = scene.ask();
    assert.ok('run' in reply);
    assert.equal(first.active, false);
    assert.equal(scene.fleet.activeTask(first.name), scene.taskOf(reply));
    assert.deepEqual(
      changes.actions.map(({ action, message, task_id }) => [action, message, task_id]),
      [['failed_task', 'Stale active task', 0]],
    );
    assert.deepEqual([...changes.tasks], run.tasks.toReversed());
    assertInOrder(run);
  });

  it('holds a user to a number of tasks per address', () => {
    const scene = new Scene();
    scene.run();
    const ask = (n: number, remote_addr: string) =>
      scene.ask({ unique_key: uniqueKey(n), remote_addr }, 2).reply;
    assert.ok('run' in ask(1, 'a'));
    assert.ok('run' in ask(2, 'a'));
    const refused = ask(3, 'a');
    assert.ok('error' in refused && refused.error !== undefined);
    assert.match(refused.error, /limit/i);
    assert.ok('run' in ask(4, 'b'));
    failTask(scene.fleet, scene.fleet.activeTask('tester-8cores-000001') as never, 'gone');
    assert.ok('run' in ask(3, 'a'));
  });
});

describe('tasks that end without a game', () => {
  /** Asks until it is refused, or so many times; gives the refusal. */
  const loop = (scene: Scene, max: number, who: (n: number) => Partial<StoredWorkerInfo>) => {
    for (let n = 0; n < max; n += 1) {
      const { reply } = scene.ask(who(n), 2);
      if ('error' in reply) return reply;
    }
    return undefined;
  };
  const same = () => ({});

  it('are so many for each machine of a user at an address, whatever its workers say', async () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(1));
    const refused = loop(scene, 1_000, same);
    assert.deepEqual(Object.keys(refused ?? {}), ['task_waiting', 'error']);
    assert.match(refused?.error ?? '', /32 tasks of tester at 10\.0\.0\.1 ended without a game/);
    assert.equal(run.tasks.length, 33);
    const inventive = (n: number) => ({ unique_key: uniqueKey(n), concurrency: 1 + n });
    assert.ok(loop(scene, 1, inventive) !== undefined);
    const other = scene.ask({ username: 'other' }, 2).reply;
    assert.ok('run' in other);
    failTask(scene.fleet, scene.taskOf(other), 'gone');
    assert.ok('run' in scene.ask({ remote_addr: '10.0.0.2', unique_key: uniqueKey(2) }, 2).reply);
    await scene.clock.advance(3_600_000);
    assert.ok(loop(scene, 1_000, same) !== undefined);
    assert.ok(run.tasks.length > 40 && run.tasks.length < 70, `${run.tasks.length}`);
    assertInOrder(run);
  });

  it('are so many for all addresses of a user together', () => {
    const scene = new Scene();
    const run = scene.run(sprtArgs(1));
    const refused = loop(scene, 10_000, (n) => ({ remote_addr: `10.0.${n >> 8}.${n & 255}` }));
    assert.match(refused?.error ?? '', /2048 tasks of tester ended/);
    assert.equal(run.tasks.length, 2_049);
  });

  it('count wherever they end, except with their run', () => {
    const scene = new Scene();
    const first = scene.run({ ...sprtArgs(1), priority: 1 });
    for (let n = 0; n < 40; n += 1) {
      const task = scene.task();
      scene.update(task, draws(2));
      failTask(scene.fleet, task, 'after one pair');
    }
    const many = Array.from({ length: 40 }, (_, n) => scene.task({ unique_key: uniqueKey(n) }));
    stopByUser(scene.fleet, first, 'boss', 'enough');
    assert.deepEqual(
      many.filter(({ active }) => active),
      [],
    );
    scene.run();
    for (let n = 0; n < 32; n += 1) failTask(scene.fleet, scene.task(), 'at once');
    assert.match(loop(scene, 1, same)?.error ?? '', /without a game/);
  });

  it('are never too many of workers that wait as the official one does', async () => {
    const scene = new Scene();
    scene.run(sprtArgs(1));
    const machines = 16;
    let failures = 0;
    const start = (n: number) => {
      let pauseMs = 15_000;
      const turn = (): void => {
        const { reply } = scene.ask({ unique_key: uniqueKey(n) }, machines);
        assert.ok('run' in reply, JSON.stringify(reply));
        failTask(scene.fleet, scene.taskOf(reply), 'cannot build');
        failures += 1;
        scene.clock.after(pauseMs, turn);
        pauseMs = Math.min(900_000, 2 * pauseMs);
      };
      turn();
    };
    for (let n = 0; n < machines; n += 1) start(n);
    await scene.clock.advance(24 * 3_600_000);
    assert.ok(failures > 90 * machines);
  });

  it('are forgotten in time, also when the clock was set back', () => {
    const tasks = new EmptyTasks();
    const sender = { username: 'tester', remote_addr: '10.0.0.1' };
    const hour = 3_600_000;
    for (let n = 0; n < 16; n += 1) tasks.add(sender, 5 * hour);
    for (const now of [5 * hour, 0]) assert.ok(tasks.refusal(sender, 1, now) !== undefined);
    assert.equal(tasks.refusal(sender, 1, hour), undefined);
  });
});

describe('the choice of a run', () => {
  it('looks at priority first, then at runs without workers, then at load', () => {
    const scene = new Scene();
    const low = scene.run({ priority: -1 });
    const big = scene.run({ throughput: 200, username: 'one' });
    const small = scene.run({ throughput: 100, username: 'two' });
    const chosen = Array.from(
      { length: 9 },
      (_, n) => scene.task({ unique_key: uniqueKey(n) }).run,
    );
    const count = (run: unknown) => chosen.filter((one) => one === run).length;
    assert.deepEqual([count(big), count(small), count(low)], [6, 3, 0]);
    const urgent = scene.run({ priority: 1 });
    assert.equal(scene.task({ unique_key: uniqueKey(10) }).run, urgent);
  });

  it('moves a worker on from its last run when another is as needy', () => {
    const scene = new Scene();
    const first = scene.run({ num_games: 100_000 });
    const second = scene.run({ num_games: 100_000 });
    const [mine, other] = [scene.task(), scene.task({ unique_key: uniqueKey(1) })];
    assert.deepEqual([mine.run, other.run], [first, second]);
    failTask(scene.fleet, mine, 'done');
    failTask(scene.fleet, other, 'done');
    assert.equal(scene.task().run, second);
  });

  const refusing = {
    'is not approved': [{}, {}, false],
    'needs more threads than the worker has': [{ threads: 9 }, {}],
    'needs fewer threads than the worker wants to use': [{ threads: 1 }, { min_threads: 2 }],
    'needs more memory': [{}, { max_memory: 3611 }],
    'pins another compiler': [{ compiler: 'clang++' }, {}],
    'filters the architecture out': [{ arch_filter: 'avx512|^arm' }, {}],
  } as const;

  for (const [why, [args, info, approved]] of Object.entries(refusing)) {
    it(`passes over a run that ${why}`, () => {
      const scene = new Scene();
      scene.run(args, approved);
      assert.deepEqual(scene.ask(info).reply, nothing);
    });
  }

  it('takes the run that these rules just let through', () => {
    const scene = new Scene();
    scene.run({ threads: 8, arch_filter: 'avx2$', compiler: 'g++' });
    const need = 32 + 444 + 2 * (151 + 31 * 8);
    assert.ok('run' in scene.ask({ min_threads: 8, max_memory: need }).reply);
    assert.deepEqual(scene.ask({ max_memory: need - 1 }).reply, nothing);
  });

  it('sends a worker near its download limit only to runs it has the files of', () => {
    const scene = new Scene();
    const known = scene.run();
    failTask(scene.fleet, scene.task(), 'done');
    scene.run({ priority: 5 });
    assert.equal(scene.task({ near_github_api_limit: true }).run, known);
    const stranger = { near_github_api_limit: true, unique_key: uniqueKey(7) };
    assert.deepEqual(scene.ask(stranger).reply, nothing);
  });

  it('gives a tuning only so many cores', () => {
    const scene = new Scene();
    const run = scene.run(spsaArgs(1_000_000_000));
    const cores = Math.floor(200_000 / Math.SQRT2);
    const huge = { concurrency: cores, max_memory: 1e9 };
    assert.ok('run' in scene.ask(huge).reply);
    assert.equal(scene.task({ unique_key: uniqueKey(1) }).run, run);
    assert.deepEqual(scene.ask({ unique_key: uniqueKey(2) }).reply, nothing);
  });
});

describe('archFilter', () => {
  it('lets everyone in when it cannot be read or takes too long, and says so', () => {
    const broken = archFilter('(');
    assert.match(broken.problem as string, /arch_filter \(/);
    assert.ok(broken.accepted?.has('x86-64-avx2') && broken.accepted.has('unknown'));
    const slow = archFilter('^(.|.|.|.)+X');
    assert.match(slow.problem as string, /timed out/);
    assert.ok(slow.accepted?.has('loongarch64-lasx'));
    assert.equal(archFilter(undefined).accepted, undefined);
  });
});

describe('wrap', () => {
  it('breaks between words, and words that are too long', () => {
    assert.deepEqual(wrap(`${'ab '.repeat(30)}\nend`), [
      'ab '.repeat(23).trim(),
      'ab '.repeat(7).trim(),
      'end',
    ]);
    assert.deepEqual(wrap('x'.repeat(75)), ['x'.repeat(70), 'xxxxx']);
  });
});
