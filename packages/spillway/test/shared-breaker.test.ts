import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  consecutiveFailures,
  failureShare,
  MemoryStore,
  Retry,
  SharedBreaker,
  type SharedBreakerOptions,
  seededRandom,
} from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { play, seeds } from './simulations/play.ts';

const broken = () => Promise.reject(new Error('broken'));
const well = () => Promise.resolve('well');

function world(options: Partial<SharedBreakerOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  let trips = 0;
  const line = () => {
    const own = new FaultyStore(store, { clock });
    const apply = own.apply.bind(own);
    own.apply = (...args) => {
      trips += 1;
      return apply(...args);
    };
    return own;
  };
  const start = (own: Partial<SharedBreakerOptions> = {}) =>
    new SharedBreaker({
      store: line(),
      name: 'api',
      rule: consecutiveFailures(3),
      cooldownMs: 5000,
      jitter: 0,
      successesToClose: 1,
      clock,
      ...options,
      ...own,
    });
  return { clock, store, line, start, trips: () => trips };
}

async function fail(clock: VirtualClock, breaker: SharedBreaker, times: number): Promise<void> {
  for (let i = 0; i < times; i += 1) await clock.run(assert.rejects(breaker.run(broken), /broken/));
}

const pauseOn = (clock: VirtualClock, ms: number) =>
  new Promise<void>((resolve) => void clock.after(ms, resolve));

describe('SharedBreaker', () => {
  it('is open for all within a second of opening for one, and for newcomers', async () => {
    const { clock, start } = world();
    const [a, b] = [start(), start()];
    await clock.run(b.run(well));
    await fail(clock, a, 3);
    assert.equal(a.stats.state, 'open');
    await clock.advance(1000);
    const refused = { code: 'BREAKER_OPEN', status: 503 };
    await clock.run(assert.rejects(b.run(well), refused));
    await clock.run(assert.rejects(start().run(well), refused));
    await clock.advance(1000);
    assert.equal(clock.pending, 0);
  });

  it('counts the failures of all together', async () => {
    const { clock, start } = world();
    const all = [start(), start(), start()];
    for (const breaker of all) {
      await fail(clock, breaker, 1);
      await clock.advance(300);
    }
    await clock.advance(1000);
    await clock.run(assert.rejects(start().run(well), { code: 'BREAKER_OPEN' }));
  });

  it('is probed by one of all, and closes for all within a second', async () => {
    const { clock, start } = world();
    const retry = new Retry({ attemptsMax: 1, backoffMsMax: 500, clock });
    const all = Array.from({ length: 5 }, () => start());
    await fail(clock, all[0] as SharedBreaker, 3);
    await clock.advance(1000);
    let inside = 0;
    let calls = 0;
    const probe = Promise.withResolvers<void>();
    const waiting = all.flatMap((breaker) =>
      [1, 2].map(() =>
        retry.run((signal) =>
          breaker.run(
            async () => {
              inside += 1;
              calls += 1;
              await probe.promise;
              inside -= 1;
            },
            { signal },
          ),
        ),
      ),
    );
    await clock.advance(8000);
    assert.deepEqual([inside, calls], [1, 1]);
    probe.resolve();
    await clock.advance(1000);
    await Promise.all(waiting);
    assert.equal(calls, 10);
    await clock.advance(1000);
    assert.equal(clock.pending, 0);
  });

  it('opens by its own rule beside processes that have another one', async () => {
    const rules = [
      consecutiveFailures(3),
      failureShare({ share: 0.5, windowMs: 60_000, callsMin: 3 }),
      failureShare({ share: 0.5, windowMs: 1_000, callsMin: 3 }),
    ];
    for (const before of rules) {
      for (const rule of rules) {
        const { clock, start } = world();
        await clock.advance(1e12);
        const [older, newer] = [start({ rule: before }), start({ rule })];
        await fail(clock, older, 1);
        await clock.advance(1_000);
        await clock.run(newer.run(well));
        for (let i = 0; i < 3 && newer.stats.state === 'closed'; i += 1) {
          await fail(clock, newer, 1);
          await clock.advance(100);
        }
        assert.equal(newer.stats.state, 'open', JSON.stringify([before.plain, rule.plain]));
        await Promise.all([clock.run(older.close()), clock.run(newer.close())]);
      }
    }
  });

  it('costs no visit to the store for a call that succeeds', async () => {
    const { clock, start, trips } = world();
    const breaker = start();
    for (let i = 0; i < 1000; i += 1) {
      await clock.run(breaker.run(well));
      await clock.advance(1);
    }
    assert.ok(trips() <= 6, `${trips()} visits`);
    await breaker[Symbol.asyncDispose]();
  });

  it('goes by its own state while the store is away, and by the shared one after', async () => {
    const { clock, line, start } = world();
    const store = line();
    const breaker = start({ store });
    store.down = true;
    assert.equal(await clock.run(breaker.run(well)), 'well');
    assert.equal(breaker.stats.reachable, false);
    await fail(clock, breaker, 3);
    await assert.rejects(breaker.run(well), { code: 'BREAKER_OPEN' });
    store.down = false;
    await clock.advance(1000);
    assert.deepEqual([breaker.stats.reachable, breaker.stats.state], [true, 'open']);
    await clock.run(assert.rejects(start().run(well), { code: 'BREAKER_OPEN' }));
  });

  it('is kept by 256 machines, 20 ms away, though each counts its successes', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const random = seededRandom(1);
    const rule = failureShare({ share: 0.5, windowMs: 500, callsMin: 20 });
    let isDown = false;
    const breakers = Array.from({ length: 256 }, () => {
      const line = new FaultyStore(store, { clock, random, delayMsMax: 20 });
      return new SharedBreaker({ store: line, name: 'x', clock, random, rule });
    });
    const task = async () => {
      await pauseOn(clock, 200);
      if (isDown) throw new Error('down');
    };
    const call = async (breaker: SharedBreaker) => {
      while (clock.now() < 2_500) {
        await breaker.run(task).catch(() => pauseOn(clock, 200));
      }
    };
    const calling = Promise.all(breakers.map(call));
    await clock.advance(1_000);
    const unreachable = breakers.filter(({ stats }) => !stats.reachable).length;
    assert.deepEqual([unreachable, breakers[0]?.stats.state], [0, 'closed']);
    isDown = true;
    await clock.advance(3_000);
    await calling;
    const open = breakers.filter(({ stats }) => stats.state === 'open').length;
    assert.equal(open, 256);
    for (const breaker of breakers) void breaker.close();
    await clock.advance(2_000);
  });

  it('never has two probes at once, and comes back, whatever happens', async () => {
    const { probes, paused } = await play('breaker');
    assert.ok(Number(probes) >= seeds && Number(paused) > seeds / 2, `${probes}, ${paused}`);
  });
});
