import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  deadline,
  fenced,
  Lease,
  type LeaseOptions,
  MemoryStore,
  SpillwayError,
  type Store,
  type StoreCommitOptions,
} from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { msLeft } from '../src/base/deadline.ts';
import { SimulatedProcess } from './fixtures/simulated-process.ts';

const ttlMs = 300;

function world() {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const options = { store, clock, name: 'harvest', ttlMs, pollMs: 10 };
  return { clock, store, options };
}

/** A store that loses one commit: the question to it, or the answer to what it has done. */
class LosingStore extends MemoryStore {
  loses: 'question' | 'answer' | undefined;

  override async commit(...call: Parameters<MemoryStore['commit']>) {
    const lost = this.loses;
    this.loses = undefined;
    if (lost === 'question') throw new Error('the connection broke');
    const done = await super.commit(...call);
    if (lost === 'answer') throw new Error('the connection broke');
    return done;
  }
}

async function order(clock: VirtualClock, all: readonly LeaseOptions[]): Promise<string[]> {
  const served: string[] = [];
  const hold = async (options: LeaseOptions, who: string) => {
    await using _lease = await Lease.acquire(options);
    served.push(who);
    await new Promise<void>((resolve) => clock.after(100, resolve));
  };
  const holding: Promise<void>[] = [];
  for (const [at, options] of all.entries()) {
    holding.push(hold(options, String.fromCharCode(97 + at)));
    await clock.advance(1);
  }
  await clock.run(Promise.all(holding));
  return served;
}

