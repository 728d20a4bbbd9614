import assert from 'node:assert/strict';
import { it } from 'node:test';
import * as spillway from 'spillway';

const store = new spillway.MemoryStore();
const lane = { name: 'x', limit: 1, queueMax: 1, deadlineMs: 10 };
const bucket = { ratePerSecond: 1, queueMax: 1 };
const shared = { name: 'x', ...bucket };
const consume = async () => {};

/** The maker of a part, options that it must refuse, and the start of its message. */
const wrong: readonly (readonly [string, unknown, string])[] = [
  ['Lane', { ...lane, clock: 5 }, 'Lane: clock: must be a Clock, with now() and after(), got 5'],
  ['Lane', { ...lane, clock: {} }, 'Lane: clock: must be a Clock'],
  ['Lane', { ...lane, codel: 5 }, 'Lane: codel: must be an object, got 5'],
  ['Lane', { ...lane, parent: {} }, 'Lane: parent: must be a Lane, got {}'],
  ['Bucket', { ...bucket, clock: 5 }, 'Bucket: clock: must be a Clock'],
  ['Bucket', undefined, 'Bucket: options: must be an object, got undefined'],
  ['Breaker', null, 'Breaker: options: must be an object, got null'],
  ['Breaker', { clock: { now: () => 0 } }, 'Breaker: clock: must be a Clock'],
  ['Breaker', { rule: 5 }, 'Breaker: rule: must be a rule, with start() and breaks(), got 5'],
  ['Breaker', { random: 5 }, 'Breaker: random: must be a function, got 5'],
  ['Retry', null, 'Retry: options: must be an object, got null'],
  ['Retry', { budget: {} }, 'Retry: budget: must be a RetryBudget, got {}'],
  ['Retry', { clock: 5 }, 'Retry: clock: must be a Clock'],
  ['SharedBucket', undefined, 'SharedBucket: options: must be an object, got undefined'],
  ['SharedBucket', { ...shared, store: {} }, 'SharedBucket: store: must be a Store, with read()'],
  ['SharedBreaker', { name: 'x', store: 5 }, 'SharedBreaker: store: must be a Store, with read()'],
  ['SharedBreaker', null, 'SharedBreaker: options: must be an object, got null'],
  ['Backlog', undefined, 'Backlog: options: must be an object, got undefined'],
  ['Backlog', { queueMax: 1, consume, clock: 5 }, 'Backlog: clock: must be a Clock'],
  ['BoundedMap', undefined, 'BoundedMap: options: must be an object, got undefined'],
  ['Harvest', undefined, 'Harvest: options: must be an object, got undefined'],
  ['Harvest', { sink: 5, store }, 'Harvest: sink: must be a HarvestSink, with commit(), got 5'],
  ['Harvest', { sink: store, store: 5 }, 'Harvest: store: must be a Store'],
  [
    'Harvest',
    { sink: store, store, bucket: 5 },
    'Harvest: bucket: must be a bucket, with take() and slow()',
  ],
  ['Outbound', { rate: '10' }, 'outbound: rate: must be a number above 0, up to 1000000, a bucket'],
  ['Outbound', { rate: null }, 'outbound: rate: must be a number above 0'],
  ['Outbound', { rate: true }, 'outbound: rate: must be a number above 0'],
  ['Outbound', { rate: 0 }, 'outbound: rate: must be a number above 0'],
  ['Outbound', { breaker: true }, 'outbound: breaker: must be a Breaker, the options of one, or'],
  [
    'Outbound',
    { retry: 3 },
    'outbound: retry: must be a Retry, the options of one, or false, got 3',
  ],
  ['Outbound', { lane: 5 }, 'outbound: lane: must be a runner, with run(), got 5'],
];

for (const [name, options, message] of wrong) {
  it(`${name} refuses wrong options: ${message}`, () => {
    const parts = { ...spillway, Outbound: spillway.outbound } as unknown as Record<string, never>;
    const make: unknown = parts[name];
    const open = () =>
      name === 'Outbound'
        ? (make as (given: unknown) => unknown)(options)
        : new (make as new (given: unknown) => unknown)(options);
    assert.throws(open, (error: Error) => {
      assert.equal(error.message.slice(0, message.length), message);
      return true;
    });
  });
}

it('stack and Lease refuse what they cannot use', async () => {
  assert.throws(() => spillway.stack(5 as never), /stack: runner: must be a runner.*got 5/);
  assert.throws(() => spillway.stack(null as never), /stack: runner: must be a runner.*got null/);
  const acquired = spillway.Lease.acquire({ store: {} as never, name: 'x', ttlMs: 1_000 });
  await assert.rejects(acquired, /Lease: store: must be a Store/);
});
