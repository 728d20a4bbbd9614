import { bulkhead } from 'cockatiel';
import { limit, queueMax } from '../gate.ts';

const policy = bulkhead(limit, queueMax);

export async function passes(work: () => Promise<void>, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await policy.execute(work);
}
