// Small tools that most services write for themselves: here with bounds, aborts and stats.
import { BoundedMap, every, Keyed, Lane, map, SingleFlight } from 'spillway';

// map: at most `limit` at once, results in order, the first error ends it.
const double = async (value: number) => value * 2;
console.log(await map([1, 2, 3, 4], double, { limit: 2 }));

// SingleFlight: callers that ask for the same key share one call.
let loads = 0;
const flights = new SingleFlight<string>();
const load = async () => {
  loads += 1;
  return 'the model';
};
await Promise.all([1, 2, 3].map(() => flights.run('model', load)));
console.log(`three asked, ${loads} load`);

// Keyed: a part for each host, at most `keysMax`; idle parts are closed.
const lanes = new Keyed<Lane>({
  keysMax: 1_000,
  make: (host) => new Lane({ name: host, limit: 5, queueMax: 20, deadlineMs: 5_000 }),
});
console.log(await lanes.for('example.org').run(async () => 'one host at its own pace'));

// BoundedMap: a least-recently-used cache with a bound by count or bytes.
const pages = new BoundedMap<string, string>({ countMax: 2 });
for (const page of ['a', 'b', 'c']) pages.set(page, page);
console.log('kept:', [...pages.keys()]);

// every: a periodic part of a service; one run at a time.
const { promise: swept, resolve } = Promise.withResolvers<void>();
await using sweep = every({ name: 'sweep', periodMs: 1, run: async () => resolve() });
sweep.start();
await swept;
console.log('swept');
