import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { Breaker, type Clock, consecutiveFailures, failureShare } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { broken, fail, hang, touchy, well } from './fixtures/breakers.ts';

describe('Breaker, with callers that wait', () => {
  it('lets callers wait: the first probes, all are released when it closes', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { queueMax: 5 });
    await fail(breaker, 1);
    const calls: string[] = [];
    const slow = (name: string) => async () => {
      calls.push(`${name} at ${clock.now()}`);
      await new Promise<void>((resolve) => clock.after(100, resolve));
    };
    const waiting = ['a', 'b', 'c', 'd', 'e'].map((name) => breaker.run(slow(name)));
    await assert.rejects(breaker.run(well), { code: 'BREAKER_OPEN' });
    await assert.rejects(breaker.tryRun(well), { code: 'BREAKER_OPEN' });
    assert.deepEqual([breaker.stats.waiting, clock.pending], [5, 1]);
    await clock.run(Promise.all(waiting));
    assert.deepEqual(calls, ['a at 1000', 'b at 1100', 'c at 1200', 'd at 1300', 'e at 1300']);
    assert.equal(breaker.stats.state, 'closed');
    assert.equal(clock.pending, 0);
  });

  it('goes on waiting when the probe fails', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { queueMax: 5, successesToClose: 1 });
    await fail(breaker, 1);
    const probe = assert.rejects(breaker.run(broken), /broken/);
    const next = breaker.run(well);
    await clock.advance(1000);
    await probe;
    assert.equal(breaker.stats.state, 'open');
    await clock.run(next);
    assert.equal(clock.now(), 3000);
    assert.equal(clock.pending, 0);
  });

  it('lets a waiter leave, and keeps no timer for nobody', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { queueMax: 5 });
    await fail(breaker, 1);
    const leave = new AbortController();
    const gone = assert.rejects(breaker.run(well, leave.signal), { name: 'AbortError' });
    leave.abort();
    assert.equal(clock.pending, 0);
    await gone;
    await assert.rejects(breaker.run(well, leave.signal), { name: 'AbortError' });
    assert.equal(breaker.stats.waiting, 0);
  });

  it('makes the next waiter the probe when the caller of a probe leaves', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { queueMax: 5, successesToClose: 1 });
    await fail(breaker, 1);
    const leave = new AbortController();
    const gone = assert.rejects(breaker.run(hang, leave.signal), { name: 'AbortError' });
    const next = breaker.run(well);
    await clock.advance(1500);
    assert.equal(breaker.stats.probing, true);
    leave.abort();
    await gone;
    assert.equal(await next, 'well');
    assert.deepEqual([breaker.stats.failures, breaker.stats.state], [1, 'closed']);
    assert.equal(clock.pending, 0);
  });

  it('does not start a probe for a caller that leaves just as its turn comes', async () => {
    const clock = new VirtualClock();
    const late: Clock = {
      now: () => clock.now(),
      after: (ms, callback) => clock.after(ms + 50, callback),
    };
    const breaker = touchy(clock, { clock: late, queueMax: 5, successesToClose: 1 });
    await fail(breaker, 1);
    const started: string[] = [];
    const leave = [new AbortController(), new AbortController(), new AbortController()];
    const calls = leave.map(({ signal }, i) =>
      breaker.run(async () => started.push(`${i} at ${clock.now()}`), signal),
    );
    const ends = Promise.allSettled(calls);
    await clock.advance(1020);
    leave[0]?.abort();
    // The cooldown is over, so the turn has gone to the next, who has not gone on yet.
    assert.deepEqual([breaker.stats.probing, breaker.stats.waiting], [true, 1]);
    leave[1]?.abort();
    await ends;
    assert.deepEqual(started, ['2 at 1020']);
    assert.equal(breaker.stats.state, 'closed');
    assert.equal(clock.pending, 0);
  });

  it('takes a probe that hangs for failed, aborts it, and ignores what comes of it', async () => {
    for (const queueMax of [0, 1]) {
      const clock = new VirtualClock();
      const breaker = touchy(clock, { queueMax, probeMsMax: 5000, successesToClose: 1 });
      await fail(breaker, 1);
      await clock.advance(1000);
      const late = Promise.withResolvers<string>();
      let aborted = 0;
      const deaf = breaker.run((signal) => {
        signal.addEventListener('abort', () => {
          aborted = clock.now();
        });
        return late.promise;
      });
      const waiting = queueMax > 0 ? breaker.run(well) : undefined;
      await clock.advance(5000);
      assert.equal(aborted, 6000);
      await assert.rejects(breaker.run(broken), { code: 'BREAKER_OPEN', retryAfterMs: 2000 });
      late.resolve('late');
      assert.equal(await deaf, 'late');
      assert.equal(breaker.stats.state, 'open');
      await clock.advance(2000);
      assert.equal(await (waiting ?? breaker.run(well)), 'well');
      assert.deepEqual([breaker.stats.state, breaker.stats.opened], ['closed', 2]);
      assert.equal(clock.pending, 0);
    }
  });

  it('never has two probes, and leaves nobody waiting, whatever happens', async () => {
    await explore(2000, async (random) => {
      const clock = new VirtualClock();
      const breaker = new Breaker({
        rule:
          random() < 0.5
            ? consecutiveFailures(1 + Math.floor(random() * 3))
            : failureShare({ share: 0.5, windowMs: 500, callsMin: 3 }),
        cooldownMs: 100,
        cooldownMsMax: 400,
        successesToClose: 1 + Math.floor(random() * 3),
        probeMsMax: 150,
        queueMax: Math.floor(random() * 10),
        clock,
        random,
      });
      let health = random();
      let live = 0;
      const started: number[] = [];
      const work = (id: number) => async (signal: AbortSignal) => {
        const { state } = breaker.stats;
        const probe = state === 'half-open';
        assert.notEqual(state, 'open');
        if (probe) live += 1;
        assert.ok(live <= 1, 'two probes');
        started.push(id);
        const ok = random() < health;
        try {
          await new Promise<void>((resolve, reject) => {
            const stop = () => {
              timer[Symbol.dispose]();
              reject(signal.reason);
            };
            const timer = clock.after(random() * 250, () => {
              signal.removeEventListener('abort', stop);
              resolve();
            });
            signal.addEventListener('abort', stop, { once: true });
          });
        } finally {
          if (probe) live -= 1;
        }
        if (!ok) throw new Error('broken');
      };
      const callers: Promise<void>[] = [];
      const signals: AbortSignal[] = [];
      for (let id = 0; id < 30; id += 1) {
        const leave = new AbortController();
        if (random() < 0.3) clock.after(random() * 500, () => leave.abort());
        const { signal } = leave;
        signals.push(signal);
        const patient = random() < 0.8;
        const call = patient ? breaker.run(work(id), signal) : breaker.tryRun(work(id), signal);
        callers.push(call);
        call.catch(() => {});
        if (random() < 0.7) await clock.advance(random() * 80);
        if (random() < 0.1) health = random();
      }
      const settled = await clock.run(Promise.allSettled(callers));
      for (const { reason } of settled.filter((one) => one.status === 'rejected')) {
        const expected = ['BREAKER_OPEN', 'DEADLINE'].includes(reason.code);
        const known = expected || reason.name === 'AbortError' || reason.message === 'broken';
        assert.ok(known, String(reason));
      }
      assert.deepEqual(
        started,
        started.toSorted((a, b) => a - b),
      );
      assert.equal(breaker.stats.waiting, 0);
      assert.equal(breaker.stats.probing, false);
      assert.ok(signals.every((signal) => getEventListeners(signal, 'abort').length === 0));
      await clock.advance(1000);
      assert.equal(clock.pending, 0);
    });
  });
});
