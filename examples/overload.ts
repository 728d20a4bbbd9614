// 75 calls a second for a service that does 25. The numbers of the lane are far too large; it
// finds by itself how many calls to begin, and refuses the others at once.
import { Gate, Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const clock = new VirtualClock();
const service = new Gate({ limit: 10, queueMax: 10_000 });
const lane = new Lane({ name: 'quotes', limit: 200, queueMax: 400, deadlineMs: 1_000, clock });

async function call(): Promise<void> {
  using _place = await service.enter();
  await new Promise<void>((resolve) => clock.after(400, resolve));
}

let good = 0;
let refused = 0;
for (let client = 0; client < 30 * 75; client += 1) {
  clock.after((client * 1_000) / 75, () => {
    lane.run(call).then(
      () => (good += 1),
      () => (refused += 1),
    );
  });
}
await clock.advance(40_000);
console.log(`good answers: ${good > 600 ? 'more than 20 a second' : `only ${good}`}`);
console.log(`refused: ${refused > 1_000 ? 'most of the others' : `only ${refused}`}`);
