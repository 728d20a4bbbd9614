import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { deadline, SpillwayError, SqliteFile, type SqliteFileOptions } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Child } from './fixtures/child.ts';
import { insert, Scene, sql } from './sqlite-scene.ts';

/** Another process, as far as SQLite can tell, that keeps all others from writing. */
async function hold(path: string): Promise<AsyncDisposable> {
  const file = await SqliteFile.open({ path });
  const ended = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const holding = file.transaction(async () => {
    begun.resolve();
    await ended.promise;
  });
  await begun.promise;
  return {
    async [Symbol.asyncDispose]() {
      ended.resolve();
      await holding;
      await file[Symbol.asyncDispose]();
    },
  };
}

describe('a SqliteFile in trouble', () => {
  it('starts a crashed thread again, and tells whoever was not acknowledged', async () => {
    const workers: Worker[] = [];
    const note = (worker: Worker) => workers.push(worker);
    process.on('worker', note);
    await using scene = await Scene.open({ readers: 1 });
    await scene.file.write([insert('before')]);
    const crashed = scene.file.transaction(async (tx) => {
      await tx.run(insert('lost'));
      await Promise.all([workers[0]?.terminate(), tx.run(sql('SELECT 1'))]);
    });
    await assert.rejects(crashed, { code: 'DATABASE_LOST', retryable: true });
    await scene.file.write([insert('after')]);
    assert.deepEqual(await scene.names(), ['before', 'after']);
    await Promise.all([workers.at(-1)?.terminate(), once(workers.at(-1) as Worker, 'exit')]);
    assert.deepEqual(await scene.names(), ['before', 'after']);
    assert.equal(scene.file.stats.restarts, 2);
    process.off('worker', note);
  });

  it('tells whether a write may have been done when its thread crashed', async () => {
    const workers: Worker[] = [];
    const note = (worker: Worker) => workers.push(worker);
    process.on('worker', note);
    await using scene = await Scene.open();
    process.off('worker', note);
    await using _other = await hold(scene.path);
    const doubtful = { code: 'DATABASE_LOST', retryable: false, message: /is not known$/ };
    const crashed = assert.rejects(scene.file.write([insert('a')]), doubtful);
    while (scene.file.stats.waiting > 0) await setImmediate();
    await Promise.all([crashed, workers[0]?.terminate()]);
  });

  it('tells whether a write may have been done when its deadline comes', async () => {
    const clock = new VirtualClock();
    await using scene = await Scene.open();
    const other = await hold(scene.path);
    using limit = deadline(clock, 1_000);
    const late = { code: 'DEADLINE', status: 504 };
    const doubtful = { ...late, retryable: false, message: /is not known$/ };
    const untouched = { ...late, retryable: true };
    const first = scene.file.write([insert('begun')], { signal: limit.signal });
    while (scene.file.stats.waiting > 0) await setImmediate();
    const second = scene.file.write([insert('not begun')], { signal: limit.signal });
    const third = scene.file.transaction((tx) => tx.run(insert('not begun')), {
      signal: limit.signal,
    });
    const refused = [
      assert.rejects(first, doubtful),
      assert.rejects(second, untouched),
      assert.rejects(third, untouched),
    ];
    await clock.advance(1_000);
    await Promise.all(refused);
    await other[Symbol.asyncDispose]();
    await scene.file.write([insert('last')]);
    assert.deepEqual(await scene.names(), ['begun', 'last']);
  });

  it('tells whether a transaction may have been done when its deadline comes', async () => {
    await using scene = await Scene.open();
    const quitter = new AbortController();
    const committing = scene.file.transaction(
      async (tx) => {
        await tx.run(insert('a'));
        void (async () => {
          while (!tx.isCommitting) await undefined;
          quitter.abort(new SpillwayError('DEADLINE', 'too late'));
        })();
      },
      { signal: quitter.signal },
    );
    const late = { code: 'DEADLINE', retryable: false, message: /is not known$/ };
    await assert.rejects(committing, late);
    await scene.file.write([insert('b')]);
    assert.deepEqual(await scene.names(), ['a', 'b']);
  });

  it('waits for another connection for a time, then says so', async () => {
    await using scene = await Scene.open();
    await using other = await SqliteFile.open({ path: scene.path });
    await using hasty = await SqliteFile.open({ path: scene.path, deadlineMs: 20 });
    await scene.file.transaction(async (tx) => {
      await tx.run(insert('a'));
      const refused = { code: 'DATABASE_BUSY', status: 503, retryable: true };
      await assert.rejects(hasty.write([insert('b')]), refused);
      await assert.rejects(
        hasty.transaction(async () => {}),
        refused,
      );
      assert.deepEqual((await other.read(sql('SELECT * FROM item'))).rows, []);
    });
    await other.write([insert('b')]);
    assert.deepEqual(await scene.names(), ['a', 'b']);
  });

  it('names the file that is full', async () => {
    await using scene = await Scene.open();
    await scene.file.write([sql('PRAGMA max_page_count = 4')]);
    const filled = scene.file.write([insert('x'.repeat(100_000))]);
    const error = await filled.catch((thrown: Error) => thrown);
    assert.ok(error instanceof SpillwayError && error.code === 'DATABASE_FULL');
    assert.ok(error.message.includes(`(${scene.path}: no space is left`), error.message);
  });

  it('acknowledges nothing when the file is gone, and makes no empty one instead', async () => {
    await using scene = await Scene.open({ readers: 1 });
    await scene.file.write([insert('a')]);
    const aside = `${scene.path}.aside`;
    await rename(scene.path, aside);
    // The first went into the file that was moved away, the second nowhere.
    const lost = { code: 'DATABASE_LOST', retryable: false, message: /is not known$/ };
    await assert.rejects(scene.file.write([insert('b')]), lost);
    await assert.rejects(scene.file.write([insert('b')]), {
      code: 'DATABASE_LOST',
      retryable: true,
    });
    await assert.rejects(scene.names(), { code: 'DATABASE_LOST' });
    await rename(aside, scene.path);
    await scene.file.write([insert('c')]);
    const names = await scene.names();
    assert.equal(names[0], 'a');
    assert.equal(names.at(-1), 'c');
  });

  for (const how of ['truncated', 'replaced by an empty one'] as const) {
    it(`says that the file is damaged when it is ${how}, and writes nothing into it`, async () => {
      await using scene = await Scene.open({ readers: 1, deadlineMs: 300 });
      await scene.file.write([insert('a')]);
      await scene.names();
      const empty = how === 'truncated' ? scene.path : `${scene.path}.empty`;
      await writeFile(empty, '');
      await rename(empty, scene.path);
      const damaged = {
        code: 'DATABASE_CORRUPT',
        retryable: false,
        message: /was emptied .*backup/,
      };
      for (let times = 0; times < 3; times += 1) {
        await assert.rejects(scene.file.write([insert('b')]), damaged);
        await assert.rejects(scene.names(), damaged);
        await assert.rejects(
          scene.file.transaction((tx) => tx.run(insert('c'))),
          damaged,
        );
      }
      assert.equal((await stat(scene.path)).size, 0);
    });
  }

  it('runs no group again that may have been done when its connection broke', async () => {
    await using scene = await Scene.open({ readers: 1 });
    await scene.file.write([insert('a')]);
    const copy = `${scene.path}.copy`;
    using source = new DatabaseSync(scene.path);
    source.exec(`VACUUM INTO '${copy}'`);
    source.close();
    await rename(scene.path, `${scene.path}.aside`);
    await rename(copy, scene.path);
    const doubtful = { code: 'DATABASE_LOST', retryable: false, message: /is not known$/ };
    const names = ['b', 'c', 'd'];
    await Promise.all(
      names.map((name) => assert.rejects(scene.file.write([insert(name)]), doubtful)),
    );
  });

  it('ends within its limit although a transaction never does', async () => {
    await using scene = await Scene.open();
    const stuck = scene.file.transaction(async (tx) => {
      await tx.run(insert('lost'));
      await new Promise((resolve) => setTimeout(resolve, 400));
      await tx.run(insert('late'));
    });
    const closed = { code: 'DATABASE_CLOSED' };
    const waiting = assert.rejects(scene.file.write([insert('waits')]), closed);
    assert.equal(scene.file.ready, true);
    await scene.file.close({ withinMs: 50 });
    assert.equal(scene.file.ready, false);
    await waiting;
    await assert.rejects(stuck, closed);
    await using again = await SqliteFile.open({ path: scene.path });
    assert.deepEqual((await again.read(sql('SELECT name FROM item'))).rows, []);
  });

  it('gives up a statement that does not end, and goes on', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sqlite-'));
    await using child = new Child('endless', join(folder.path, 'file.db'));
    await child.closed;
    assert.deepEqual(child.lines, [
      'DEADLINE true',
      'reads 1',
      'writes 1',
      'DEADLINE false',
      'reads 1',
      'closed',
    ]);
    // The threads are still inside SQLite, and Node would wait for them for ever.
    assert.equal(child.process.signalCode, 'SIGKILL');
  });

  it('leaves the error that ends a process to be read, though a thread is stuck', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sqlite-'));
    const program = join(import.meta.dirname, 'fixtures', 'state-child.ts');
    const args = [program, 'endlessUncaught', join(folder.path, 'file.db')];
    const { signal, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    assert.equal(signal, 'SIGKILL');
    assert.match(stderr, /Uncaught .*a statement ran for more than .*DEADLINE/s);
  });

  it('keeps no process alive when it is idle', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sqlite-'));
    await using child = new Child('leave', join(folder.path, 'file.db'));
    await child.ended();
    assert.deepEqual(child.lines, ['left']);
  });

  it('says when a file is no database, or cannot be there', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-sqlite-'));
    const path = join(folder.path, 'file.db');
    await writeFile(path, 'this is plain text, long enough for a header'.repeat(50));
    await assert.rejects(SqliteFile.open({ path }), { code: 'DATABASE_CORRUPT', status: 500 });
    await rm(path);
    const nowhere = join(folder.path, 'no', 'file.db');
    const unusable = { code: 'DATABASE_UNUSABLE', status: 500, retryable: false };
    const message = /^cannot open .*no.file\.db: ENOENT/;
    await assert.rejects(SqliteFile.open({ path: nowhere }), { ...unusable, message });
    await assert.rejects(SqliteFile.open({ path: folder.path }), unusable);
  });

  it('finishes what waits when it closes, and takes nothing more', async () => {
    await using scene = await Scene.open();
    const wrote = scene.file.write([insert('a')]);
    const read = scene.file.read(sql('SELECT 1 AS one'));
    const closing = scene.file[Symbol.asyncDispose]();
    await assert.rejects(scene.file.write([insert('b')]), { code: 'DATABASE_CLOSED' });
    assert.equal((await wrote)[0]?.changes, 1);
    assert.deepEqual((await read).rows, [{ one: 1 }]);
    await Promise.all([closing, scene.file[Symbol.asyncDispose]()]);
  });

  it('refuses wrong options', async () => {
    const path = join(tmpdir(), 'never-made.db');
    const wrong: Partial<Record<keyof SqliteFileOptions, unknown>>[] = [
      { path: '' },
      { path: ':memory:' },
      { path: 7 },
      { readers: 0 },
      { readers: 1.5 },
      { queueMax: 0 },
      { deadlineMs: -1 },
      { deadlineMs: Number.NaN },
    ];
    for (const options of wrong) {
      const open = SqliteFile.open({ path, ...options } as SqliteFileOptions);
      await assert.rejects(open, { code: 'ERR_ASSERTION' });
    }
  });
});
