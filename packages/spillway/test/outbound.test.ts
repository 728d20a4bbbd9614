import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type RequestListener } from 'node:http';
import { describe, it, type TestContext } from 'node:test';
import {
  Breaker,
  Bucket,
  consecutiveFailures,
  Gate,
  outbound,
  type Retried,
  Retry,
  SpillwayError,
} from 'spillway';
import { Listener } from 'spillway/connect';
import { VirtualClock } from 'spillway/testing';

async function serve(t: TestContext, answer: RequestListener): Promise<string> {
  const listener = new Listener(createServer(answer));
  await listener.start();
  t.after(() => listener.close({ withinMs: 0 }));
  return listener.url;
}

const quick = { backoffMs: 1, attemptsMax: 3 };

describe('outbound', () => {
  it('gives an answer, and tries a 503 again', async (t) => {
    let asked = 0;
    const url = await serve(t, (_req, res) => {
      asked += 1;
      res.writeHead(asked === 1 ? 503 : 200).end('quote');
    });
    const exchange = outbound({ retry: quick });
    const answer = await exchange.fetch(url);
    assert.deepEqual([answer.status, await answer.text(), asked], [200, 'quote', 2]);
  });

  it('rejects an address that is none, as fetch does', async () => {
    await assert.rejects(outbound().fetch('no address'), /Failed to parse URL/);
  });

  it('gives the last bad answer to the caller, as fetch does', async (t) => {
    const url = await serve(t, (_req, res) => res.writeHead(502).end('broken'));
    const exchange = outbound({ retry: quick });
    const answer = await exchange.fetch(url);
    assert.deepEqual([answer.status, await answer.text()], [502, 'broken']);
    assert.equal(exchange.stats.failures, 1);
  });

  it('tries a POST once, unless it has an idempotency key', async (t) => {
    let asked = 0;
    const url = await serve(t, (req, res) => {
      asked += 1;
      req.resume().once('end', () => res.writeHead(503).end());
    });
    const exchange = outbound({ retry: quick });
    await exchange.fetch(url, { method: 'POST', body: '{}' });
    assert.equal(asked, 1);
    const headers = { 'idempotency-key': 'order-1' };
    await exchange.fetch(url, { method: 'POST', body: '{}', headers });
    assert.equal(asked, 4);
  });

  it('keeps Retry-After, and slows the bucket down after a 429', async () => {
    const clock = new VirtualClock();
    const rate = new Bucket({ ratePerSecond: 10, queueMax: 100, clock });
    const exchange = outbound({ rate, deadlineMs: 60_000, clock });
    const begun: number[] = [];
    const call = exchange.run(async () => {
      begun.push(clock.now());
      return begun.length === 1 ? { status: 429, headers: { 'retry-after': '7' } } : 'quote';
    });
    await clock.advance(20_000);
    assert.equal(await call, 'quote');
    assert.ok((begun[1] ?? 0) - (begun[0] ?? 0) >= 7_000, begun.join());
    assert.equal(rate.stats.slowed, 1);
  });

  it('gives each attempt a time of its own, waiting for a token left out', async () => {
    const clock = new VirtualClock();
    const rate = { ratePerSecond: 0.2, queueMax: 10 };
    const exchange = outbound({ rate, attemptMs: 1_000, deadlineMs: 20_000, retry: false, clock });
    await exchange.run(async () => 'takes the first token');
    const waits = exchange.run(async () => 'after five seconds');
    await clock.advance(5_000);
    assert.equal(await waits, 'after five seconds');
    const hangs = assert.rejects(
      exchange.run(() => new Promise(() => {})),
      { code: 'DEADLINE' },
    );
    await clock.advance(6_000);
    await hangs;
  });

  it('ends all attempts at the deadline, and at once when the caller leaves', async () => {
    const clock = new VirtualClock();
    const exchange = outbound({ attemptMs: 1_000, deadlineMs: 2_500, clock });
    const late = assert.rejects(
      exchange.run(() => new Promise(() => {})),
      { code: 'DEADLINE' },
    );
    await clock.advance(2_500);
    await late;
    const caller = new AbortController();
    const left = exchange.run(() => new Promise(() => {}), { signal: caller.signal });
    caller.abort(new Error('gone'));
    await assert.rejects(left, { message: 'gone' });
  });

  it('lets go of the connection of a bad answer that a fallback stands for', async (t) => {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const url = await serve(t, (_req, res) => {
      res.on('close', resolve).writeHead(503).write('an answer without an end');
    });
    const exchange = outbound({ retry: false, fallback: () => 'of yesterday' });
    assert.equal(await exchange.fetch(url), 'of yesterday');
    await closed;
  });

  it('leaves the bad answer to a fallback that gives it on', async (t) => {
    const url = await serve(t, (_req, res) => res.writeHead(503).end('down'));
    const fallback = (failure: unknown) => new Response((failure as Response).body);
    const answer = await outbound({ retry: false, fallback }).fetch(url);
    assert.equal(await answer.text(), 'down');
  });

  it('gives the value of a task that gives no promise', async () => {
    assert.equal(await outbound().run((() => 5) as never), 5);
  });

  it('opens its breaker after failures, and answers by the fallback', async () => {
    const breaker = new Breaker({ rule: consecutiveFailures(2) });
    const failures: unknown[] = [];
    const fallback = (failure: unknown) => {
      failures.push(failure);
      return 'of yesterday';
    };
    const exchange = outbound({ breaker, retry: false, fallback });
    const fails = async () => {
      throw new Error('down');
    };
    for (let n = 0; n < 3; n += 1) assert.equal(await exchange.run(fails), 'of yesterday');
    assert.equal((failures[2] as SpillwayError).code, 'BREAKER_OPEN');
    const aborted = { signal: AbortSignal.abort(new Error('gone')) };
    await assert.rejects(exchange.run(fails, aborted), { message: 'gone' });
  });

  it('tells its caller of an abort at once, though a fallback is under way', async () => {
    const caller = new AbortController();
    const fallback = () => {
      caller.abort(new Error('gone'));
      return new Promise<string>((resolve) => setImmediate(resolve, 'too late'));
    };
    const exchange = outbound({ retry: false, fallback });
    const left = exchange.run(() => Promise.reject(new Error('down')), { signal: caller.signal });
    await assert.rejects(left, { message: 'gone' });
  });

  it('goes on after a stall in which all calls fail at once, unlike an outage', async () => {
    const clock = new VirtualClock();
    const exchange = outbound({ retry: false, attemptMs: 100, deadlineMs: 1_000, clock });
    const answered = async () => 'answered';
    const silent = () => new Promise<never>(() => {});
    const stall = async () => {
      const calls = Array.from({ length: 30 }, () => exchange.run(silent));
      const ended = Promise.allSettled(calls);
      await clock.advance(100);
      await ended;
    };
    for (let n = 0; n < 50; n += 1) await exchange.run(answered);
    await stall();
    assert.equal(await exchange.run(answered), 'answered');
    await stall();
    await assert.rejects(exchange.run(answered), { code: 'BREAKER_OPEN' });
  });

  it('judges results of any kind by isFailure', async () => {
    let tries = 0;
    const isFailure = (result: unknown) => result === 'pending';
    const exchange = outbound({ isFailure, retry: quick });
    const task = async () => {
      tries += 1;
      return tries < 3 ? 'pending' : 'done';
    };
    assert.equal(await exchange.run(task), 'done');
    assert.equal(exchange.stats.failures, 0);
  });

  it('does not slow its bucket down for a refusal of a part of ours', async () => {
    const rate = new Bucket({ ratePerSecond: 1_000, queueMax: 0 });
    const exchange = outbound({ rate, retry: false });
    const refused = exchange.run(async () => {
      throw new SpillwayError('BUCKET_FULL', 'of another bucket');
    });
    await assert.rejects(refused, { code: 'BUCKET_FULL' });
    assert.equal(rate.stats.ratePerSecond, 1_000);
  });

  it('holds one permit of its lane for all attempts of a call', async () => {
    const lane = new Gate({ limit: 1, queueMax: 0 });
    const exchange = outbound({ lane, retry: quick });
    let tries = 0;
    await exchange.run(async () => {
      tries += 1;
      assert.equal(lane.stats.inside, 1);
      return { status: tries < 3 ? 503 : 200 };
    });
    assert.deepEqual([tries, lane.stats.inside], [3, 0]);
  });

  it('refuses options that it does not know', () => {
    assert.throws(() => outbound({ retries: 5 } as object), /retries: is not an option/);
  });
});

