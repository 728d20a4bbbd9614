// Many events ask for the same slow work: it runs once, and once more after the latest event.
import { Backlog } from 'spillway';

interface Retrain {
  readonly model: string;
  readonly votes: number;
}

await using trainings = new Backlog<Retrain>({
  queueMax: 100,
  key: ({ model }) => model,
  merge: (waiting, incoming) => ({ ...incoming, votes: waiting.votes + incoming.votes }),
  consume: async ({ model, votes }) => {
    await new Promise((resolve) => setImmediate(resolve));
    console.log(`trained ${model} with ${votes} new votes`);
  },
  onDrop: ({ model }, reason) => console.log(`dropped ${model}: ${reason}`),
});

const vote = (model: string) => trainings.add({ model, votes: 1 });

console.log('first vote:', vote('news'));
// The work starts as soon as this code awaits something.
await undefined;
for (let i = 0; i < 5; i += 1) vote('news');
console.log('sixth vote:', vote('news'));
console.log('other model:', vote('sport'));

await trainings.idle();
const { added, merged, done } = trainings.stats;
console.log({ added, merged, done });
