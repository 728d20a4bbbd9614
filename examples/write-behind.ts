// Counters that change many times a second are changed in memory and written a few times a second.
import { WriteBehind } from 'spillway';

const table = new Map<string, number>();

await using wins = new WriteBehind<string, number>({
  sizeMax: 1_000,
  flushMsMax: 200,
  load: async (engine) => table.get(engine) ?? 0,
  flush: async (records) => {
    console.log(`writes ${records.size} records at once`);
    for (const [engine, count] of records) table.set(engine, count);
  },
});

const win = (engine: string) => wins.update(engine, (count) => count + 1);

for (let i = 0; i < 1_000; i += 1) await win(i % 3 === 0 ? 'white' : 'black');
console.log('in memory:', await wins.get('white'), 'in the table:', table.get('white'));

// Whoever has promised something waits until its own change is durable.
await win('white');
await wins.durable('white');
console.log('in the table:', table.get('white'), wins.stats);
