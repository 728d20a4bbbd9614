import { Redis } from 'ioredis';
import pg from 'pg';
import { RateLimiterPostgres, RateLimiterQueue, RateLimiterRedis } from 'rate-limiter-flexible';
import type { Library } from './measure.ts';

export const library: Library = {
  redis: {
    async rate({ url, ratePerSecond, stack }) {
      const client = new Redis(url);
      stack.defer(() => client.disconnect());
      const limiter = new RateLimiterRedis({
        storeClient: client,
        points: ratePerSecond,
        duration: 1,
      });
      const queue = new RateLimiterQueue(limiter);
      return () => queue.removeTokens(1, 'bench');
    },
  },
  postgres: {
    async rate({ url, ratePerSecond, stack }) {
      const pool = new pg.Pool({ connectionString: url, max: 2 });
      stack.defer(() => pool.end());
      const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
      const limiter = new RateLimiterPostgres(
        { storeClient: pool, points: ratePerSecond, duration: 1, tableName: 'bench' },
        (error) => (error === undefined ? resolve() : reject(error)),
      );
      await ready;
      const queue = new RateLimiterQueue(limiter);
      return () => queue.removeTokens(1, 'bench');
    },
  },
};
