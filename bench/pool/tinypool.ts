import { Tinypool } from 'tinypool';
import { type PoolContender, workers } from '../pool.ts';

export function open(): PoolContender {
  const pool = new Tinypool({
    filename: import.meta.resolve('./tinypool-tasks.ts'),
    minThreads: workers,
    maxThreads: workers,
  });
  return {
    noop: () => pool.run(undefined, { name: 'noop' }),
    echo: (value) => pool.run(value, { name: 'echo' }),
    bytes: (value) => pool.run(value, { name: 'bytes', transferList: [value.buffer] }),
    spin: (iterations) => pool.run(iterations, { name: 'spin' }),
  };
}