describe('Retry', () => {
  async function waitsOf(backoff: 'constant' | 'linear' | 'exponential' | 'decorrelated') {
    const clock = new VirtualClock();
    const waits: number[] = [];
    const retry = new Retry({
      backoff,
      backoffMs: 100,
      backoffMsMax: 1_000,
      attemptsMax: 6,
      onRetry: ({ waitMs }) => waits.push(waitMs),
      clock,
      random: () => 0.5,
    });
    const task = async () => {
      throw new SpillwayError('STORE_UNREACHABLE', 'not now');
    };
    const failed = assert.rejects(retry.run(task), { code: 'STORE_UNREACHABLE' });
    await clock.advance(100_000);
    await failed;
    return waits;
  }

  it('waits by the backoff that was chosen, never longer than its maximum', async () => {
    assert.deepEqual(await waitsOf('constant'), [100, 100, 100, 100, 100]);
    assert.deepEqual(await waitsOf('linear'), [100, 200, 300, 400, 500]);
    assert.deepEqual(await waitsOf('exponential'), [50, 100, 200, 400, 500]);
    assert.deepEqual(await waitsOf('decorrelated'), [100, 200, 350, 575, 912.5]);
  });

  it('tells a hook and the diagnostics channel; a hook that throws breaks nothing', async (t) => {
    const warnings = t.mock.method(process, 'emitWarning', () => {});
    const seen: unknown[] = [];
    const listen = (message: unknown) => seen.push(message);
    subscribe('spillway:retried', listen);
    t.after(() => unsubscribe('spillway:retried', listen));
    const onRetry = ({ attempts }: Retried) => {
      throw new Error(`hook ${attempts}`);
    };
    const retry = new Retry({ ...quick, onRetry });
    let tries = 0;
    await retry.run(async () => {
      tries += 1;
      if (tries < 3) throw new SpillwayError('STORE_UNREACHABLE', 'not now');
    });
    assert.equal(warnings.mock.callCount(), 2);
    assert.deepEqual(
      seen.map((message) => (message as Retried).attempts),
      [1, 2],
    );
  });
});

