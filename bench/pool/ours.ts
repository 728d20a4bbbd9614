import { Pool } from 'spillway';
import { type PoolContender, workers } from '../pool.ts';

export async function open(): Promise<PoolContender> {
  const pool = await Pool.open<typeof import('./ours-tasks.ts')>({
    module: new URL('./ours-tasks.ts', import.meta.url),
    workers,
    queueMax: 4_096,
    deadlineMs: 30_000,
  });
  return {
    noop: () => pool.run('noop', undefined),
    echo: (value) => pool.run('echo', value),
    bytes: (value) => pool.run('bytes', value, { transfer: [value.buffer] }),
    spin: (iterations) => pool.run('spin', iterations),
  };
}
