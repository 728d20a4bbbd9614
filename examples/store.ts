// Named records with versions: a commit makes all its changes, or none if another was faster.
import { openStore } from 'spillway';

// `sqlite:<path>`, `postgres://…` and `redis://…` are opened the same way.
await using store = await openStore('memory:');

/** Moves money, and tries again if another commit changed an account in between. */
async function pay(from: string, to: string, cents: number): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const { records } = await store.read([from, to]);
    const [source, target] = records.map((record) => ({
      cents: Number(record?.value ?? 0),
      ifVersion: record?.version ?? 0,
    }));
    if (source === undefined || target === undefined) throw new Error('cannot be');
    const done = await store.commit([
      { name: from, value: source.cents - cents, ifVersion: source.ifVersion },
      { name: to, value: target.cents + cents, ifVersion: target.ifVersion },
    ]);
    if (done !== undefined) return attempt;
  }
}

await store.commit([{ name: 'account/ann', value: 100 }]);
const attempts = await Promise.all([1, 2, 3].map(() => pay('account/ann', 'account/bob', 10)));
console.log('attempts of the three payments:', attempts);

await store.commit([{ name: 'session/1', value: 'ann', ttlMs: 3_600_000 }]);
for (const { name, value } of await store.list('account/', { max: 10 })) console.log(name, value);
