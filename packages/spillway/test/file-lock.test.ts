import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { FileLock } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Child } from './fixtures/child.ts';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-lock-'));

/** One of the lock's own files: it has the lock, or the turn to take it next. */
function fileOf(path: string, part: 'owner' | 'next' = 'owner'): string {
  return join(dirname(path), '.locks', `${basename(path)}-${part}`);
}

/** Does what another process would do: SQLite keeps its own connections apart just so. */
function otherProcess(path: string, part?: 'next'): DatabaseSync {
  mkdirSync(dirname(fileOf(path)), { recursive: true });
  const database = new DatabaseSync(fileOf(path, part));
  database.exec('PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE');
  return database;
}

describe('FileLock', () => {
  it('is held by one at a time, in the order they came, through any path to it', async () => {
    using folder = temporary();
    symlinkSync(folder.path, `${folder.path}-link`);
    using one = new FileLock({ path: join(folder.path, 'lock') });
    using other = new FileLock({ path: join(`${folder.path}-link`, 'lock') });
    const order: number[] = [];
    let inside = 0;
    const pass = async (lock: FileLock, at: number) => {
      using _held = await lock.acquire();
      inside += 1;
      assert.equal(inside, 1);
      order.push(at);
      await new Promise(setImmediate);
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 50 }, (_, at) => pass(at % 2 ? one : other, at)));
    unlinkSync(`${folder.path}-link`);
    assert.deepEqual(
      order,
      Array.from({ length: 50 }, (_, at) => at),
    );
    assert.deepEqual(one.stats, { kind: 'file-lock', held: false, waiting: 0 });
  });

  it('writes nothing: its files stay empty and have no journal', async () => {
    using folder = temporary();
    using lock = new FileLock({ path: join(folder.path, 'lock') });
    using _held = await lock.acquire();
    assert.deepEqual(readdirSync(folder.path), ['.locks']);
    assert.deepEqual(readdirSync(join(folder.path, '.locks')), ['lock-next', 'lock-owner']);
    assert.equal(statSync(fileOf(join(folder.path, 'lock'))).size, 0);
  });

  it('releases once, however often it is disposed', async () => {
    using folder = temporary();
    using lock = new FileLock({ path: join(folder.path, 'lock') });
    const first = await lock.acquire();
    first[Symbol.dispose]();
    using _second = await lock.acquire();
    first[Symbol.dispose]();
    assert.equal(lock.stats.held, true);
  });

  it('gives up at its deadline while another process holds it, and goes on after', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock, deadlineMs: 5_000 });
    const other = otherProcess(path);
    const late = assert.rejects(lock.acquire(), { code: 'DEADLINE' });
    await clock.advance(4_999);
    assert.deepEqual(lock.stats, { kind: 'file-lock', held: false, waiting: 1 });
    await clock.advance(1);
    await late;
    const waiting = lock.acquire();
    await clock.advance(100);
    other.close();
    using _held = await clock.run(waiting);
    assert.deepEqual(lock.stats, { kind: 'file-lock', held: true, waiting: 0 });
    assert.equal(clock.pending, 0);
  });

  it('leaves nothing behind when a waiter aborts, in the queue or at the file', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock });
    const other = otherProcess(path);
    const quitter = new AbortController();
    const gone = [
      lock.acquire({ signal: quitter.signal }),
      lock.acquire({ signal: quitter.signal }),
    ];
    await clock.advance(20);
    quitter.abort();
    for (const one of gone) await assert.rejects(one, { name: 'AbortError' });
    await assert.rejects(lock.acquire({ signal: quitter.signal }), { name: 'AbortError' });
    assert.deepEqual(lock.stats, { kind: 'file-lock', held: false, waiting: 0 });
    assert.equal(clock.pending, 0);
    other.close();
    using _held = await lock.acquire();
  });

  it('makes a process that comes back queue behind one that waits', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock });
    using other = otherProcess(path, 'next');
    let held = false;
    const waiting = lock.acquire().then((one) => {
      held = true;
      return one;
    });
    await clock.advance(1_000);
    assert.equal(held, false);
    other.exec('ROLLBACK');
    using _held = await clock.run(waiting);
  });

  it('refuses at once when too many wait', async () => {
    using folder = temporary();
    using lock = new FileLock({ path: join(folder.path, 'lock'), queueMax: 1 });
    const first = await lock.acquire();
    const second = lock.acquire();
    await assert.rejects(lock.acquire(), { code: 'LOCK_FULL', status: 503 });
    first[Symbol.dispose]();
    using _held = await second;
  });

  it('takes the new file when somebody has deleted the old one', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    using lock = new FileLock({ path });
    (await lock.acquire())[Symbol.dispose]();
    rmSync(fileOf(path));
    using _other = otherProcess(path);
    await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(30) }), {
      name: 'TimeoutError',
    });
  });

  it('shares no file with locks whose names begin with its own', async () => {
    using folder = temporary();
    using stack = new DisposableStack();
    for (const name of ['lock', 'lock-next', 'lock-owner', 'lock-next-next']) {
      const lock = stack.use(new FileLock({ path: join(folder.path, name), deadlineMs: 60_000 }));
      stack.use(await lock.acquire());
    }
    assert.equal(readdirSync(join(folder.path, '.locks')).length, 8);
  });

  it('says what is wrong when it cannot be', async () => {
    using folder = temporary();
    const path = join(folder.path, 'nowhere', 'lock');
    using lock = new FileLock({ path });
    await assert.rejects(lock.acquire(), { code: 'LOCK_FAILED', message: /ENOENT.*nowhere/ });
    assert.throws(() => new FileLock({ path: '' }), /path: must be a string that is not empty/);
    assert.throws(() => new FileLock({ path, queueMax: -1 }), /queueMax: must be an integer/);
    assert.throws(() => new FileLock({ path, deadlineMs: Number.NaN }), /deadlineMs: must be/);
  });

  it('tells its holder when other code of the process has dropped it', async (test) => {
    if (process.platform !== 'linux') return test.skip('only Linux shows it');
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock });
    const held = await lock.acquire();
    held.check();
    const { signal } = held;
    await clock.advance(5_000);
    assert.equal(signal.aborted, false);
    // Closing any descriptor of a file drops the process's locks on it: POSIX says so.
    readFileSync(fileOf(path));
    await using other = new Child('hold', path);
    await other.heard(1);
    await clock.advance(1_000);
    assert.equal(signal.reason?.code, 'LOCK_LOST');
    assert.equal(lock.stats.held, false);
    assert.throws(() => held.check(), { code: 'LOCK_LOST' });
    held[Symbol.dispose]();
    const leaver = new AbortController();
    const refused = assert.rejects(lock.acquire(leaver), { name: 'AbortError' });
    await clock.advance(1_000);
    assert.equal(lock.stats.waiting, 1);
    leaver.abort();
    await refused;
    await other.kill();
    using _again = await clock.run(lock.acquire());
    assert.equal(lock.stats.held, true);
  });

  it('tells its holder when its file was deleted, and can be had again', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    using lock = new FileLock({ path });
    {
      using held = await lock.acquire();
      rmSync(fileOf(path));
      assert.throws(() => held.check(), { code: 'LOCK_LOST', message: /deleted or replaced/ });
      assert.equal(held.signal.reason?.code, 'LOCK_LOST');
    }
    using held = await lock.acquire();
    held.check();
    assert.equal(held.signal.aborted, false);
  });

  it('is free when the process that holds it is killed', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    using lock = new FileLock({ path, deadlineMs: 60_000 });
    await using child = new Child('hold', path);
    await child.heard(1);
    const waiting = lock.acquire();
    await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(20) }), {
      name: 'TimeoutError',
    });
    await child.kill();
    using _held = await waiting;
  });
});
