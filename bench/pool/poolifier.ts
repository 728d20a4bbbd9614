import { fileURLToPath } from 'node:url';
import { FixedThreadPool } from 'poolifier';
import { type PoolContender, workers } from '../pool.ts';

export function open(): PoolContender {
  const pool = new FixedThreadPool<unknown, unknown>(
    workers,
    fileURLToPath(import.meta.resolve('./poolifier-worker.ts')),
  );
  return {
    noop: () => pool.execute(undefined, 'noop'),
    echo: async (value) => (await pool.execute(value, 'echo')) as object,
    bytes: async (value) => {
      const transferred = [value.buffer];
      return (await pool.execute(value, 'bytes', undefined, transferred)) as typeof value;
    },
    spin: (iterations) => pool.execute(iterations, 'spin'),
  };
}
