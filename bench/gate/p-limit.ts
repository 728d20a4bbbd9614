import pLimit from 'p-limit';
import { limit } from '../gate.ts';

const limited = pLimit(limit);

export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await limited(work);
}
