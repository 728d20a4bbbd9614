// Bounds how many calls run at once; waiters are served in order of arrival.
import { Gate } from 'spillway';

const gate = new Gate({ limit: 3, queueMax: 100 });
let most = 0;

async function visit(): Promise<void> {
  using _place = await gate.enter();
  most = Math.max(most, gate.stats.inside);
  await new Promise((resolve) => setTimeout(resolve, 5));
}

await Promise.all(Array.from({ length: 20 }, visit));
console.log(`20 visits, never more than ${most} at once`);
