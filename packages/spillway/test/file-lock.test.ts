import assert from 'node:assert/strict';
import {
  mkdtempDisposableSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { FileLock } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { Child } from './fixtures/child.ts';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-lock-'));

/** What another process would do: SQLite keeps its own connections apart just so. */
function otherProcess(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
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
    assert.deepEqual(one.stats, { held: false, waiting: 0 });
  });

  it('writes nothing: its files stay empty and have no journal', async () => {
    using folder = temporary();
    using lock = new FileLock({ path: join(folder.path, 'lock') });
    using _held = await lock.acquire();
    assert.deepEqual(readdirSync(folder.path), ['lock', 'lock-next']);
    assert.equal(statSync(join(folder.path, 'lock')).size, 0);
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
    using lock = new FileLock({ path, clock, waitMsMax: 5_000 });
    const other = otherProcess(path);
    const late = assert.rejects(lock.acquire(), { code: 'DEADLINE' });
    await clock.advance(4_999);
    assert.equal(lock.stats.waiting, 1);
    await clock.advance(1);
    await late;
    const waiting = lock.acquire();
    await clock.advance(100);
    other.close();
    using _held = await clock.run(waiting);
    assert.deepEqual(lock.stats, { held: true, waiting: 0 });
    assert.equal(clock.pending, 0);
  });

  it('leaves nothing behind when a waiter aborts, in the queue or at the file', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock });
    const other = otherProcess(path);
    const quitter = new AbortController();
    const gone = [lock.acquire(quitter.signal), lock.acquire(quitter.signal)];
    await clock.advance(20);
    quitter.abort();
    for (const one of gone) await assert.rejects(one, { name: 'AbortError' });
    await assert.rejects(lock.acquire(quitter.signal), { name: 'AbortError' });
    assert.deepEqual(lock.stats, { held: false, waiting: 0 });
    assert.equal(clock.pending, 0);
    other.close();
    using _held = await lock.acquire();
  });

  it('makes a process that comes back queue behind one that waits', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    const clock = new VirtualClock();
    using lock = new FileLock({ path, clock });
    using other = otherProcess(`${path}-next`);
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
    rmSync(path);
    using _other = otherProcess(path);
    await assert.rejects(lock.acquire(AbortSignal.timeout(30)), { name: 'TimeoutError' });
  });

  it('says what is wrong when it cannot be', async () => {
    using folder = temporary();
    const path = join(folder.path, 'nowhere', 'lock');
    using lock = new FileLock({ path });
    await assert.rejects(lock.acquire(), { code: 'LOCK_FAILED', message: /ENOENT.*nowhere/ });
    assert.throws(() => new FileLock({ path: '' }), /path: must be the path of a file/);
    assert.throws(() => new FileLock({ path, queueMax: -1 }), /queueMax: must be an integer/);
    assert.throws(() => new FileLock({ path, waitMsMax: Number.NaN }), /waitMsMax: must be/);
  });

  it('is free at once when the process that holds it is killed', async () => {
    using folder = temporary();
    const path = join(folder.path, 'lock');
    using lock = new FileLock({ path });
    await using child = new Child('hold', path);
    await child.heard(1);
    const waiting = lock.acquire();
    await assert.rejects(lock.acquire(AbortSignal.timeout(20)), { name: 'TimeoutError' });
    const killedAt = performance.now();
    await child.kill();
    using _held = await waiting;
    assert.ok(performance.now() - killedAt < 1_000);
  });
});
