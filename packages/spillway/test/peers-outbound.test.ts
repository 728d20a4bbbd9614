// Behaviours that the test suites of cockatiel and opossum assert; the table with those that are
// refused is docs/decisions/peers-behaviours.md.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, it } from 'node:test';
import {
  Breaker,
  type BreakerOptions,
  consecutiveFailures,
  deadline,
  failureShare,
  Gate,
  outbound,
  Retry,
  SpillwayError,
  stack,
} from 'spillway';
import { VirtualClock } from 'spillway/testing';

const down = new SpillwayError({ code: 'DOWN', status: 503, retryable: true }, 'down');
const fails = async (): Promise<never> => {
  throw down;
};
const works = async (): Promise<string> => 'fine';
const hangs = (): Promise<never> => new Promise(() => {});

function breakerOf(clock: VirtualClock, options: BreakerOptions = {}): Breaker {
  const rule = consecutiveFailures(2);
  return new Breaker({
    clock,
    rule,
    cooldownMs: 1_000,
    jitter: 0,
    successesToClose: 1,
    ...options,
  });
}

async function open(breaker: Breaker): Promise<void> {
  for (let i = 0; i < 2; i += 1) await breaker.run(fails).catch(() => {});
  assert.equal(breaker.stats.state, 'open');
}

describe('cockatiel', () => {
  it('retries until it works, and gives the result', async () => {
    const clock = new VirtualClock();
    let attempts = 0;
    const task = async (): Promise<string> => {
      attempts += 1;
      return attempts < 3 ? await fails() : 'fine';
    };
    assert.equal(await clock.run(new Retry({ clock }).run(task)), 'fine');
  });

  it('gives the last error when no attempt is left', async () => {
    const clock = new VirtualClock();
    const retry = new Retry({ attemptsMax: 2, clock });
    await assert.rejects(clock.run(retry.run(fails)), (error) => error === down);
    assert.deepEqual(retry.stats, { kind: 'retry', calls: 1, retries: 1, failures: 1 });
  });

  it('retries only the errors that its rule accepts', async () => {
    const clock = new VirtualClock();
    let attempts = 0;
    const isRetryable = (error: unknown): boolean => error !== down;
    const retry = new Retry({ isRetryable, clock });
    const task = (): Promise<never> => {
      attempts += 1;
      return fails();
    };
    await assert.rejects(clock.run(retry.run(task)));
    assert.equal(attempts, 1);
  });

  it('waits constantly, linearly, exponentially or decorrelated', async () => {
    const kinds = { constant: [10, 10, 10], linear: [10, 20, 30], exponential: [10, 20, 40] };
    for (const [backoff, expected] of Object.entries(kinds)) {
      const clock = new VirtualClock();
      const waits: number[] = [];
      const retry = new Retry({
        attemptsMax: 4,
        backoff: backoff as keyof typeof kinds,
        backoffMs: 10,
        onRetry: ({ waitMs }) => waits.push(waitMs),
        random: () => 1 - Number.EPSILON,
        clock,
      });
      await clock.run(retry.run(fails)).catch(() => {});
      assert.deepEqual(waits.map(Math.round), expected, backoff);
    }
  });

  it('retries a result that is a failure', async () => {
    const clock = new VirtualClock();
    let answers = 0;
    const call = outbound({ clock, isFailure: (result) => result === 'not yet' });
    const task = async (): Promise<string> => {
      answers += 1;
      return answers === 1 ? 'not yet' : 'ready';
    };
    assert.equal(await clock.run(call.run(task)), 'ready');
  });

  it('falls back to another answer', async () => {
    const clock = new VirtualClock();
    const call = outbound({ clock, retry: false, fallback: (failure) => ({ instead: failure }) });
    assert.deepEqual(await clock.run(call.run(fails)), { instead: down });
  });

  it('rejects at once at a timeout, even if the task ignores its signal', async () => {
    const clock = new VirtualClock();
    const call = outbound({ clock, retry: false, breaker: false, deadlineMs: 50 });
    await assert.rejects(clock.run(call.run(hangs)), { code: 'DEADLINE' });
    assert.equal(clock.now(), 50);
  });

  it('passes the signal of a timeout to the task', async () => {
    const clock = new VirtualClock();
    using limit = deadline(clock, 50);
    let reason: unknown;
    const task = (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          reason = signal.reason;
          resolve();
        });
      });
    const call = new Retry({ clock }).run(task, { signal: limit.signal });
    await assert.rejects(clock.run(call), { code: 'DEADLINE' });
    assert.equal(reason, limit.signal.reason);
  });

  it('opens after failures in a row, or by their share', async () => {
    const clock = new VirtualClock();
    await open(breakerOf(clock));
    const rule = failureShare({ share: 0.5, callsMin: 4, windowMs: 10_000 });
    const breaker = breakerOf(clock, { rule });
    for (const task of [works, works, fails, fails]) await breaker.run(task).catch(() => {});
    assert.equal(breaker.stats.state, 'open');
  });

  it('rejects a waiter that aborts at once, and not when its turn comes', async () => {
    const gate = new Gate({ limit: 1, queueMax: 9 });
    using _inside = await gate.enter();
    const abort = new AbortController();
    const call = gate.run(works, { signal: abort.signal });
    abort.abort(new Error('gone'));
    await assert.rejects(call, /gone/);
  });

  it('wraps policies around each other, outermost first', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    const call = stack(new Gate({ limit: 1, queueMax: 0 }), new Retry({ clock }), breaker);
    assert.equal(await call(works), 'fine');
    assert.equal(breaker.stats.calls, 1);
  });

  it('can be switched off or held open by hand', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    const isolated = breaker.hold('open');
    await assert.rejects(breaker.run(works), { code: 'BREAKER_OPEN' });
    isolated[Symbol.dispose]();
    assert.equal(await breaker.run(works), 'fine');
  });
});

