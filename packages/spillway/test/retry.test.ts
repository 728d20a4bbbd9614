import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  Breaker,
  Bucket,
  deadline,
  Retry,
  RetryBudget,
  type RetryOptions,
  SpillwayError,
  seededRandom,
  type Task,
} from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';

function answer(fields: object): Error {
  return Object.assign(new Error('refused'), fields);
}

const busy = answer({ status: 503 });

/** Fails with each of the errors in turn, then gives the times of all its attempts. */
function failing(clock: VirtualClock, errors: unknown[]): Task<number[]> {
  const attempts: number[] = [];
  return async () => {
    attempts.push(clock.now());
    if (attempts.length <= errors.length) throw errors[attempts.length - 1];
    return attempts;
  };
}

function retry<T>(
  task: Task<T>,
  { signal, ...options }: RetryOptions & { signal?: AbortSignal } = {},
): Promise<T> {
  return new Retry(options).run(task, { signal });
}

describe('Retry', () => {
  it('waits a random share of a time that doubles, up to its maximum', async () => {
    const clock = new VirtualClock();
    const options = { attemptsMax: 6, backoffMs: 100, backoffMsMax: 500, clock };
    const task = failing(clock, [busy, busy, busy, busy, busy]);
    const attempts = await clock.run(retry(task, { ...options, random: () => 0.5 }));
    assert.deepEqual(attempts, [0, 50, 150, 350, 600, 850]);
    assert.equal(clock.pending, 0);
  });

  it('gives up with the last error after the last attempt', async () => {
    const clock = new VirtualClock();
    const last = answer({ status: 503 });
    const task = failing(clock, [busy, busy, last, busy]);
    const patient = new Retry({ clock });
    await assert.rejects(clock.run(patient.run(task)), (error) => error === last);
    assert.equal(clock.pending, 0);
    assert.deepEqual(patient.stats, { kind: 'retry', calls: 1, retries: 2, failures: 1 });
  });

  it('waits for as long as the error asks, and its own time on top', async () => {
    const date = 'Sun, 06 Nov 1994 08:49:37 GMT';
    const later = 'Sun, 06 Nov 1994 08:49:44 GMT';
    for (const [fields, ms] of [
      [{ retryAfterMs: 2500 }, 2500],
      [{ headers: { 'retry-after': '3' } }, 3000],
      [{ headers: new Headers({ 'Retry-After': '4' }) }, 4000],
      [{ headers: new Headers({ 'Retry-After': later, date }) }, 7000],
      [{ headers: { 'retry-after': date, date: later } }, 0],
      [{ headers: { 'retry-after': later } }, 0],
      [{ headers: { 'retry-after': 'soon' } }, 0],
      [{ retryAfterMs: Number.NaN }, 0],
    ] as const) {
      const clock = new VirtualClock();
      const task = failing(clock, [answer({ status: 429, ...fields })]);
      const attempts = await clock.run(retry(task, { clock, random: () => 0.5 }));
      assert.deepEqual(attempts, [0, ms + 50]);
    }
  });

  it('passes the error on at once when it asks for too long a wait', async () => {
    const clock = new VirtualClock();
    for (const retryAfterMs of [60_001, Infinity]) {
      const task = failing(clock, [answer({ status: 503, retryAfterMs })]);
      await assert.rejects(retry(task, { clock }), { retryAfterMs });
    }
    assert.equal(clock.now(), 0);
  });

  it('gives up at once when the wait would pass the deadline', async () => {
    const clock = new VirtualClock();
    const asks = answer({ status: 503, retryAfterMs: 1000 });
    const task = failing(clock, [asks, asks]);
    const options = { clock, deadlineMs: 2000, random: () => 0 };
    await assert.rejects(clock.run(retry(task, options)), { status: 503 });
    assert.equal(clock.now(), 1000);
    assert.equal(clock.pending, 0);
  });

  it('ends an attempt that is still under way at the deadline', async () => {
    const clock = new VirtualClock();
    const hang: Task<never> = (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    await assert.rejects(clock.run(retry(hang, { clock, deadlineMs: 300 })), { code: 'DEADLINE' });
    assert.equal(clock.now(), 300);
    assert.equal(clock.pending, 0);
  });

  it('gives up at once when the wait would pass the deadline of its caller', async () => {
    const clock = new VirtualClock();
    using limit = deadline(clock, 500);
    const asks = answer({ status: 503, retryAfterMs: 1000 });
    const call = retry(failing(clock, [asks]), { clock, signal: limit.signal });
    await assert.rejects(clock.run(call), { status: 503 });
    assert.equal(clock.now(), 0);
  });

  it('stops waiting as soon as its caller leaves', async () => {
    const clock = new VirtualClock();
    const leave = new AbortController();
    clock.after(500, () => leave.abort(new Error('left')));
    const asks = answer({ status: 503, retryAfterMs: 1000 });
    const call = retry(failing(clock, [asks]), { clock, signal: leave.signal });
    await assert.rejects(clock.run(call), /left/);
    assert.equal(clock.now(), 500);
    assert.equal(clock.pending, 0);
    let called = false;
    const task = async () => {
      called = true;
    };
    await assert.rejects(retry(task, { signal: leave.signal }), /left/);
    assert.equal(called, false);
  });

  it('tries again only where that may help', async () => {
    const clock = new VirtualClock();
    const cause = answer({ code: 'ECONNRESET' });
    const yes = [
      new SpillwayError('LANE_FULL', 'busy'),
      answer({ retryable: true, status: 400 }),
      answer({ status: 429 }),
      answer({ statusCode: 502 }),
      answer({ status: 504 }),
      answer({ code: 'ECONNREFUSED' }),
      new TypeError('fetch failed', { cause }),
      new DOMException('slow', 'TimeoutError'),
    ];
    const no = [
      new SpillwayError('LANE_CLOSED', 'closed'),
      answer({ status: 400 }),
      answer({ status: 500 }),
      answer({ code: 'ENOENT' }),
      new TypeError('not a function'),
      new DOMException('stopped', 'AbortError'),
      'a string',
      undefined,
    ];
    for (const error of yes) await clock.run(retry(failing(clock, [error]), { clock }));
    for (const error of no) {
      const refused = await clock.run(
        retry(failing(clock, [error]), { clock }).catch((reason) => ({ reason })),
      );
      assert.deepEqual(refused, { reason: error });
    }
    const isRetryable = (error: unknown) => error === 'a string';
    await clock.run(retry(failing(clock, ['a string']), { clock, isRetryable }));
  });

  it('passes the bucket again for each attempt', async () => {
    const clock = new VirtualClock();
    const bucket = new Bucket({ ratePerSecond: 1, queueMax: 1, clock });
    const fetch = failing(clock, [busy, busy]);
    const attempts = await clock.run(
      retry((signal) => bucket.run(fetch, { signal }), { clock, random: () => 0.5 }),
    );
    assert.deepEqual(attempts, [0, 1000, 2000]);
    assert.equal(bucket.stats.taken, 3);
  });

  it('names the option that is wrong, and its rule', () => {
    const wrong = (options: RetryOptions, message: RegExp) =>
      assert.throws(() => new Retry(options), message);
    wrong({ attemptsMax: 0 }, /attemptsMax: must be an integer from 1, got 0/);
    wrong({ backoffMs: -1 }, /backoffMs: must be a number from 0 /);
    wrong({ backoffMs: 2, backoffMsMax: 1 }, /backoffMsMax: must be a number from 2 /);
    wrong({ retryAfterMsMax: Number.NaN }, /retryAfterMsMax: must be a number from 0, got N/);
    wrong({ deadlineMs: -1 }, /deadlineMs: must be a number from 0, got -1/);
  });
});

describe('RetryBudget', () => {
  it('lets all callers together retry a tenth of their requests', async () => {
    const clock = new VirtualClock();
    const budget = new RetryBudget({ share: 0.1, freePerSecond: 0, burst: 1, clock });
    const down = () => Promise.reject(busy);
    const calls = Array.from({ length: 1000 }, () => retry(down, { clock, budget }));
    await clock.run(Promise.allSettled(calls));
    const { requests, retries, refused, tokens } = budget.stats;
    assert.deepEqual([requests, retries + refused >= 1000], [1000, true]);
    assert.ok(retries <= 101 && tokens < 1, `${retries}`);
  });

  it('lets a quiet caller retry now and then', async () => {
    const clock = new VirtualClock();
    const budget = new RetryBudget({ share: 0, freePerSecond: 2, burst: 1, clock });
    assert.deepEqual([budget.tryRetry(), budget.tryRetry()], [true, false]);
    await clock.advance(500);
    assert.deepEqual([budget.tryRetry(), budget.tryRetry()], [true, false]);
    assert.equal(clock.pending, 0);
  });

  it('counts ten tenths as a whole', () => {
    const budget = new RetryBudget({ share: 0.1, burst: 1, clock: new VirtualClock() });
    assert.equal(budget.tryRetry(), true);
    for (let i = 0; i < 10; i += 1) budget.request();
    assert.equal(budget.tryRetry(), true);
  });

  it('names the option that is wrong, and its rule', () => {
    assert.throws(
      () => new RetryBudget({ share: 2 }),
      /share: must be a number from 0 to 1, got 2/,
    );
    assert.throws(() => new RetryBudget({ freePerSecond: -1 }), /freePerSecond: must be a number/);
    assert.throws(() => new RetryBudget({ burst: 0 }), /burst: must be an integer from 1, got 0/);
  });

  it('is never overspent in any stretch of time, whatever happens', async () => {
    await explore(1000, async (random) => {
      const clock = new VirtualClock();
      const share = random();
      const freePerSecond = random() < 0.5 ? 0 : random() * 5;
      const burst = 1 + Math.floor(random() * 5);
      const budget = new RetryBudget({ share, freePerSecond, burst, clock });
      const events: { at: number; requests: number; retries: number }[] = [];
      const note = () => {
        const { requests, retries } = budget.stats;
        events.push({ at: clock.now(), requests, retries });
      };
      note();
      const callers: Promise<void>[] = [];
      for (let i = 0; i < 30; i += 1) {
        const leave = new AbortController();
        if (random() < 0.2) clock.after(random() * 500, () => leave.abort());
        const { signal } = leave;
        const task = async () => {
          note();
          if (random() < 0.8) throw busy;
        };
        callers.push(retry(task, { attemptsMax: 4, budget, clock, random, signal }));
        if (random() < 0.5) await clock.advance(random() * 200);
      }
      await clock.run(Promise.allSettled(callers));
      note();
      for (const [i, from] of events.entries()) {
        for (const to of events.slice(i)) {
          const free = (freePerSecond * (to.at - from.at)) / 1000;
          const most = share * (to.requests - from.requests) + free + burst;
          assert.ok(to.retries - from.retries <= most + 1e-6);
        }
      }
      await clock.advance(1000);
      assert.equal(clock.pending, 0);
    });
  });
});

describe('retry, breaker and bucket together', () => {
  it('come through an outage with few calls, and all callers served in the end', async () => {
    const clock = new VirtualClock();
    const random = seededRandom(7);
    const budget = new RetryBudget({ share: 1, burst: 100, clock });
    const retry = new Retry({ attemptsMax: 10, budget, clock, random });
    const breaker = new Breaker({ cooldownMs: 2000, clock, random });
    const bucket = new Bucket({ ratePerSecond: 20, queueMax: 45, clock });
    const calls: { at: number; ok: boolean }[] = [];
    const isDown = () => clock.now() > 5_000 && clock.now() < 20_000;
    const fetch: Task<void> = async () => {
      const ok = !isDown();
      calls.push({ at: clock.now(), ok });
      await new Promise<void>((resolve) => clock.after(100, resolve));
      if (!ok) throw busy;
    };
    const guarded: Task<void> = (signal) =>
      breaker.run((inner) => bucket.run(fetch, { signal: inner }), { signal });
    const callers = Array.from({ length: 10 }, async () => {
      for (let page = 0; page < 40; page += 1) await retry.run(guarded);
    });
    await clock.run(Promise.all(callers));
    const failed = calls.filter(({ ok }) => !ok).length;
    assert.equal(calls.length - failed, 400);
    assert.ok(failed < 20, `${failed} calls to one that was down`);
    assert.equal(breaker.stats.state, 'closed');
    assert.equal(clock.pending, 0);
  });
});
