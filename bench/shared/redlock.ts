import { Redis } from 'ioredis';
// Its exports name no types for imports.
// @ts-expect-error
import RedlockOf from 'redlock';
import type { Library } from './measure.ts';

interface HeldLock {
  extend(ttlMs: number): Promise<HeldLock>;
  release(): Promise<unknown>;
}

interface Redlock {
  acquire(names: readonly string[], ttlMs: number): Promise<HeldLock>;
}

export const library: Library = {
  redis: {
    async lock({ url, stack }) {
      const client = new Redis(url);
      stack.defer(() => client.disconnect());
      const redlock: Redlock = new RedlockOf([client], { retryCount: -1 });
      return async (name) => {
        let lock = await redlock.acquire([name], 10_000);
        return {
          renew: async () => {
            lock = await lock.extend(10_000);
          },
          release: () => lock.release(),
        };
      };
    },
  },
};
