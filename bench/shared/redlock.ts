import { Redis } from 'ioredis';
// Its exports name no types for imports.
// @ts-expect-error
import RedlockOf from 'redlock';
import type { Library } from '../shared.ts';

interface Redlock {
  acquire(names: readonly string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>;
}

export const library: Library = {
  redis: {
    async lock({ url, stack }) {
      const client = new Redis(url);
      stack.defer(() => client.disconnect());
      const redlock: Redlock = new RedlockOf([client], { retryCount: -1 });
      return async (name) => {
        const lock = await redlock.acquire([name], 10_000);
        return () => lock.release();
      };
    },
  },
};
