import Bottleneck from 'bottleneck';
import { limit } from '../gate.ts';

const limiter = new Bottleneck({ maxConcurrent: limit });

export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await limiter.schedule(work);
}
