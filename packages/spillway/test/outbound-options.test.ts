import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  Breaker,
  Bucket,
  Lease,
  MemoryStore,
  Retry,
  RetryBudget,
  Service,
  SharedBreaker,
  SharedBucket,
} from 'spillway';

const store = new MemoryStore();
const shared = { store, name: 'shared' };
const rate = { ratePerSecond: 100, queueMax: 10 };

/** Each part with options that are right, and one of them as a string. */
const parts: readonly {
  readonly name: string;
  readonly make: (options: never) => unknown;
  readonly right: object;
  readonly wrong: object;
}[] = [
  { name: 'Bucket', make: (o) => new Bucket(o), right: rate, wrong: { ratePerSecond: '5' } },
  { name: 'Breaker', make: (o) => new Breaker(o), right: {}, wrong: { cooldownMs: '5' } },
  { name: 'Retry', make: (o) => new Retry(o), right: {}, wrong: { attemptsMax: '5' } },
  { name: 'RetryBudget', make: (o) => new RetryBudget(o), right: {}, wrong: { burst: '5' } },
  {
    name: 'SharedBucket',
    make: (o) => new SharedBucket(o),
    right: { ...shared, ...rate },
    wrong: { ratePerSecond: '5' },
  },
  {
    name: 'SharedBreaker',
    make: (o) => new SharedBreaker(o),
    right: shared,
    wrong: { deadlineMs: '50' },
  },
  {
    name: 'Lease',
    make: (o) => Lease.acquire(o),
    right: { ...shared, ttlMs: 1_000 },
    wrong: { ttlMs: '1000' },
  },
];

describe('parts that call others', () => {
  for (const { name, make, right, wrong } of parts) {
    const attempt = async (options: object) => make(options as never);

    it(`refuse an option that ${name} does not have`, async () => {
      const message = new RegExp(`^${name}: retries: is not an option`);
      await assert.rejects(attempt({ ...right, retries: 3 }), { message });
    });

    it(`take no number of ${name} from a string`, async () => {
      const message = new RegExp(
        `^${name}: \\w+: must be a.* number|^${name}: \\w+: must be an integer`,
      );
      await assert.rejects(attempt({ ...right, ...wrong }), { name: 'AssertionError', message });
    });
  }

  it('are parts of a service as they are, if they live', async () => {
    const bucket = new SharedBucket({ ...shared, ...rate, name: 'bucket' });
    const breaker = new SharedBreaker({ store, name: 'breaker' });
    const service = new Service({ parts: [bucket, breaker] });
    await service.start();
    assert.equal(service.ready, true);
    await service.close();
    assert.deepEqual([bucket.ready, breaker.ready], [false, false]);
    await assert.rejects(bucket.take(), { code: 'BUCKET_CLOSED' });
  });
});
