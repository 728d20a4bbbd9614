import { Lease, SharedBucket, type Store } from 'spillway';
import { RedisStore } from 'spillway-redis';
import { PostgresStore } from 'spillway-sql';
import type { Library, Opening, Take } from '../shared.ts';

function takeFrom(store: Store, { ratePerSecond, stack }: Opening): Take {
  const rule = { name: 'bench', ratePerSecond, queueMax: 1_000, deadlineMs: 10_000 };
  const bucket = stack.use(new SharedBucket({ store, ...rule }));
  return () => bucket.take();
}

export const library: Library = {
  async redis(open) {
    const { url, stack } = open;
    return takeFrom(stack.use(await RedisStore.open({ url })), open);
  },
  async postgres(open) {
    const { url, stack } = open;
    return takeFrom(stack.use(await PostgresStore.open({ url, connectionsMax: 2 })), open);
  },
  async lock({ url, stack }) {
    const store = stack.use(await RedisStore.open({ url }));
    return (name) => async () => {
      const lease = await Lease.acquire({ store, name, ttlMs: 10_000 });
      await lease.close();
    };
  },
};
