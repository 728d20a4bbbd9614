// Two ranges, one rate, a server that fails often: each row arrives once, in order, also after a
// stop.
import { Bucket, Harvest, MemoryStore, rangeSource, storeSink } from 'spillway';

const trades = (name: string, to: number) =>
  rangeSource<{ id: number }>({
    name,
    from: 1,
    to,
    pageSize: 100,
    idOf: (trade) => trade.id,
    fetch: async (page) => {
      if (Math.random() < 0.1) throw Object.assign(new Error('overloaded'), { status: 503 });
      return Array.from({ length: page.to - page.from }, (_, at) => ({ id: page.from + at }));
    },
  });

const store = new MemoryStore();
const harvest = new Harvest<{ id: number }>({
  store,
  bucket: new Bucket({ ratePerSecond: 200, queueMax: 10 }),
  // One commit stores the rows and the checkpoint. It is refused once another holds the lease.
  sink: storeSink(store, (batch) =>
    batch.pages.map(({ from, rows }) => ({ name: `${batch.source}/${from}`, value: rows })),
  ),
  batchPages: 10,
  backoffMs: 20,
});

const sources = [trades('BTC', 5_001), trades('ETH', 2_001)];
for (const signal of [AbortSignal.timeout(150), undefined]) {
  for (const { source, status, checkpoint } of await harvest.run(sources, { signal })) {
    console.log(`${source}: ${status}, ${checkpoint?.rows ?? 0} rows`);
  }
}
const { retries, gaps } = harvest.stats;
console.log(`${retries} pages were fetched again, ${gaps} are missing`);
