import { fileURLToPath } from 'node:url';
import workerpool from 'workerpool';
import { type PoolContender, workers } from '../pool.ts';

export function open(): PoolContender {
  const pool = workerpool.pool(fileURLToPath(import.meta.resolve('./workerpool-worker.ts')), {
    minWorkers: workers,
    maxWorkers: workers,
    workerType: 'thread',
  });
  return {
    noop: async () => await pool.exec('noop', []),
    echo: async (value) => await pool.exec('echo', [value]),
    bytes: async (value) => await pool.exec('bytes', [value], { transfer: [value.buffer] }),
    spin: async (iterations) => await pool.exec('spin', [iterations]),
  };
}
