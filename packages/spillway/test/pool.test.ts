import assert from 'node:assert/strict';
import child from 'node:child_process';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { Pool, type PoolOptions } from 'spillway';

type Module = typeof import('./fixtures/pool-worker.ts');

const module = new URL('./fixtures/pool-worker.ts', import.meta.url);
const settings: PoolOptions = { module, workers: 2, queueMax: 100, deadlineMs: 20_000 };

async function reasonOf(promise: Promise<unknown>): Promise<Error & { code?: string }> {
  const [result] = await Promise.allSettled([promise]);
  assert.ok(result?.status === 'rejected' && result.reason instanceof Error);
  return result.reason;
}

const execFile = promisify(child.execFile);

describe('a pool', () => {
  let pool: Pool<Module>;
  before(async () => {
    pool = await Pool.open<Module>(settings);
  });
  after(() => pool.close());

  it('runs handlers, typed from the module without casts', async () => {
    const sum: number = await pool.run('add', { a: 1, b: 2 });
    assert.equal(sum, 3);
    assert.ok(pool.ready);
    // @ts-expect-error: no such handler.
    await assert.rejects(pool.run('subtract', { a: 1, b: 2 }), /name: must be one of.*add/);
    // @ts-expect-error: setup is not a handler.
    await assert.rejects(pool.run('setup', undefined), /name: must be one of/);
    // @ts-expect-error: it takes two numbers.
    assert.equal(await pool.run('add', { a: '1', b: 2 }), '12');
    // @ts-expect-error: it gives a number.
    const wrong: string = await pool.run('add', { a: 1, b: 2 });
    assert.equal(wrong, 3);
  });

  it('gives back any value that can be copied', async () => {
    const values = [undefined, null, true, false, 0, -0, NaN, 1.5, -(2 ** 60), Infinity, 2n ** 70n];
    const more = ['', 'text', [1, [2]], { a: new Map([[1, new Set([2])]]) }, new Date(5), /x/g];
    const all = [...values, ...more];
    assert.deepEqual(await Promise.all(all.map((value) => pool.run('echo', value))), all);
  });

  it('sets each worker up once, with a resource of its own', async () => {
    const seen = new Map<number, number>();
    for (let round = 0; round < 50; round += 1) {
      const both = await Promise.all([pool.run('who', undefined), pool.run('who', undefined)]);
      for (const { setups, thread, done } of both) {
        assert.equal(setups, 1);
        assert.ok(done > (seen.get(thread) ?? 0));
        seen.set(thread, done);
      }
    }
    assert.equal(seen.size, 2);
    assert.equal(
      [...seen.values()].reduce((a, b) => a + b),
      100,
    );
  });

  it('keeps the name, message, fields, cause and stack of an error', async () => {
    const error = await reasonOf(pool.run('fail', 'error'));
    assert.ok(error instanceof Error);
    assert.equal(error.name, 'TypeError');
    assert.equal(error.message, 'went wrong');
    assert.match(error.stack ?? '', /pool-worker\.ts/);
    assert.equal((error.cause as Error).message, 'deeper');
    assert.deepEqual({ ...error }, { code: 'E_WRONG', attempt: 3, detail: { path: ['a', 'b'] } });
  });

  it('keeps of an error what can be copied, if not all can', async () => {
    const error = await reasonOf(pool.run('fail', 'tangled'));
    assert.equal(error.name, 'TypeError');
    assert.match(error.stack ?? '', /pool-worker\.ts/);
    assert.deepEqual({ ...error }, { code: 'E_WRONG', attempt: 3 });
  });

  it('keeps the errors inside an AggregateError', async () => {
    const error = (await reasonOf(pool.run('fail', 'many'))) as AggregateError;
    assert.ok(error instanceof AggregateError);
    assert.equal(error.message, 'all failed');
    const [first, nested, third] = error.errors as [Error, AggregateError, number];
    assert.ok(first instanceof TypeError);
    assert.deepEqual([first.message, third], ['first', 3]);
    const [inner] = nested.errors as [Error & { code: string }];
    assert.ok(inner instanceof RangeError);
    assert.deepEqual([inner.message, inner.code, inner.cause], ['second', 'E_TWO', 'why']);
  });

  it('passes on an error whose getters throw, and its worker lives', async () => {
    const error = await reasonOf(pool.run('fail', 'getter'));
    assert.deepEqual([error.message, error.code], ['went wrong', 'E_ODD']);
    const odd = await reasonOf(pool.run('fail', 'odd'));
    assert.equal(odd.code, 'E_ODD');
    assert.equal(pool.stats.lost, 0);
  });

  it('passes on an error that contains itself, without sending it again and again', async () => {
    const error = (await reasonOf(pool.run('fail', 'cycle'))) as AggregateError;
    assert.equal(error.message, 'again');
    let count = 0;
    const visit = ({ errors }: AggregateError): void => {
      count += 1;
      errors.forEach(visit);
    };
    visit(error);
    assert.ok(count > 8 && count < 100, `${count} errors were sent`);
  });

  it('passes on that something was thrown, also if it cannot even be looked at', async () => {
    const { lost } = pool.stats;
    const unreadable = /^what was thrown cannot be read$/;
    await assert.rejects(pool.run('fail', 'proxy'), { message: unreadable });
    await assert.rejects(pool.run('fail', 'message'), { message: unreadable });
    assert.equal(pool.stats.lost, lost);
  });

  it('passes on what is thrown though it is no error', async () => {
    await assert.rejects(pool.run('fail', 'string'), (reason) => reason === 'just words');
    await assert.rejects(pool.run('fail', 'function'), /cannot be copied: \[Function/);
  });

  it('refuses an input that cannot be copied, and nothing else sent with it', async () => {
    const before = pool.stats;
    const calls = [1, () => 2, 3, Symbol('4'), 5].map((value) => pool.run('echo', value));
    const results = await Promise.allSettled(calls);
    const [first, second, third, fourth, fifth] = results.map((result) =>
      result.status === 'fulfilled' ? result.value : result.reason.message,
    );
    assert.deepEqual([first, third, fifth], [1, 3, 5]);
    assert.match(second, /input: must be a value that can be copied, got \[Function/);
    assert.match(fourth, /input: must be/);
    const { arrived, started, refused, inside, waiting } = pool.stats;
    assert.equal(arrived - before.arrived, 5);
    assert.equal(started - before.started + refused.aborted - before.refused.aborted, 5);
    assert.deepEqual([inside, waiting], [0, 0]);
  });

  it('fails only the call whose result cannot be copied', async () => {
    const message = /result: must be a value that can be copied/;
    await assert.rejects(pool.run('uncopyable', undefined), message);
    assert.equal(await pool.run('echo', 1), 1);
  });

  it('moves buffers there and back instead of copying them', async () => {
    const input = Uint8Array.of(1, 2, 3).buffer;
    const output = await pool.run('reverse', input, { transfer: [input] });
    assert.ok(input.detached);
    assert.deepEqual([...new Uint8Array(output)], [3, 2, 1]);
  });

  it('refuses the second of two calls that would move the same buffer', async () => {
    const input = new ArrayBuffer(8);
    const options = { transfer: [input] };
    const both = [pool.run('reverse', input, options), pool.run('reverse', input, options)];
    const [first, second] = await Promise.allSettled(both);
    assert.equal(first?.status, 'fulfilled');
    assert.match(String((second as PromiseRejectedResult).reason), /input: must be/);
  });

  it('names the run option that is wrong', async () => {
    const run = (options: object) => pool.run('echo', 1, options);
    await assert.rejects(run({ priority: 8 }), /priority: must be an integer from 0 to 7, got 8/);
    await assert.rejects(run({ transfer: new ArrayBuffer(1) }), /transfer: must be an array/);
    await assert.rejects(run({ affinity: 5 }), /affinity: must be a string/);
    await assert.rejects(run({ key: 5 }), /key: must be a string/);
    await assert.rejects(run({ cancel: 'never' }), /cancel: must be 'always' or 'queued'/);
    await assert.rejects(run({ signal: 'now' }), TypeError);
    await assert.rejects(run({ prioritty: 1 }), /options: must be .*priority.*got 'prioritty'/);
    assert.deepEqual([pool.stats.inside, pool.stats.waiting], [0, 0]);
  });

  it('starts its threads also from a program given on the command line', async () => {
    const url = JSON.stringify(module.href);
    const program = `import { Pool } from 'spillway';
      const module = new URL(${url});
      await using pool = await Pool.open({ module, workers: 1, queueMax: 1, deadlineMs: 9_000 });
      console.log(await pool.run('echo', 42));`;
    const args = ['--input-type=module', '-e', program];
    const { stdout } = await execFile(process.execPath, args, { cwd: import.meta.dirname });
    assert.equal(stdout, '42\n');
  });

  it('lets the timers of an idle worker run', async () => {
    const ticks = new Int32Array(new SharedArrayBuffer(4));
    await pool.run('countTicks', ticks);
    while (Atomics.load(ticks, 0) < 3) await sleep(1);
  });

  it('counts what passes, per pool and per worker', async () => {
    await Promise.all([...Array(10).keys()].map((n) => pool.run('echo', n)));
    const { limit, inside, waiting, started, finished, workers, lost } = pool.stats;
    assert.deepEqual([limit, inside, waiting, lost], [2, 0, 0, 0]);
    assert.equal(started, finished);
    assert.equal(
      workers.reduce((sum, { tasks }) => sum + tasks, 0),
      finished,
    );
    for (const { state, ageMs, waiting: here, utilisation, heapBytes } of workers) {
      assert.deepEqual([state, here], ['ready', 0]);
      assert.ok(ageMs > 0 && heapBytes > 1e6 && utilisation > 0 && utilisation < 1);
    }
  });
});

describe('opening a pool', () => {
  const bad = (way: string): PoolOptions => {
    const url = new URL(`./fixtures/bad-worker.ts?way=${way}`, import.meta.url);
    return { ...settings, module: url };
  };

  it('fails with the cause if its module or setup does, and leaves no thread', async (context) => {
    const threads: Worker[] = [];
    const note = (thread: Worker) => threads.push(thread);
    process.on('worker', note);
    context.after(() => process.off('worker', note));
    const failures = {
      import: { message: 'no such model' },
      throw: { message: 'no licence', code: 'E_LICENCE' },
      reject: { name: 'RangeError', message: 'no memory' },
      exit: { message: 'it ended by itself' },
    };
    for (const [way, cause] of Object.entries(failures)) {
      const error = await reasonOf(Pool.open(bad(way)));
      assert.equal(error.code, 'POOL_START');
      assert.match(error.message, new RegExp(cause.message));
      const actual = Object.keys(cause).map((key) => [key, Reflect.get(Object(error.cause), key)]);
      assert.deepEqual(Object.fromEntries(actual), cause);
      // A thread that has ended has the id -1.
      assert.ok(threads.splice(0).every(({ threadId }) => threadId === -1));
    }
  });

  it('fails when setup takes too long', async () => {
    const opening = Pool.open({ ...bad('hang'), startMsMax: 300 });
    await assert.rejects(opening, { code: 'POOL_START', message: /more than 300 ms/ });
  });

  it('finds the file that a compiler has made of its module', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-compiled-'));
    await writeFile(join(folder.path, 'worker.mjs'), 'export const one = () => 1;');
    const compiled = pathToFileURL(join(folder.path, 'worker.mts'));
    await using pool = await Pool.open<{ one(): number }>({ ...settings, module: compiled });
    assert.equal(await pool.run('one', undefined), 1);
  });

  it('names the option that is wrong', async () => {
    const wrong: readonly (readonly [object, RegExp])[] = [
      [
        { module: new URL('./fixtures/absent.ts', import.meta.url) },
        /^Pool: module: no file at .*absent\.ts$/,
      ],
      [{ module: new URL('https://example.org/a.ts') }, /^Pool: module: /],
      [{ module: './worker.ts' }, /^Pool: module: /],
      [{ workers: 0 }, /^Pool: workers: must be an integer from 1 to 1024, got 0/],
      [{ concurrency: 1025 }, /^Pool: concurrency: must be an integer from 1 to 1024/],
      [{ queueMax: -1 }, /^Pool: queueMax: /],
      [{ queueMax: undefined }, /^Pool: queueMax: /],
      [{ deadlineMs: 0 }, /^Pool: deadlineMs: must be a number above 0, got 0/],
      [{ deadlineMs: '5' }, /^Pool: deadlineMs: /],
      [{ deadlineMs: NaN }, /^Pool: deadlineMs: /],
      [{ killAfterMs: -1 }, /^Pool: killAfterMs: /],
      [{ startMsMax: 0 }, /^Pool: startMsMax: /],
      [{ resourceLimits: 64 }, /^Pool: resourceLimits: must be an object/],
      [{ resourceLimits: { maxOldGenerationSizeMb: 1 } }, /maxOldGenerationSizeMb: must be .* 4/],
      [{ resourceLimits: { stackSizeMb: 0.1 } }, /stackSizeMb: must be a number from 0.5/],
      [{ resourceLimits: { heapMb: 64 } }, /^Pool: resourceLimits: heapMb: is not an option/],
      [{ queue: 5 }, /^Pool: queue: is not an option/],
      [{ workerData: () => 1 }, /^Pool: workerData: must be a value that can be copied/],
      [{ ref: 'no' }, /^Pool: ref: must be true or false/],
      [{ streamIdleMsMax: 0 }, /^Pool: streamIdleMsMax: must be a number above 0/],
      [{ recycle: { ageMsMax: 0 } }, /^Pool: recycle: ageMsMax: /],
      [{ recycle: { tasksMax: NaN } }, /^Pool: recycle: tasksMax: /],
      [{ recycle: { heapMbMax: 0 } }, /^Pool: recycle: heapMbMax: /],
      [{ recycle: { intervalMs: -5 } }, /^Pool: recycle: intervalMs: /],
    ];
    for (const [options, message] of wrong) {
      await assert.rejects(Pool.open({ ...settings, ...options }), { message });
    }
  });
});
