import { Sema } from 'async-sema';
import { limit, queueMax } from '../gate.ts';

const sema = new Sema(limit, { capacity: queueMax });

export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    await sema.acquire();
    try {
      await work();
    } finally {
      sema.release();
    }
  }
}
