// A lane that finds its own size: the service behind it can do eight calls at once, and calls
// beyond that only wait there. 200 is an upper bound; the limit ends between eight and sixteen.
import { Gate, Lane, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const clock = new VirtualClock();
const random = seededRandom(1);
const service = new Gate({ limit: 8, queueMax: 1_000 });
const lane = new Lane({ name: 'calls', limit: 200, queueMax: 1_000, deadlineMs: 60_000, clock });

async function call(): Promise<void> {
  using _place = await service.enter();
  await new Promise<void>((resolve) => clock.after(90 + 20 * random(), resolve));
}

async function client(): Promise<void> {
  while (clock.now() < 120_000) await lane.run(call);
}

console.log(`at first ${lane.stats.limit} calls at once`);
await clock.run(Promise.all(Array.from({ length: 300 }, client)));
const { serviceMs, limit: size } = lane.stats;
console.log(`after two minutes ${size} calls at once, ${Math.round(serviceMs.p50)} ms each`);
