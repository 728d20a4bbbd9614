import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  consecutiveFailures,
  MemoryStore,
  Retry,
  SharedBreaker,
  type SharedBreakerOptions,
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
    const read = own.read.bind(own);
    own.read = (names, options) => {
      trips += 1;
      return read(names, options);
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

  it('never has two probes at once, and comes back, whatever happens', async () => {
    const { probes, paused } = await play('breaker');
    assert.ok(Number(probes) >= seeds && Number(paused) > seeds / 2, `${probes}, ${paused}`);
  });
});
