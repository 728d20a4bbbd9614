// Runs work that computes on threads: typed calls, a resource per worker, one model for all.
import { Pool } from 'spillway';

await using pool = await Pool.open<typeof import('./workers/scorer.ts')>({
  module: new URL('./workers/scorer.ts', import.meta.url),
  workers: 2,
  queueMax: 100,
  deadlineMs: 5_000,
  recycle: { ageMsMax: 600_000 },
});

pool.publish({ name: 'the small model', weight: 1 });
const early = pool.run('score', 'rain in the hills');
console.log(await early);

pool.publish({ name: 'the large model', weight: 10 });
const texts = ['the river rises', 'the dam holds'];
console.log(await Promise.all(texts.map((text) => pool.run('score', text))));

for await (const word of pool.stream('words', 'more water than it can hold')) {
  console.log(word);
  if (word === 'it') break;
}

const { started, lost, workers } = pool.stats;
console.log({ started, lost, workers: workers.length });
