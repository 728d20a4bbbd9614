import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Backlog, type CloseOptions, type Random, Service } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { broken, forever, logged, states } from './fixtures/parts.ts';

describe('Service.close', () => {
  it('closes every part though some fail, and names those', async () => {
    const log: string[] = [];
    const parts = [
      logged('a', log),
      logged('b', log, { close: broken }),
      logged('c', log, { close: () => Promise.reject('worse') }),
      logged('d', log),
    ];
    const service = new Service({ parts });
    await service.start();
    await assert.rejects(service.close(), (error: Error & { code: string }) => {
      assert.equal(error.code, 'SERVICE_CLOSE');
      assert.equal(error.message, 'could not close everything: c failed (worse), b failed (boom)');
      assert.deepEqual((error.cause as AggregateError).errors, ['worse', new Error('boom')]);
      return true;
    });
    assert.deepEqual(log.slice(4), ['-d', '-a']);
    assert.deepEqual(states(service), ['closed', 'failed', 'failed', 'closed']);
  });

  it('tells the parts when the time is over, goes on without them, and names them', async () => {
    const log: string[] = [];
    const clock = new VirtualClock();
    const signals: AbortSignal[] = [];
    const service = new Service({
      clock,
      closeMsMax: 1_000,
      parts: [
        logged('first', log),
        logged('stubborn', log, { close: forever }),
        logged('obedient', log, {
          close: ({ signal = assert.fail() } = {}) => {
            signals.push(signal);
            return new Promise<void>((resolve) =>
              signal.addEventListener('abort', () => resolve()),
            );
          },
        }),
      ],
    });
    await service.start();
    const closed = assert.rejects(service.close(), {
      code: 'SERVICE_CLOSE',
      message: 'could not close everything: stubborn not within 1000 ms',
    });
    await clock.advance(999);
    assert.equal(signals[0]?.aborted, false);
    assert.equal(log.includes('-first'), false);
    await clock.advance(1);
    await closed;
    assert.equal(signals[0]?.reason.code, 'DEADLINE');
    assert.equal(log.at(-1), '-first');
    assert.deepEqual(states(service), ['closed', 'closing', 'closed']);
    assert.equal(clock.pending, 0);
  });

  it('passes on what a backlog had to leave', async () => {
    const clock = new VirtualClock();
    const backlog = new Backlog<string>({ queueMax: 9, clock, consume: forever });
    const close = (options?: CloseOptions) => backlog.close(options);
    const service = new Service({ clock, closeMsMax: 100, parts: [{ name: 'backlog', close }] });
    await service.start();
    backlog.add('a');
    backlog.add('b');
    const closed = assert.rejects(service.close(), {
      code: 'SERVICE_CLOSE',
      message: /backlog failed \(2 items were left, 1 of them running\)/,
    });
    await clock.advance(100);
    await closed;
    assert.equal(clock.pending, 0);
  });

  it('cuts a start short, and waits for the part that is starting', async () => {
    const log: string[] = [];
    const clock = new VirtualClock();
    const service = new Service({
      clock,
      parts: [
        logged('a', log),
        logged('b', log, {
          start: ({ signal }) =>
            new Promise<void>((resolve) => {
              signal.addEventListener('abort', () => clock.after(50, resolve));
            }),
        }),
        logged('c', log),
      ],
    });
    const started = assert.rejects(service.start(), { name: 'AbortError' });
    await clock.advance(10);
    const closed = service.close();
    await clock.run(closed);
    await started;
    assert.deepEqual(log, ['+a', '-b', '-a']);
    assert.deepEqual(states(service), ['closed', 'closed', 'new']);
    assert.equal(clock.pending, 0);
  });

  it('does not hang on a part that never starts', async () => {
    const clock = new VirtualClock();
    const log: string[] = [];
    const parts = [logged('a', log), { name: 'b', start: forever }];
    const service = new Service({ clock, closeMsMax: 100, parts });
    const started = assert.rejects(service.start(), { name: 'AbortError' });
    await clock.advance(10);
    const closed = assert.rejects(service.close(), { message: /: b not within 100 ms/ });
    await clock.advance(100);
    await Promise.all([started, closed]);
    assert.deepEqual(log, ['+a', '-a']);
    assert.equal(clock.pending, 0);
  });

  it('prevents a start that comes later', async () => {
    const log: string[] = [];
    const service = new Service({ parts: [logged('a', log)] });
    await service.close();
    await assert.rejects(service.start(), { name: 'AbortError' });
    const other = new Service({ parts: [logged('b', log)] });
    const started = assert.rejects(other.start(), { name: 'AbortError' });
    await other.close();
    await started;
    assert.deepEqual(log, []);
    assert.equal(other.stats.state, 'closed');
  });

  it('may be called by a part, even while it starts', async () => {
    const asked: Promise<void>[] = [];
    const ask = () => asked.push(service.close());
    const start = ({ signal }: { readonly signal: AbortSignal }) => {
      signal.addEventListener('abort', ask);
      ask();
    };
    const service: Service = new Service({ parts: [{ name: 'a', start }] });
    await assert.rejects(service.start(), { name: 'AbortError' });
    assert.deepEqual(states(service), ['closed']);
    assert.equal(asked.length, 2);
    assert.ok(asked.every((closed) => closed === service.close()));
  });
});

/** Parts that take their time, fail or hang; closed at any moment. */
async function life(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const log: string[] = [];
  const behave = (mark: string, name: string) => async () => {
    const chance = random();
    await new Promise<void>((resolve) => clock.after(random() * 100, resolve));
    if (chance < 0.1) throw new Error('boom');
    if (chance < 0.2) await forever();
    log.push(`${mark}${name}`);
  };
  const parts = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, i) => {
    const name = String(i);
    return { name, start: behave('+', name), close: behave('-', name) };
  });
  const service = new Service({ clock, closeMsMax: 300, parts });
  const started = service.start().catch(() => {});
  await clock.advance(random() * 400);
  const error = await clock.run(
    service.close().then(
      () => undefined,
      (reason) => reason,
    ),
  );
  await started;

  const starts = log.filter((line) => line.startsWith('+')).map((line) => Number(line.slice(1)));
  assert.deepEqual(starts, [...starts.keys()], 'started out of order');
  const seen = service.stats.parts.map(({ state }) => state);
  assert.equal(service.stats.state, 'closed');
  assert.ok(!seen.includes('started'), 'a part was never told to close');
  const left = seen.some((state) => state === 'starting' || state === 'closing');
  if (left) assert.equal(error.code, 'SERVICE_CLOSE');
  else {
    const closes = log.filter((line) => line.startsWith('-')).map((line) => Number(line.slice(1)));
    assert.deepEqual(
      closes,
      closes.toSorted((a, b) => b - a),
      'closed out of order',
    );
  }
  await clock.advance(1_000);
  assert.equal(clock.pending, 0);
}

describe('Service under random parts', () => {
  it('starts in order, closes all that has started, and always ends', async () => {
    await explore(2_000, life);
  });
});
