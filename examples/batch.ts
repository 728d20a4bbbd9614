// Counters that change many times a second: kept in a map, and written in groups by a Batch.
import { Batch, SpillwayError } from 'spillway';

const table = new Map<string, number>();
const wins = new Map<string, number>();
const changed = new Set<string>();

const writes = new Batch<string, void>({
  full: (waiting) => new SpillwayError('STORE_FULL', `${waiting} writes wait already`),
  call: async (group) => {
    const entries = group.take();
    console.log(`writes ${changed.size} records at once, for ${entries.length} callers`);
    for (const engine of changed) table.set(engine, wins.get(engine) ?? 0);
    changed.clear();
    for (const entry of entries) entry.grant();
  },
});

/** Counts a win in memory at once, and resolves when the count is in the table. */
function win(engine: string): Promise<void> {
  wins.set(engine, (wins.get(engine) ?? 0) + 1);
  changed.add(engine);
  return writes.add(engine);
}

const all = Array.from({ length: 300 }, (_, at) => win(at % 3 === 0 ? 'white' : 'black'));
console.log('in memory:', wins.get('white'), 'in the table:', table.get('white'));
await Promise.all(all);
console.log('in the table:', table.get('white'), writes.stats);
