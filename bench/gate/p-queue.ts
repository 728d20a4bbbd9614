import PQueue from 'p-queue';
import { limit } from '../gate.ts';

const queue = new PQueue({ concurrency: limit });

export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await queue.add(work);
}
