import Bottleneck from 'bottleneck';
import { Redis } from 'ioredis';
import type { Library } from './measure.ts';

async function start(): Promise<void> {}

export const library: Library = {
  redis: {
    async rate({ url, ratePerSecond, stack }) {
      const client = new Redis(url);
      const connection = new Bottleneck.IORedisConnection({ client });
      const limiter = new Bottleneck({
        id: 'bench',
        connection,
        minTime: 1_000 / ratePerSecond,
      });
      await limiter.ready();
      stack.defer(() => client.disconnect());
      return () => limiter.schedule(start);
    },
  },
};