describe('Lease', () => {
  it('has no name whose record is the fence of another', async () => {
    const { options } = world();
    await using lease = await Lease.acquire(options);
    const taken = Lease.acquire({ ...options, name: 'harvest/fence', waits: false });
    await assert.rejects(taken, { code: 'ERR_ASSERTION', message: /name/ });
    await lease.renew();
  });

  it('is held by one, renewed while it is held, and free once it is disposed', async () => {
    const { clock, store, options } = world();
    const lease = await Lease.acquire(options);
    await clock.advance(10 * ttlMs);
    assert.ok(lease.stats.held && lease.stats.renewed >= 29, `${lease.stats.renewed} renewals`);
    await assert.rejects(Lease.acquire({ ...options, waits: false }), (error) => {
      const { code, status, retryAfterMs } = error as Record<string, number>;
      assert.deepEqual([code, status, retryAfterMs], ['LEASE_HELD', 503, ttlMs]);
      return true;
    });
    await lease[Symbol.asyncDispose]();
    await lease[Symbol.asyncDispose]();
    assert.equal(lease.stats.held, false);
    assert.throws(() => lease.guard([]), { code: 'LEASE_LOST' });
    await using next = await Lease.acquire({ ...options, waits: false });
    assert.ok(next.fence > lease.fence);
    await next[Symbol.asyncDispose]();
    assert.deepEqual(await store.list('lease/', { max: 9 }), []);
    assert.equal(clock.pending, 0);
  });

  it('tells of a full disk at once, without waiting for the store to recover', async () => {
    const { clock, options } = world();
    class FullStore extends MemoryStore {
      override commit(): Promise<never> {
        return Promise.reject(new SpillwayError('DATABASE_FULL', 'no space is left'));
      }
    }
    await using store = new FullStore({ clock });
    const acquiring = Lease.acquire({ ...options, store, deadlineMs: 30_000 });
    await assert.rejects(clock.run(acquiring), { code: 'DATABASE_FULL' });
    assert.equal(clock.now(), 0);
  });

  it('serves all who wait, one after the other, and lets one leave', async () => {
    const { clock, store, options } = world();
    const first = await Lease.acquire(options);
    const gone = new AbortController();
    const leaver = assert.rejects(Lease.acquire({ ...options, signal: gone.signal }), /enough/);
    await clock.advance(1);
    const rest = order(clock, [options, options, options, options]);
    await clock.advance(50);
    gone.abort(new Error('enough'));
    await leaver;
    await clock.run(first[Symbol.asyncDispose]());
    assert.deepEqual(new Set(await rest), new Set(['a', 'b', 'c', 'd']));
    assert.deepEqual(await store.list('lease/', { max: 9 }), []);
    await clock.advance(2000);
    assert.equal(clock.pending, 0);
  });

  it('gives up at the caller’s deadline and leaves nothing of it', async () => {
    const { clock, store, options } = world();
    await using _lease = await Lease.acquire(options);
    using limit = deadline(clock, 500);
    const late = assert.rejects(Lease.acquire({ ...options, signal: limit.signal }), {
      code: 'DEADLINE',
    });
    await clock.advance(500);
    await late;
    assert.equal((await store.list('lease/', { max: 9 })).length, 2);
  });

  it('passes to the next when its holder crashed, not before it expired', async () => {
    const { clock, options } = world();
    const victim = new SimulatedProcess(clock);
    const lease = await Lease.acquire({ ...options, clock: victim });
    await clock.advance(50);
    victim.crash();
    const next = await clock.run(Lease.acquire(options));
    assert.ok(clock.now() >= ttlMs && clock.now() < ttlMs + 20, `${clock.now()}`);
    assert.ok(next.fence > lease.fence);
    await next[Symbol.asyncDispose]();
  });

  it('passes to a waiter at once when the store tells of it, else soon', async () => {
    const { clock, store, options } = world();
    const { read, commit, list } = store;
    const silent: Store = {
      read: read.bind(store),
      commit: commit.bind(store),
      list: list.bind(store),
      async [Symbol.asyncDispose]() {},
    };
    for (const [each, withinMs] of [
      [store, 1],
      [silent, 20],
    ] as const) {
      const first = await Lease.acquire({ ...options, store: each });
      const next = Lease.acquire({ ...options, store: each });
      await clock.advance(55);
      await first.close();
      const releasedAt = clock.now();
      await (await clock.run(next)).close();
      assert.ok(clock.now() - releasedAt < withinMs, `${clock.now() - releasedAt}`);
    }
    assert.equal(clock.pending, 0);
  });

  it('is acknowledged when it is durable, and released without waiting for that', async () => {
    const { store, options } = world();
    const asked: unknown[] = [];
    const commit = store.commit.bind(store);
    store.commit = (changes, settings: StoreCommitOptions = {}) => {
      asked.push(settings.durability);
      return commit(changes, settings);
    };
    const lease = await Lease.acquire(options);
    await lease.renew();
    await lease.close();
    assert.deepEqual(asked, [undefined, undefined, 'none']);
  });

  it('runs a task whose signal aborts when it is lost, and tells its caller at once', async () => {
    const { clock, options } = world();
    const lease = await Lease.acquire(options);
    assert.equal(await lease.run(async () => 'done'), 'done');
    const deaf = () => new Promise<void>(() => {});
    const leave = new AbortController();
    const left = assert.rejects(lease.run(deaf, leave), /left/);
    leave.abort(new Error('left'));
    await left;
    const lost = assert.rejects(lease.run(deaf, new AbortController()), { code: 'LEASE_LOST' });
    assert.equal(lease.ready, true);
    await lease.close();
    await lost;
    assert.equal(lease.ready, false);
    await assert.rejects(lease.run(deaf), { code: 'LEASE_LOST' });
    assert.equal(clock.pending, 0);
  });

  it('aborts its signal before anybody else can hold it when the store is away', async () => {
    const { clock, store, options } = world();
    const line = new FaultyStore(store, { clock });
    const lease = await clock.run(Lease.acquire({ ...options, store: line }));
    line.down = true;
    const lostAt = new Promise<number>((resolve) => {
      lease.signal.addEventListener('abort', () => resolve(clock.now()));
    });
    const next = await clock.run(Lease.acquire(options));
    const heldAt = clock.now();
    assert.ok((await lostAt) < heldAt, `lost at ${await lostAt}, held at ${heldAt}`);
    assert.equal(lease.signal.reason.code, 'LEASE_LOST');
    await next[Symbol.asyncDispose]();
    await lease[Symbol.asyncDispose]();
    assert.equal(clock.pending, 0);
  });

  it('counts its life from when a renewal was sent, not from when it was confirmed', async () => {
    const { clock, store, options } = world();
    const line = new FaultyStore(store, { clock });
    const slow: Store = {
      read: (names) => line.read(names),
      list: (prefix, options) => line.list(prefix, options),
      async commit(changes) {
        const commit = await line.commit(changes);
        await new Promise<void>((resolve) => clock.after(70, resolve));
        return commit;
      },
      async [Symbol.asyncDispose]() {},
    };
    const lease = await clock.run(Lease.acquire({ ...options, store: slow }));
    await clock.advance(115);
    assert.equal(lease.stats.renewed, 1);
    line.down = true;
    const next = await clock.run(Lease.acquire(options));
    assert.ok(lease.signal.aborted);
    await next[Symbol.asyncDispose]();
  });

  it('refuses the writes of a holder that was paused for too long', async () => {
    const { clock, store, options } = world();
    const sleeper = new SimulatedProcess(clock);
    const stale = await Lease.acquire({ ...options, clock: sleeper });
    const early = stale.guard([{ name: 'page', value: 1 }]);
    assert.ok(await store.commit(early));
    sleeper.pause();
    const next = await clock.run(Lease.acquire(options));
    assert.ok(await store.commit(next.guard([{ name: 'page', value: 2 }])));
    assert.equal(await store.commit(early), undefined);
    assert.equal(await store.commit(fenced(stale, [{ name: 'page', value: 3 }])), undefined);
    assert.throws(() => stale.guard([]), { code: 'LEASE_LOST' });
    sleeper.resume();
    assert.ok(stale.signal.aborted);
    assert.equal((await store.read(['page'])).records[0]?.value, 2);
    await next[Symbol.asyncDispose]();
  });

  it('lives on when one renewal fails, and tells how long it has', async () => {
    const { clock, options } = world();
    const store = new LosingStore({ clock });
    const lease = await Lease.acquire({ ...options, store });
    assert.equal(lease.stats.leftMs, 270);
    await clock.advance(50);
    assert.equal(lease.stats.leftMs, 220);
    store.loses = 'question';
    await clock.advance(10 * ttlMs);
    assert.deepEqual([lease.stats.failed, lease.stats.held], [1, true]);
    await lease.close();
    assert.equal(clock.pending, 0);
  });

  it('is lost to the millisecond when no renewal succeeds', async () => {
    const { clock, store, options } = world();
    const line = new FaultyStore(store, { clock });
    const lease = await clock.run(Lease.acquire({ ...options, store: line }));
    await clock.advance(1_000);
    const { leftMs } = lease.stats;
    const acquiredAt = clock.now();
    line.down = true;
    await clock.run(new Promise((resolve) => lease.signal.addEventListener('abort', resolve)));
    assert.equal(clock.now(), acquiredAt + leftMs);
    assert.equal(lease.stats.leftMs, 0);
  });

  it('is closed while a renewal is under way, and while the store is away', async () => {
    const { clock, store, options } = world();
    const line = new FaultyStore(store, { clock, delayMsMax: 30, random: () => 0.99 });
    const lease = await clock.run(Lease.acquire({ ...options, store: line }));
    // A renewal is sent 100 ms after the claim was, and answered some 60 ms later.
    await clock.advance(50);
    await clock.run(lease.close());
    assert.equal(lease.stats.renewed, 0);
    const next = await clock.run(Lease.acquire({ ...options, store: line }));
    line.down = true;
    await clock.run(next.close());
    await clock.advance(2_000);
    assert.equal(clock.pending, 0);
  });

  it('is lost with the next renewal when another took it', async () => {
    const { clock, store, options } = world();
    const lease = await Lease.acquire(options);
    await store.commit([{ name: 'lease/harvest/fence', value: { holder: 'another' } }]);
    await clock.advance(ttlMs / 3);
    assert.match(String(lease.signal.reason), /taken by another/);
    assert.equal(lease.stats.renewed, 0);
  });

  it('is renewed at once on demand, and tells when that fails or comes too late', async () => {
    const { clock, options } = world();
    const store = new LosingStore({ clock });
    const lease = await Lease.acquire({ ...options, store });
    await clock.advance(90);
    await lease.renew();
    assert.equal(lease.stats.leftMs, 270);
    store.loses = 'question';
    await clock.advance(50);
    await assert.rejects(lease.renew(), /the connection broke/);
    assert.equal(lease.stats.leftMs, 220);
    // The one by itself is a third of its life after the last that succeeded.
    await clock.advance(50);
    assert.deepEqual([lease.stats.leftMs, lease.stats.renewed], [270, 2]);
    await store.commit([{ name: 'lease/harvest/fence', value: { holder: 'another' } }]);
    await assert.rejects(lease.renew(), { code: 'LEASE_LOST', message: /taken by another/ });
    await assert.rejects(lease.renew(), { code: 'LEASE_LOST' });
    assert.equal(lease.signal.aborted, true);
    assert.equal(clock.pending, 0);
  });

  it('is held by one whose claim was made, though the answer to it was lost', async () => {
    const { clock, options } = world();
    const store = new LosingStore({ clock });
    store.loses = 'answer';
    const lease = await clock.run(Lease.acquire({ ...options, store, waits: false }));
    // Its life counts from the claim that was made, not from when it was found.
    assert.equal(lease.stats.leftMs, 270 - clock.now());
    await clock.advance(10 * ttlMs);
    assert.equal(lease.stats.held, true);
    await lease.close();
  });

  it('runs nothing for a holder that was paused, and gives tasks their caller’s time', async () => {
    const { clock, options } = world();
    const sleeper = new SimulatedProcess(clock);
    const stale = await Lease.acquire({ ...options, clock: sleeper });
    using limit = deadline(sleeper, 100);
    const left = await stale.run(async (signal) => msLeft(signal), limit);
    assert.equal(left, 100);
    sleeper.pause();
    await clock.advance(ttlMs);
    let runs = 0;
    const late = stale.run(async () => {
      runs += 1;
    });
    await assert.rejects(late, { code: 'LEASE_LOST' });
    assert.equal(runs, 0);
  });

  it('says so when the store cannot be reached', async () => {
    const { clock, store, options } = world();
    const line = new FaultyStore(store, { clock });
    line.down = true;
    const failing = assert.rejects(Lease.acquire({ ...options, store: line }), (error) => {
      const { code, status, cause } = error as { code: string; status: number; cause: unknown };
      assert.deepEqual([code, status], ['STORE_UNREACHABLE', 503]);
      assert.match(String(cause), /network failed/);
      return true;
    });
    await clock.run(failing);
    await clock.advance(2000);
    assert.equal(clock.pending, 0);
  });

  it('names the option that is wrong, and its rule', async () => {
    const { options } = world();
    const wrong = (change: Partial<LeaseOptions>, message: RegExp) =>
      assert.rejects(Lease.acquire({ ...options, ...change }), message);
    await wrong({ name: '' }, /name: must be a string that is not empty/);
    await wrong({ ttlMs: 29 }, /ttlMs: must be a number from 30 /);
    await wrong({ pollMs: 0 }, /pollMs: must be a number from 1 /);
    await wrong({ deadlineMs: 9 }, /deadlineMs: must be a number from 10 /);
  });
});
