import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  Breaker,
  type BreakerOptions,
  consecutiveFailures,
  deadline,
  failureShare,
  SpillwayError,
} from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { fail, hang, touchy, well } from './fixtures/breakers.ts';

describe('Breaker', () => {
  it('opens after five failures in a row, and says how long it cools down', async () => {
    const clock = new VirtualClock();
    const breaker = new Breaker({ cooldownMs: 10_000, jitter: 0, clock });
    await fail(breaker, 4);
    assert.equal(await breaker.run(well), 'well');
    await fail(breaker, 4);
    assert.equal(breaker.stats.state, 'closed');
    await fail(breaker, 1);
    assert.equal(breaker.stats.state, 'open');
    await clock.advance(4000);
    await assert.rejects(breaker.run(well), (error: SpillwayError) => {
      assert.deepEqual([error.code, error.status, error.retryAfterMs], ['BREAKER_OPEN', 503, 6000]);
      assert.match(String(error.cause), /broken/);
      return true;
    });
    assert.deepEqual(breaker.stats, {
      kind: 'breaker',
      state: 'open',
      since: 0,
      probing: false,
      calls: 10,
      failures: 9,
      opened: 1,
      refused: 1,
      callMs: breaker.stats.callMs,
      lastFailure: { at: 0, message: 'broken' },
    });
    assert.equal(clock.pending, 0);
  });

  it('opens when the share of failures in the window is reached, given enough calls', async () => {
    const clock = new VirtualClock();
    const rule = failureShare({ share: 0.5, windowMs: 10_000, callsMin: 10 });
    const breaker = new Breaker({ rule, clock });
    await fail(breaker, 9);
    await clock.advance(11_000);
    for (let i = 0; i < 6; i += 1) await breaker.run(well);
    await fail(breaker, 5);
    assert.equal(breaker.stats.state, 'closed');
    await fail(breaker, 1);
    assert.equal(breaker.stats.state, 'open');
  });

  it('closes after three probes in a row, each made by the next caller', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock);
    await fail(breaker, 1);
    await clock.advance(1000);
    for (const state of ['half-open', 'half-open', 'closed']) {
      await breaker.run(well);
      assert.equal(breaker.stats.state, state);
    }
    assert.equal(clock.pending, 0);
  });

  it('lets one probe at a time, and refuses the others meanwhile', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock);
    await fail(breaker, 1);
    await clock.advance(1000);
    const probe = Promise.withResolvers<void>();
    const probing = breaker.run(() => probe.promise);
    assert.equal(breaker.stats.probing, true);
    await assert.rejects(breaker.run(well), { code: 'BREAKER_OPEN', retryAfterMs: undefined });
    probe.resolve();
    await probing;
    assert.equal(breaker.stats.probing, false);
    await breaker.run(well);
  });

  it('cools down longer after each failed probe, and anew once closed', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { cooldownMsMax: 3000, successesToClose: 1 });
    await fail(breaker, 1);
    for (const ms of [1000, 2000, 3000, 3000]) {
      await assert.rejects(breaker.run(well), { retryAfterMs: ms });
      await clock.advance(ms);
      await fail(breaker, 1);
    }
    await clock.advance(3000);
    await breaker.run(well);
    await fail(breaker, 1);
    await assert.rejects(breaker.run(well), { retryAfterMs: 1000 });
    assert.equal(breaker.stats.opened, 6);
  });

  it('shortens the cooldown by chance, so that processes do not probe in step', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { jitter: 0.4, random: () => 0.5 });
    await fail(breaker, 1);
    await assert.rejects(breaker.run(well), { retryAfterMs: 800 });
  });

  it('counts a probe that ran into its time limit as a failure', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { probeMsMax: 5000 });
    await fail(breaker, 1);
    await clock.advance(1000);
    const probe = assert.rejects(breaker.run(hang), { code: 'DEADLINE' });
    await clock.advance(5000);
    await probe;
    assert.deepEqual([breaker.stats.state, breaker.stats.failures], ['open', 2]);
    assert.equal(clock.pending, 0);
  });

  it('learns nothing from calls that began before the state last changed', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock, { successesToClose: 2 });
    const old = Promise.withResolvers<string>();
    const older = Promise.withResolvers<string>();
    const begun = [breaker.run(() => old.promise), breaker.run(() => older.promise)];
    const ends = Promise.allSettled(begun);
    await fail(breaker, 1);
    await clock.advance(1000);
    await breaker.run(well);
    old.resolve('fine');
    await begun[0];
    assert.equal(breaker.stats.state, 'half-open');
    older.reject(new Error('broken'));
    await ends;
    assert.equal(breaker.stats.state, 'half-open');
    await breaker.run(well);
    assert.equal(breaker.stats.state, 'closed');
  });

  it('takes only what speaks against the dependency for a failure', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock);
    const reject = (status: number) => () =>
      Promise.reject(new SpillwayError({ code: 'HTTP', status, retryable: true }, 'answer'));
    for (const status of [400, 404, 429, 499]) {
      await assert.rejects(breaker.run(reject(status)), { status });
    }
    const gone = new AbortController();
    const left = assert.rejects(breaker.run(hang, gone), { message: 'left' });
    gone.abort(new Error('left'));
    await left;
    const abort = () => Promise.reject(new DOMException('stopped', 'AbortError'));
    await assert.rejects(breaker.run(abort), { name: 'AbortError' });
    assert.equal(breaker.stats.state, 'closed');
    await assert.rejects(breaker.run(reject(500)), { status: 500 });
    assert.equal(breaker.stats.state, 'open');
  });

  it('takes a call that ran into its caller’s deadline for a failure', async () => {
    const clock = new VirtualClock();
    const breaker = touchy(clock);
    using limit = deadline(clock, 50);
    const late = assert.rejects(breaker.run(hang, limit), { code: 'DEADLINE' });
    await clock.advance(50);
    await late;
    assert.equal(breaker.stats.state, 'open');
  });

  it('can be told what a failure is', async () => {
    const isFailure = (error: unknown) => (error as SpillwayError).status === 429;
    const breaker = new Breaker({ rule: consecutiveFailures(1), isFailure });
    await fail(breaker, 9);
    const limited = { code: 'LIMITED', status: 429, retryable: true };
    const busy = () => Promise.reject(new SpillwayError(limited, 'busy'));
    await assert.rejects(breaker.run(busy), { code: 'LIMITED' });
    assert.equal(breaker.stats.state, 'open');
  });

  it('names the option that is wrong, and its rule', () => {
    const wrong = (options: BreakerOptions, message: RegExp) =>
      assert.throws(() => new Breaker(options), message);
    wrong({ cooldownMs: -1 }, /cooldownMs: must be a number from 0 /);
    wrong({ cooldownMs: 5, cooldownMsMax: 4 }, /cooldownMsMax: must be a number from 5 /);
    wrong({ cooldownGrowth: 0.5 }, /cooldownGrowth: must be a number from 1 /);
    wrong({ jitter: 1.1 }, /jitter: must be a number from 0 to 1, got 1.1/);
    wrong({ successesToClose: 0 }, /successesToClose: must be an integer from 1, got 0/);
    wrong({ probeMsMax: 0 }, /probeMsMax: must be a number from 1 /);
    assert.throws(() => consecutiveFailures(0), /failuresMax: must be an integer from 1, got 0/);
    const share = { share: 0, windowMs: 1, callsMin: 1 };
    assert.throws(() => failureShare(share), /share: must be a number above 0, up to 1, got 0/);
    const misspelt = { share: 0.5, windowms: 1, callsMin: 1 } as never;
    assert.throws(() => failureShare(misspelt), /windowms: is not an option; did you mean windowM/);
  });
});
