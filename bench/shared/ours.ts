import { Lease, SharedBucket, type Store } from 'spillway';
import { StoreChannel } from 'spillway-http';
import { RedisStore } from 'spillway-redis';
import { PostgresStore } from 'spillway-sql';
import type { Library, Parts, Place } from './measure.ts';

const onStore = (open: (place: Place) => Promise<Store>): Parts => ({
  async rate({ ratePerSecond, ...place }) {
    const rule = { name: 'bench', ratePerSecond, queueMax: 1_000, deadlineMs: 10_000 };
    const bucket = place.stack.use(new SharedBucket({ store: await open(place), ...rule }));
    return () => bucket.take();
  },
  async lock(place) {
    const store = await open(place);
    return async (name) => {
      const lease = await Lease.acquire({ store, name, ttlMs: 10_000 });
      return { renew: () => lease.renew(), release: () => lease.close() };
    };
  },
  async message(place) {
    const near = place.stack.use(new StoreChannel({ store: await open(place) }));
    const far = place.stack.use(new StoreChannel({ store: await open(place) }));
    let heard = Promise.withResolvers<void>();
    await far.subscribe('bench', { message: () => heard.resolve(), lost: () => {} });
    return async () => {
      heard = Promise.withResolvers<void>();
      await Promise.all([near.publish('bench', Buffer.from('hello')), heard.promise]);
    };
  },
});

export const library: Library = {
  redis: onStore(async ({ url, stack }) => stack.use(await RedisStore.open({ url }))),
  postgres: onStore(async ({ url, stack }) => {
    return stack.use(await PostgresStore.open({ url, connectionsMax: 2 }));
  }),
};
