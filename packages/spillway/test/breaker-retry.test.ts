// Slow: tries thousands of schedules.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import {
  Breaker,
  Bucket,
  consecutiveFailures,
  deadline,
  failureShare,
  Gate,
  Lane,
  Retry,
  seededRandom,
} from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { fail, hang, touchy, well } from './fixtures/breakers.ts';

describe('Breaker, with a Retry around it', () => {
  it('makes all callers wait while it is open, and resumes for all within a back-off', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { successesToClose: 1 });
    const retry = new Retry({ attemptsMax: 1, backoffMs: 100, clock, random: seededRandom(1) });
    await fail(breaker, 1);
    const begun: number[] = [];
    const slow = async () => {
      begun.push(clock.now());
      await new Promise<void>((resolve) => clock.after(50, resolve));
    };
    const calls = Array.from({ length: 50 }, () =>
      retry.run((signal) => breaker.run(slow, { signal })),
    );
    await clock.run(Promise.all(calls));
    assert.deepEqual([begun.length, retry.stats.retries], [50, 0]);
    const [probedAt = 0, resumedAt = 0] = begun;
    assert.ok(probedAt >= 1000 && probedAt < 1100, `${probedAt}`);
    assert.ok(resumedAt >= probedAt + 50, `${resumedAt}`);
    assert.ok((begun.at(-1) ?? 0) < resumedAt + 400, `${begun.at(-1)}`);
    assert.equal(clock.pending, 0);
  });

  it('is waited for no longer than the retry waits in all', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { cooldownMs: 20_000, probeMsMax: 500_000 });
    const retry = new Retry({ clock });
    await fail(breaker, 1);
    await clock.advance(20_000);
    const probe = breaker.run(hang);
    const call = retry.run((signal) => breaker.run(well, { signal }));
    await clock.run(assert.rejects(call, { code: 'BREAKER_OPEN' }));
    assert.ok(clock.now() > 60_000 && clock.now() <= 80_000, `${clock.now()}`);
    await clock.run(assert.rejects(probe, { code: 'DEADLINE' }));
  });

  it('is asked a hundred times a second at most while it is probed', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { cooldownMs: 1_000, probeMsMax: 500_000 });
    const retry = new Retry({ backoff: 'constant', backoffMs: 0, retryAfterMsMax: 1_000, clock });
    await fail(breaker, 1);
    await clock.advance(1_000);
    const probe = breaker.run(hang);
    let tries = 0;
    const call = retry.run((signal) => {
      tries += 1;
      assert.ok(tries <= 101, 'it asks without a pause');
      return breaker.run(well, { signal });
    });
    await clock.run(assert.rejects(call, { code: 'BREAKER_OPEN' }));
    assert.equal(tries, 101);
    await clock.run(assert.rejects(probe, { code: 'DEADLINE' }));
  });

  it('answers at once inside a lane whose deadline is before the cooldown ends', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { cooldownMs: 10_000 });
    const retry = new Retry({ clock });
    const lane = new Lane({ name: 'api', limit: 1, queueMax: 0, deadlineMs: 800, clock });
    await fail(breaker, 1);
    const guarded = (signal: AbortSignal) =>
      retry.run((inner) => breaker.run(well, { signal: inner }), { signal });
    await assert.rejects(lane.run(guarded), { code: 'BREAKER_OPEN' });
    using limit = deadline(clock, 800);
    using inner = deadline(clock, 60_000, limit.signal);
    await assert.rejects(guarded(inner.signal), { code: 'BREAKER_OPEN' });
    assert.equal(clock.now(), 0);
  });

  it('does not open because of refusals of our own parts', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock);
    const lane = new Lane({ name: 'small', limit: 1, queueMax: 0, deadlineMs: 5000, clock });
    const gate = new Gate({ limit: 1, queueMax: 0 });
    const bucket = new Bucket({ ratePerSecond: 1, burst: 1, queueMax: 0, clock });
    using _permit = await lane.enter();
    using _place = await gate.enter();
    await bucket.take();
    const open = touchy(clock);
    await fail(open, 1);
    for (const [refuse, code] of [
      [(signal: AbortSignal) => lane.run(well, { signal }), 'LANE_FULL'],
      [(signal: AbortSignal) => gate.run(well, { signal }), 'GATE_FULL'],
      [(signal: AbortSignal) => bucket.run(well, { signal }), 'BUCKET_FULL'],
      [(signal: AbortSignal) => open.run(well, { signal }), 'BREAKER_OPEN'],
    ] as const) {
      await assert.rejects(breaker.run<unknown>(refuse), { code });
    }
    assert.deepEqual([breaker.stats.state, breaker.stats.failures], ['closed', 0]);
  });
});

