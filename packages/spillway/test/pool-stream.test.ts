import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Pool, type PoolOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';

type Module = typeof import('./fixtures/stream-worker.ts');

const module = new URL('./fixtures/stream-worker.ts', import.meta.url);
const open = (options: Partial<PoolOptions> = {}) =>
  Pool.open<Module>({ module, workers: 1, queueMax: 8, deadlineMs: 20_000, ...options });

const newLog = (): Int32Array => new Int32Array(new SharedArrayBuffer(8));

/** Waits until the handler has been stopped: its `finally` has run. */
async function stopped(log: Int32Array): Promise<void> {
  const { value } = Atomics.waitAsync(log, 1, 0, 20_000);
  assert.notEqual(await value, 'timed-out');
}

/** Waits until the worker has gone as far as it can. */
async function rest(log: Int32Array): Promise<number> {
  for (let seen = -1, quiet = 0; quiet < 50; quiet += 1) {
    const now = Atomics.load(log, 0);
    if (now !== seen) quiet = 0;
    seen = now;
    await turn();
    Atomics.wait(log, 1, 0, 1);
  }
  return Atomics.load(log, 0);
}

describe('the stream of a pool', () => {
  let pool: Pool<Module>;
  before(async () => {
    pool = await open();
  });
  after(() => pool.close());

  it('gives all chunks in order', async () => {
    const chunks = await Array.fromAsync(pool.stream('count', 1_000));
    assert.deepEqual(chunks, [...Array(1_000).keys()]);
  });

  it('ends at once when there is nothing to give', async () => {
    assert.deepEqual(await Array.fromAsync(pool.stream('count', 0)), []);
  });

  it('is typed: plain handlers are run, streaming ones streamed', async () => {
    // @ts-expect-error: it gives one result.
    await assert.rejects(Array.fromAsync(pool.stream('plain', 1)));
    // @ts-expect-error: it gives many.
    await assert.rejects(pool.run('count', 1));
    // @ts-expect-error: it takes a number.
    assert.deepEqual(await Array.fromAsync(pool.stream('count', '2')), [0, 1]);
  });

  it('never lets the worker be more than a window ahead of the reader', async () => {
    const log = newLog();
    const stream = pool.stream('endless', log);
    assert.ok((await rest(log)) <= 17, `${log[0]} ahead of a reader that has not begun`);
    let read = 0;
    for await (const chunk of stream) {
      assert.equal(chunk, read);
      read += 1;
      const ahead = Atomics.load(log, 0) - read;
      assert.ok(ahead <= 17, `${ahead} ahead after ${read}`);
      if (read === 200) break;
    }
    await stopped(log);
  });

  it('stops the handler when the reader breaks, and its place is free again', async () => {
    const log = newLog();
    for await (const chunk of pool.stream('endless', log)) if (chunk === 40) break;
    await stopped(log);
    assert.equal(await pool.run('plain', 21), 42);
    // The news of its end comes by message, and may come after a result in shared memory.
    while (pool.stats.inside > 0) await turn();
  });

  it('leaves no listener behind on the signal of a reader that broke off', async () => {
    const { signal } = new AbortController();
    const log = newLog();
    for await (const _ of pool.stream('endless', log, { signal })) break;
    await stopped(log);
    for await (const _ of pool.stream('count', 3, { signal })) break;
    await Array.fromAsync(pool.stream('count', 3, { signal }));
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  it('answers a read that waits when the stream is returned', async () => {
    const log = newLog();
    const stream = pool.stream('silent', log);
    await stream.next();
    const reads = [stream.next(), stream.next()];
    await stream.return?.();
    const done = { done: true, value: undefined };
    assert.deepEqual(await Promise.all(reads), [done, done]);
    await stopped(log);
  });

  it('gives each of several reads at once its own chunk', async () => {
    const stream = pool.stream('count', 3);
    const reads = await Promise.all([1, 2, 3, 4].map(() => stream.next()));
    assert.deepEqual(
      reads.map(({ value }) => value),
      [0, 1, 2, undefined],
    );
  });

  it('gives what came before an error, then the error, then nothing', async () => {
    const stream = pool.stream('failing', 20);
    const chunks: number[] = [];
    const reading = (async () => {
      for await (const chunk of stream) chunks.push(chunk);
    })();
    await assert.rejects(reading, { name: 'RangeError', message: 'no more', code: 'DRY' });
    assert.equal(chunks.length, 20);
    assert.deepEqual(await stream.next(), { done: true, value: undefined });
  });

  it('fails when a chunk cannot be copied, and only then', async () => {
    const stream = pool.stream('uncopyable', undefined);
    assert.deepEqual(await stream.next(), { done: false, value: 1 });
    await assert.rejects(stream.next(), /chunk: must be a value that can be copied/);
  });

  it('tells the reader at once when its signal aborts, and stops the handler', async () => {
    const controller = new AbortController();
    const log = newLog();
    const stream = pool.stream('endless', log, { signal: controller.signal });
    await stream.next();
    await rest(log);
    controller.abort(new Error('changed my mind'));
    await assert.rejects(stream.next(), /changed my mind/);
    await stopped(log);
  });

  it('can be aborted inside a handler that waits', async () => {
    const controller = new AbortController();
    const log = newLog();
    const stream = pool.stream('silent', log, { signal: controller.signal });
    assert.equal((await stream.next()).value, 'first');
    const read = assert.rejects(stream.next(), { name: 'AbortError' });
    controller.abort();
    await read;
    await stopped(log);
  });

  it('moves the buffers of its chunks', async () => {
    const chunks = await Array.fromAsync(pool.stream('buffers', 3));
    assert.deepEqual(
      chunks.map((chunk) => [...new Uint8Array(chunk)]),
      [
        [0, 0],
        [1, 1],
        [2, 2],
      ],
    );
  });

  it('is a stream even if nobody reads it: the deadline ends it', async () => {
    const clock = new VirtualClock();
    await using late = await open({ deadlineMs: 300, clock });
    const log = newLog();
    const stream = late.stream('endless', log);
    while (Atomics.load(log, 0) === 0) await turn();
    await clock.advance(300);
    await stopped(log);
    assert.ok((log[0] as number) <= 17);
    await assert.rejects(stream.next(), { code: 'DEADLINE', status: 504 });
    assert.equal(await late.run('plain', 1), 2);
  });

  it('is ended when it is forgotten, so that its worker is free again', async () => {
    await using forgetful = await open({ deadlineMs: Infinity, streamIdleMsMax: 200 });
    const log = newLog();
    const stream = forgetful.stream('endless', log);
    assert.equal((await stream.next()).value, 0);
    await stopped(log);
    assert.equal(await forgetful.run('plain', 1), 2);
    const error = { code: 'DEADLINE', message: /not read for 200 ms/ };
    await assert.rejects(stream.next(), error);
  });

  it('is not ended while its reader waits, or reads slowly', async () => {
    await using slow = await open({ deadlineMs: Infinity, streamIdleMsMax: 400 });
    const chunks: number[] = [];
    for await (const chunk of slow.stream('slowly', 600)) {
      chunks.push(chunk);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.deepEqual(chunks, [...Array(12).keys()]);
  });

  it('runs two at once in a worker that may', async () => {
    await using wide = await open({ concurrency: 2 });
    const both = newLog();
    const songs = [wide.stream('duet', both), wide.stream('duet', both)];
    const notes = await Promise.all(songs.map((song) => Array.fromAsync(song)));
    const song = ['note 0', 'note 1', 'note 2'];
    assert.deepEqual(notes, [song, song]);
  });

  it('is lost with its worker, after what had come', async () => {
    await using frail = await open();
    const chunks: number[] = [];
    const reading = (async () => {
      for await (const chunk of frail.stream('dying', 5)) chunks.push(chunk);
    })();
    await assert.rejects(reading, { code: 'WORKER_LOST' });
    assert.deepEqual(chunks, [0, 1, 2, 3, 4]);
    assert.deepEqual(await Array.fromAsync(frail.stream('count', 2)), [0, 1]);
  });
});
