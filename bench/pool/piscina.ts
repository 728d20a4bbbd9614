import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { type PoolContender, workers } from '../pool.ts';

export function open(concurrentTasksPerWorker: number): PoolContender {
  const pool = new Piscina({
    filename: fileURLToPath(import.meta.resolve('./piscina-tasks.ts')),
    minThreads: workers,
    maxThreads: workers,
    concurrentTasksPerWorker,
  });
  return {
    noop: () => pool.run(undefined, { name: 'noop' }),
    echo: (value) => pool.run(value, { name: 'echo' }),
    bytes: (value) => pool.run(value, { name: 'bytes', transferList: [value.buffer] }),
    spin: (iterations) => pool.run(iterations, { name: 'spin' }),
  };
}