describe('opossum', () => {
  it('refuses while it is open, and says for how long', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    await open(breaker);
    await assert.rejects(breaker.run(works), { code: 'BREAKER_OPEN', retryAfterMs: 1_000 });
    assert.equal(breaker.stats.refused, 1);
  });

  it('lets exactly one caller probe when it is half open', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    await open(breaker);
    await clock.advance(1_000);
    const probe = Promise.withResolvers<void>();
    const probing = breaker.run(() => probe.promise);
    await assert.rejects(breaker.run(works), { code: 'BREAKER_OPEN' });
    probe.resolve();
    await probing;
    assert.equal(breaker.stats.state, 'closed');
  });

  it('opens again when the probe fails', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    await open(breaker);
    await clock.advance(1_000);
    await breaker.run(fails).catch(() => {});
    assert.equal(breaker.stats.state, 'open');
  });

  it('does not count errors that are filtered out', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock, { isFailure: (error) => error !== down });
    for (let i = 0; i < 5; i += 1) await breaker.run(fails).catch(() => {});
    assert.equal(breaker.stats.state, 'closed');
  });

  it('counts a call that is too slow as a failure', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    for (let i = 0; i < 2; i += 1) {
      using limit = deadline(clock, 10);
      await clock.run(breaker.run(hangs, { signal: limit.signal })).catch(() => {});
    }
    assert.equal(breaker.stats.state, 'open');
  });

  it('reports openings, closings and refusals by hooks and events', async () => {
    const clock = new VirtualClock();
    const said: string[] = [];
    const hear = (_message: unknown, name: string | symbol): void => void said.push(String(name));
    const names = ['spillway:opened', 'spillway:refused', 'spillway:closed'];
    for (const name of names) subscribe(name, hear);
    const onOpen = (): void => void said.push('onOpen');
    const onClose = (): void => void said.push('onClose');
    const breaker = breakerOf(clock, { onOpen, onClose });
    await open(breaker);
    await breaker.run(works).catch(() => {});
    await clock.advance(1_000);
    await breaker.run(works);
    for (const name of names) unsubscribe(name, hear);
    assert.deepEqual(
      new Set(said),
      new Set(['onOpen', 'spillway:opened', 'spillway:refused', 'onClose', 'spillway:closed']),
    );
  });

  it('answers by a fallback while it is open', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    await open(breaker);
    const call = outbound({ clock, breaker, retry: false, fallback: () => 'from the cache' });
    assert.equal(await clock.run(call.run(works)), 'from the cache');
  });

  it('reports calls, failures, times and the last failure', async () => {
    const clock = new VirtualClock();
    const breaker = breakerOf(clock);
    await breaker.run(works);
    await breaker.run(fails).catch(() => {});
    const { calls, failures, lastFailure } = breaker.stats;
    assert.deepEqual([calls, failures, lastFailure?.message], [2, 1, 'down']);
  });
});
