// Of two workers one does the job and the other waits; a write of a lost lease is refused.
import { Lease, MemoryStore } from 'spillway';

const store = new MemoryStore();

async function work(who: string): Promise<Lease> {
  await using lease = await Lease.acquire({
    store,
    name: 'nightly',
    ttlMs: 1000,
    pollMs: 5,
  });
  // The task's signal aborts before another worker can hold the lease.
  await lease.run(async (signal) => {
    await store.commit(lease.guard([{ name: 'report', value: `by ${who}` }]), { signal });
  });
  console.log(`${who} wrote the report under fence ${lease.fence}`);
  return lease;
}

const [first] = await Promise.all([work('ann'), work('bob')]);

try {
  first.guard([{ name: 'report', value: 'by ann, much later' }]);
} catch (error) {
  console.log(String(error));
}

await using _held = await Lease.acquire({ store, name: 'nightly', ttlMs: 1000, waits: false });
await Lease.acquire({ store, name: 'nightly', ttlMs: 1000, waits: false }).catch((error) => {
  console.log(`${error.code}: try again in ${Math.ceil(error.retryAfterMs / 100) * 100} ms`);
});