describe('Breaker', () => {
  it('tells once when it opens and when it closes', async () => {
    const clock = new VirtualClock();
    const told: unknown[] = [];
    const breaker = new Breaker({
      rule: consecutiveFailures(1),
      successesToClose: 1,
      onOpen: (error) => told.push((error as Error).message),
      onClose: () => told.push('closed'),
      clock,
    });
    const fail = () =>
      breaker.run(async () => {
        throw new Error('down');
      });
    await assert.rejects(fail());
    await clock.advance(10_000);
    await assert.rejects(fail(), { message: 'down' });
    assert.deepEqual(told, ['down'], 'a failed probe is no news');
    await clock.advance(60_000);
    await breaker.run(async () => {});
    assert.deepEqual(told, ['down', 'closed']);
  });

  it('can be held open and held closed by hand, and tells of what it refuses', async (t) => {
    const told: unknown[] = [];
    const listen = (message: unknown) => told.push(message);
    subscribe('spillway:refused', listen);
    t.after(() => unsubscribe('spillway:refused', listen));
    const breaker = new Breaker({ rule: consecutiveFailures(1) });
    {
      using _held = breaker.hold('open');
      await assert.rejects(
        breaker.run(async () => {}),
        { code: 'BREAKER_OPEN', message: 'held open by hand' },
      );
      assert.equal((told[0] as { part: unknown }).part, breaker);
    }
    {
      using _off = breaker.hold('closed');
      const fail = async () => {
        throw new Error('down');
      };
      await assert.rejects(breaker.run(fail), { message: 'down' });
      await assert.rejects(breaker.run(fail), { message: 'down' });
    }
    assert.equal(await breaker.run(async () => 'by itself again'), 'by itself again');
  });

  it('stays held when an older hold is given up twice', () => {
    const breaker = new Breaker();
    const older = breaker.hold('open');
    older[Symbol.dispose]();
    using _newer = breaker.hold('closed');
    older[Symbol.dispose]();
    assert.equal(breaker.stats.held, true);
  });
});
