import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Part, Service } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { broken, logged, states } from './fixtures/parts.ts';

describe('Service', () => {
  it('starts its parts in order, one after the other, and stops them in reverse', async () => {
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
      state: 'ready',
      parts: [
        { name: 'slow', state: 'started', startMs: 50 },
        { name: 'passive', state: 'started', startMs: 0 },
        { name: 'quick', state: 'started', startMs: 10 },
      ],
    });
    const stopped = service.stop();
    assert.equal(service.stats.state, 'stopping');
    assert.equal(service.stop(), stopped);
    await stopped;
    await service[Symbol.asyncDispose]();
    assert.deepEqual(log, ['+slow', '+quick', '-quick', '-slow']);
    assert.equal(service.stats.state, 'stopped');
    assert.deepEqual(states(service), ['stopped', 'stopped', 'stopped']);
    assert.equal(clock.pending, 0);
  });

  it('is ready only between start and stop, and only while every part is', async () => {
    let healthy = false;
    const service = new Service({
      parts: [{ name: 'pool', ready: () => healthy }, { name: 'api' }],
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
    const stopped = service.stop();
    assert.equal(service.ready, false);
    await stopped;
    assert.equal(service.ready, false);
  });

  it('disposes what a part opened, unless the part stops itself', async () => {
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
        { name: 'own', start: () => open('own'), stop: () => log.push('by itself') },
      ],
    });
    await service.start();
    await service.stop();
    assert.deepEqual(log, ['by itself', 'pool', 'plain']);
  });

  it('stops what has started when a later part fails to start, and names that part', async () => {
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
    assert.deepEqual(states(service), ['stopped', 'stopped', 'failed', 'new']);
    assert.equal(service.stats.state, 'stopped');
    await service.stop();
  });

  it('says so when what has started cannot be stopped after a failed start', async () => {
    const parts = [
      { name: 'a', stop: broken },
      { name: 'b', start: broken },
    ];
    const service = new Service({ parts });
    await assert.rejects(service.start(), {
      code: 'SERVICE_START',
      message: 'part "b" failed to start: boom; then could not stop everything: a failed (boom)',
    });
    await assert.rejects(service.stop(), { code: 'SERVICE_STOP' });
  });

  it('refuses parts without a name of their own, and limits that are none', () => {
    const make = (parts: Part[], stopMsMax?: number) => () => new Service({ parts, stopMsMax });
    const twins = [{ name: 'a' }, { name: 'a' }];
    assert.throws(make(twins), /parts: must be named, each differently/);
    assert.throws(make([{ name: '' }]), /parts: must be named, each differently/);
    assert.throws(make(undefined as never), /parts: must be an array, got undefined/);
    assert.throws(make([], Number.NaN), /stopMsMax: must be a number from 0, got NaN/);
  });
});
