import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  consecutiveFailures,
  MemoryStore,
  SharedBreaker,
  type SharedBreakerOptions,
  type SpillwayError,
} from 'spillway';
import { explore, FaultyStore, SimulatedProcess, VirtualClock } from 'spillway/testing';

const seeds = Number(process.env.SPILLWAY_SEEDS ?? 60);
const broken = () => Promise.reject(new Error('broken'));
const well = () => Promise.resolve('well');

function world(options: Partial<SharedBreakerOptions> = {}) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  let trips = 0;
  const line = () => {
    const own = new FaultyStore(store, { clock });
    const read = own.read.bind(own);
    own.read = (names, signal) => {
      trips += 1;
      return read(names, signal);
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
    const { clock, start } = world({ queueMax: 9 });
    const all = Array.from({ length: 5 }, () => start());
    await fail(clock, all[0] as SharedBreaker, 3);
    await clock.advance(1000);
    let inside = 0;
    let calls = 0;
    const probe = Promise.withResolvers<void>();
    const waiting = all.flatMap((breaker) =>
      [1, 2].map(() =>
        breaker.run(async () => {
          inside += 1;
          calls += 1;
          await probe.promise;
          inside -= 1;
        }),
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

  it('never has two probes at once, and comes back, with crashes and lost answers', async () => {
    let probes = 0;
    await explore(seeds, async (random) => {
      const { clock, store, start } = world({
        random,
        cooldownMs: 300,
        cooldownMsMax: 900,
        queueMax: 3,
      });
      const failures: string[] = [];
      let isUp = true;
      let openedAt: number | undefined;
      const probing = new Set<SimulatedProcess>();
      const status = async () => (await store.read(['breaker/api'])).records[0]?.value;
      const all = Array.from({ length: 3 }, () => {
        const process = new SimulatedProcess(clock);
        const faults = { delayMsMax: 10 * random(), faultShare: 0.1 * random() };
        const line = new FaultyStore(store, { clock, process, random, ...faults });
        const breaker = start({ store: line, clock: process, storeMsMax: 5000, probeMsMax: 400 });
        return { process, breaker };
      });
      const call = (process: SimulatedProcess) => async (signal: AbortSignal) => {
        const shared = (await status()) as { status: string } | undefined;
        if (!isUp && shared && shared.status !== 'closed') openedAt ??= clock.now();
        // From a second after it opened until the outage ends, whoever calls is a probe.
        const isProbe = !isUp && clock.now() > (openedAt ?? Infinity) + 1000;
        if (isProbe && probing.size > 0) failures.push(`two probes at ${clock.now()}`);
        if (isProbe) {
          probing.add(process);
          probes += 1;
        }
        try {
          await new Promise<void>((resolve, reject) => {
            process.after(random() * 200, resolve);
            signal.addEventListener('abort', () => reject(signal.reason));
          });
          if (!isUp) throw new Error('broken');
        } finally {
          if (isProbe) probing.delete(process);
        }
      };
      for (const { process, breaker } of all) {
        const live = async () => {
          while (clock.now() < 12_000) {
            await breaker.run(call(process)).catch((error: SpillwayError) => error.code);
            await new Promise<void>((resolve) => process.after(20 + random() * 60, resolve));
          }
        };
        live().catch((error) => failures.push(String(error)));
      }
      await clock.advance(1000);
      isUp = false;
      await clock.advance(3000 + random() * 1000);
      const [victim] = probing.size > 0 ? probing : all.map(({ process }) => process);
      victim?.crash();
      // Others may probe when its time is over: it is as if it had been aborted.
      await clock.advance(400);
      if (victim) probing.delete(victim);
      await clock.advance(2000);
      isUp = true;
      await clock.advance(8000);
      const last = (await status()) as { status: string; opened: number };
      assert.deepEqual(failures, []);
      assert.ok(last.opened > 0, 'it opened');
      assert.equal(last.status, 'closed');
      // The last visits may be left without an answer more than once.
      await clock.advance(10_000);
      assert.equal(clock.pending, 0);
    });
    assert.ok(probes >= seeds, `${probes} probes`);
  });
});
