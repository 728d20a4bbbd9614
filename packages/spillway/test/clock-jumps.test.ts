// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  type Clock,
  consecutiveFailures,
  Document,
  FileLock,
  Lease,
  MemoryStore,
  type Random,
  SharedBreaker,
  SharedBucket,
  SqliteFile,
  type StoreChange,
  type StoreCommit,
} from 'spillway';
import { explore, FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from './fixtures/simulated-process.ts';

const endMs = 6000;

/** A clock that tells nonsense now and then: it jumps forth and back by seconds or an hour. */
class JumpyClock implements Clock {
  readonly #clock: Clock;
  #aheadMs = 1e7;

  constructor(clock: Clock, random: Random) {
    this.#clock = clock;
    for (let at = random() * 500; at < endMs; at += 500 + random() * 1500) {
      clock.after(at, () => {
        const ms = random() < 0.5 ? 2000 + random() * 3000 : 3_600_000;
        this.#aheadMs += random() < 0.5 ? ms : -ms;
      });
    }
  }

  now(): number {
    return this.#clock.now() + this.#aheadMs;
  }

  /** A timer counts what passes, not what a clock shows. */
  after(ms: number, callback: () => void): Disposable {
    return this.#clock.after(ms, callback);
  }
}

function parties(clock: VirtualClock, random: Random, store: MemoryStore, count: number) {
  return Array.from({ length: count }, () => ({
    clock: new JumpyClock(clock, random),
    store: new FaultyStore(store, { clock, random, delayMsMax: 3 }),
    random,
  }));
}

describe('clocks of clients that jump', () => {
  it('give no lease to two writers', async () => {
    let writes = 0;
    await explore(10, async (random) => {
      const clock = new VirtualClock();
      const fences: number[] = [];
      class Log extends MemoryStore {
        override async commit(changes: readonly StoreChange[]): Promise<StoreCommit | undefined> {
          const commit = await super.commit(changes);
          const log = commit && changes.find(({ name }) => name === 'log');
          if (log) fences.push(log.value as number);
          return commit;
        }
      }
      const rest = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
      for (const party of parties(clock, random, new Log({ clock }), 3)) {
        const live = async () => {
          while (clock.now() < endMs) {
            const terms = { name: 'x', ttlMs: 200, pollMs: 10 };
            await using lease = await Lease.acquire({ ...party, ...terms });
            for (let i = 0; i < 5 && !lease.signal.aborted; i += 1) {
              const changes = lease.guard([{ name: 'log', value: lease.fence }]);
              await rest(random() * 20);
              await party.store.commit(changes);
            }
          }
        };
        const again = (): Promise<void> => live().catch(() => again());
        void again();
      }
      await clock.advance(endMs + 5000);
      assert.deepEqual(
        fences,
        fences.toSorted((a, b) => a - b),
      );
      writes += fences.length;
    });
    assert.ok(writes > 10 * 100, `${writes} writes`);
  });

  it('leave a shared bucket within its rate, and let it go on', async () => {
    let tokens = 0;
    await explore(30, async (random) => {
      const clock = new VirtualClock();
      const rule = { name: 'x', ratePerSecond: 100, burst: 10, queueMax: 9 };
      const uses: number[] = [];
      for (const party of parties(clock, random, new MemoryStore({ clock }), 3)) {
        const bucket = new SharedBucket({ ...party, ...rule });
        const live = async () => {
          while (clock.now() < endMs) {
            const taken = await bucket.take().catch(() => true);
            if (taken === undefined) uses.push(clock.now());
          }
        };
        for (let i = 0; i < 5; i += 1) void live();
      }
      await clock.advance(endMs);
      for (let at = 110; at < uses.length; at += 1) {
        const ms = (uses[at] as number) - (uses[at - 110] as number);
        assert.ok(ms >= 1000 - 1e-6, `111 tokens in ${ms} ms at ${uses[at]}`);
      }
      assert.ok(uses.length >= 0.4 * 100 * (endMs / 1000), `${uses.length} tokens`);
      tokens += uses.length;
      await clock.advance(10_000);
    });
    // How much a seed gets depends on when its clocks jump: of 600 tokens 300 to 560.
    assert.ok(tokens >= 30 * 0.7 * 100 * (endMs / 1000), `${tokens} tokens`);
  });

  it('open and close a shared breaker for all, with one probe', async () => {
    await explore(30, async (random) => {
      const clock = new VirtualClock();
      let isUp = true;
      let calls: number[] = [];
      for (const party of parties(clock, random, new MemoryStore({ clock }), 3)) {
        const rule = { rule: consecutiveFailures(3), successesToClose: 1, cooldownMs: 1500 };
        const breaker = new SharedBreaker({ ...party, ...rule, name: 'x', jitter: 0 });
        const task = async () => {
          calls.push(clock.now());
          await new Promise<void>((resolve) => clock.after(50, resolve));
          if (!isUp) throw new Error('down');
        };
        const live = async () => {
          for (; clock.now() < endMs; await new Promise<void>((go) => clock.after(20, go))) {
            await breaker.run(task).catch(() => {});
          }
        };
        void live();
      }
      await clock.advance(500);
      isUp = false;
      await clock.advance(1200);
      // Within a second it is open for all; until the cooldown is over nobody calls.
      calls = [];
      await clock.advance(250);
      assert.deepEqual(calls, []);
      isUp = true;
      await clock.advance(2500);
      const [first = Infinity, second = Infinity] = calls;
      assert.ok(second - first >= 50, `probes at ${first} and ${second}`);
      calls = [];
      await clock.advance(500);
      assert.ok(calls.length > 10, `${calls.length} calls after it closed`);
      await clock.advance(10_000);
    });
  });
});

describe('the clock of a store that jumps by an hour', () => {
  for (const jumpMs of [3_600_000, -3_600_000]) {
    it(`costs those who wait for a lease its time at most (${jumpMs} ms)`, async () => {
      const clock = new VirtualClock();
      let aheadMs = 1e7;
      const jumping: Clock = {
        now: () => clock.now() + aheadMs,
        after: (ms, callback) => clock.after(ms, callback),
      };
      const store = new MemoryStore({ clock: jumping });
      const terms = { name: 'x', ttlMs: 200, pollMs: 10, clock };
      const victim = new SimulatedProcess(clock);
      const crashed = { ...terms, store, clock: victim };
      await clock.run(Lease.acquire(crashed));
      victim.crash();
      const next = Lease.acquire({ ...terms, store });
      const jumpedAt = clock.now();
      aheadMs += jumpMs;
      await using lease = await clock.run(next);
      assert.ok(clock.now() - jumpedAt <= 2 * terms.ttlMs, `${clock.now() - jumpedAt} ms`);
      // The one that holds it now is not disturbed by the way back.
      aheadMs -= jumpMs;
      await clock.advance(10 * terms.ttlMs);
      assert.equal(lease.signal.aborted, false);
    });
  }
});

describe('the wall clock of a process that jumps by an hour', () => {
  for (const jumpMs of [3_600_000, -3_600_000]) {
    it(`means nothing to locks, documents and SQLite files (${jumpMs} ms)`, async (test) => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-jump-'));
      const path = join(folder.path, 'lock');
      using lock = new FileLock({ path, deadlineMs: 60_000 });
      await using document = await Document.open<{ count: number }>({
        path: join(folder.path, 'document.json'),
        initial: { count: 0 },
      });
      await using file = await SqliteFile.open({ path: join(folder.path, 'file.db') });
      const held = await lock.acquire();
      const waiting = lock.acquire();
      const { now } = Date;
      test.mock.method(Date, 'now', () => now() + jumpMs);
      await document.transaction((draft) => {
        draft.count += 1;
      });
      await file.write([{ sql: 'CREATE TABLE a (b)', parameters: [] }]);
      assert.equal(held.signal.aborted, false);
      held[Symbol.dispose]();
      using _next = await waiting;
      // A deadline still comes, neither at once nor in an hour.
      const late = lock.acquire({ signal: AbortSignal.timeout(20) });
      await assert.rejects(late, { name: 'TimeoutError' });
      assert.deepEqual(await document.read(), { count: 1 });
    });
  }
});