describe('A caller that aborts', () => {
  it('is told at once by breaker, bucket and retry, though the task ignores it', async () => {
    const clock = new VirtualClock();
    const runners = [
      new Breaker({ clock }),
      new Bucket({ ratePerSecond: 1, queueMax: 0, clock }),
      new Retry({ clock }),
      new Retry({ deadlineMs: 5000, clock }),
    ];
    for (const runner of runners) {
      const leave = new AbortController();
      const deaf = runner.run(() => new Promise<void>(() => {}), leave);
      leave.abort(new Error('left'));
      await assert.rejects(deaf, /left/);
      assert.equal(getEventListeners(leave.signal, 'abort').length, 0);
      await assert.rejects(runner.run(well, leave), /left/);
    }
    assert.equal(clock.pending, 0);
  });

  it('is told at its deadline by retry, for one attempt and for all', async () => {
    const clock = new VirtualClock();
    const deaf = () => new Promise<void>(() => {});
    const all = new Retry({ deadlineMs: 300, clock }).run(deaf);
    await clock.run(assert.rejects(all, { code: 'DEADLINE' }));
    assert.equal(clock.now(), 300);
    let attempts = 0;
    const second = new Retry({ attemptMsMax: 100, backoffMs: 0, clock }).run(async () => {
      attempts += 1;
      return attempts === 1 ? deaf() : undefined;
    });
    await clock.run(second);
    assert.deepEqual([attempts, clock.now()], [2, 400]);
    assert.equal(clock.pending, 0);
  });
});

describe('A probe', () => {
  it('is over when its time is, and whatever comes of it later is ignored', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { probeMsMax: 5000, successesToClose: 1 });
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
    await clock.run(assert.rejects(deaf, { code: 'DEADLINE' }));
    assert.equal(aborted, 6000);
    await assert.rejects(breaker.run(well), { code: 'BREAKER_OPEN', retryAfterMs: 2000 });
    late.resolve('late');
    await clock.advance(2000);
    assert.equal(await breaker.run(well), 'well');
    assert.deepEqual([breaker.stats.state, breaker.stats.opened], ['closed', 2]);
    assert.equal(clock.pending, 0);
  });

  it('is made by the next caller when the one who made it leaves', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { successesToClose: 1 });
    await fail(breaker, 1);
    await clock.advance(1000);
    const leave = new AbortController();
    const gone = assert.rejects(breaker.run(hang, leave), { name: 'AbortError' });
    await assert.rejects(breaker.run(well), { code: 'BREAKER_OPEN' });
    leave.abort();
    await gone;
    assert.equal(await breaker.run(well), 'well');
    assert.deepEqual([breaker.stats.failures, breaker.stats.state], [1, 'closed']);
    assert.equal(clock.pending, 0);
  });

  it('is never one of two, whatever happens', async () => {
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
        clock,
        random,
      });
      const retry = new Retry({ attemptsMax: 2, retryAfterMsMax: 5000, clock, random });
      let health = random();
      let live = 0;
      const work = async (signal: AbortSignal) => {
        const { state } = breaker.stats;
        const probe = state === 'half-open';
        assert.notEqual(state, 'open');
        if (probe) live += 1;
        assert.ok(live <= 1, 'two probes');
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
        signals.push(leave.signal);
        const isPatient = random() < 0.5;
        const call = isPatient
          ? retry.run((signal) => breaker.run(work, { signal }), leave)
          : breaker.run(work, leave);
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
      assert.equal(breaker.stats.probing, false);
      assert.ok(signals.every((signal) => getEventListeners(signal, 'abort').length === 0));
      await clock.advance(1000);
      assert.equal(clock.pending, 0);
    });
  });
});
