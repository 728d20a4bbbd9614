import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type CloseOptions, type Part, Service } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { broken, logged, states } from './fixtures/parts.ts';

describe('Service', () => {
  it('starts its parts in order, one after the other, and closes them in reverse', async () => {
    const log: string[] = [];
    const clock = new VirtualClock();
    const start = (ms: number, name: string) => () =>
      new Promise<void>((resolve) => {
        clock.after(ms, () => {
          log.push(`+${name}`);
          resolve();
        });
      });
    const service = new Service({
      clock,
      parts: [
        logged('slow', log, { start: start(50, 'slow') }),
        { name: 'passive' },
        logged('quick', log, { start: start(10, 'quick') }),
      ],
    });
    assert.equal(service.stats.state, 'new');
    const started = service.start();
    assert.equal(service.start(), started);
    assert.equal(service.stats.state, 'starting');
    await clock.run(started);
    assert.deepEqual(service.stats, {
      kind: 'service',
      state: 'ready',
      parts: [
        { name: 'slow', state: 'started', startMs: 50 },
        { name: 'passive', state: 'started', startMs: 0 },
        { name: 'quick', state: 'started', startMs: 10 },
      ],
    });
    const closed = service.close();
    assert.equal(service.stats.state, 'closing');
    assert.equal(service.close(), closed);
    await closed;
    await service[Symbol.asyncDispose]();
    assert.deepEqual(log, ['+slow', '+quick', '-quick', '-slow']);
    assert.equal(service.stats.state, 'closed');
    assert.deepEqual(states(service), ['closed', 'closed', 'closed']);
    assert.equal(clock.pending, 0);
  });

  it('is ready only between start and close, and only while every part is', async () => {
    let healthy = false;
    const service = new Service({
      parts: [
        {
          name: 'pool',
          get ready() {
            return healthy;
          },
        },
        { name: 'api' },
      ],
    });
    assert.equal(service.ready, false);
    const started = service.start();
    assert.equal(service.ready, false);
    await started;
    assert.equal(service.ready, false);
    assert.deepEqual(service.unready, ['pool']);
    healthy = true;
    assert.equal(service.ready, true);
    assert.deepEqual(service.unready, []);
    const closed = service.close();
    assert.equal(service.ready, false);
    await closed;
    assert.equal(service.ready, false);
  });

  it('disposes what a part opened, unless the part closes itself', async () => {
    const log: string[] = [];
    const open = (name: string) => ({
      [Symbol.asyncDispose]: async () => {
        log.push(name);
      },
    });
    const plain = { [Symbol.dispose]: () => log.push('plain') };
    await using service = new Service({
      parts: [
        { name: 'address', start: async () => 'http://localhost' },
        { name: 'plain', start: () => plain },
        { name: 'pool', start: async () => open('pool') },
        { name: 'own', start: () => open('own'), close: async () => void log.push('by itself') },
      ],
    });
    await service.start();
    await service.close();
    assert.deepEqual(log, ['by itself', 'pool', 'plain']);
  });

  it('takes parts that are open already as they are, and closes them in any case', async () => {
    const log: string[] = [];
    const open = (name: string) => ({
      name,
      ready: true,
      close: async ({ withinMs }: CloseOptions = {}) => void log.push(`-${name} ${withinMs}`),
    });
    const clock = new VirtualClock();
    const disposable = { name: 'c', [Symbol.asyncDispose]: async () => void log.push('-c') };
    const b = open('b');
    const parts = [open('a'), b, disposable];
    const service = new Service({ parts, closeMsMax: 70, clock });
    await service.start();
    assert.equal(service.ready, true);
    b.ready = false;
    assert.deepEqual(service.unready, ['b']);
    await service.close();
    assert.deepEqual(log, ['-c', '-b 70', '-a 70']);
    log.length = 0;
    const failing = new Service({ parts: [{ name: 'x', start: broken }, open('y')], clock });
    await assert.rejects(failing.start(), { code: 'SERVICE_START' });
    assert.deepEqual(log, ['-y 8000']);
    const never = new Service({ parts: [open('z')], clock });
    await never.close({ withinMs: 5 });
    assert.equal(log.at(-1), '-z 5');
  });

  it('asks a part that another opened whether it is ready, and closes it', async () => {
    const closed: unknown[] = [];
    const inner = {
      name: 'inner',
      ready: false,
      close: async (options?: CloseOptions) => void closed.push(options?.withinMs),
    };
    const clock = new VirtualClock();
    const service = new Service({ clock, parts: [{ name: 'outer', start: async () => inner }] });
    await service.start();
    assert.deepEqual(service.unready, ['outer']);
    inner.ready = true;
    assert.equal(service.ready, true);
    await service.close();
    assert.deepEqual(closed, [8_000]);
  });

  it('can be a part of another service', async () => {
    const log: string[] = [];
    const inner = new Service({ name: 'inner', parts: [logged('a', log), logged('b', log)] });
    const outer = new Service({ parts: [inner, logged('c', log)] });
    await outer.start();
    assert.equal(outer.ready, true);
    await outer.close();
    assert.deepEqual(log, ['+a', '+b', '+c', '-c', '-b', '-a']);
  });

  it('closes what has started when a later part fails to start, and names that part', async () => {
    const log: string[] = [];
    const cause = new Error('port taken');
    const service = new Service({
      parts: [
        logged('a', log),
        logged('b', log),
        logged('c', log, { start: () => Promise.reject(cause) }),
        logged('d', log),
      ],
    });
    await assert.rejects(service.start(), {
      code: 'SERVICE_START',
      message: 'part "c" failed to start: port taken',
      cause,
    });
    assert.deepEqual(log, ['+a', '+b', '-b', '-a']);
    assert.deepEqual(states(service), ['closed', 'closed', 'failed', 'new']);
    assert.equal(service.stats.state, 'closed');
    await service.close();
  });

  it('says so when what has started cannot be closed after a failed start', async () => {
    const parts = [
      { name: 'a', close: broken },
      { name: 'b', start: broken },
    ];
    const service = new Service({ parts });
    await assert.rejects(service.start(), {
      code: 'SERVICE_START',
      message: 'part "b" failed to start: boom; then could not close everything: a failed (boom)',
    });
    await assert.rejects(service.close(), { code: 'SERVICE_CLOSE' });
  });

  it('refuses parts without a name of their own, and limits that are none', () => {
    const make = (parts: Part[], closeMsMax?: number) => () => new Service({ parts, closeMsMax });
    const twins = [{ name: 'a' }, { name: 'a' }];
    assert.throws(make(twins), /parts: must be named, each differently/);
    assert.throws(make([{ name: '' }]), /parts: must be named, each differently/);
    assert.throws(make(undefined as never), /parts: must be an array, got undefined/);
    assert.throws(make([], Number.NaN), /closeMsMax: must be a number from 0, got NaN/);
    const method = { name: 'a', ready: () => true } as unknown as Part;
    assert.throws(make([method]), /parts: must be asked by a property `ready`/);
  });
});
