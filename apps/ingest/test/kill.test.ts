import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { seededRandom } from 'spillway';
import { orphansOf } from '../src/harvest/ledger.ts';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { type Exchange, startExchange } from '../src/simulated/exchange.ts';
import { Child } from './fixtures/child.ts';
import { assertTruth } from './fixtures/table-truth.ts';

/** `npm run test:kills` has more of them. */
const { SPILLWAY_KILLS: kills = '40', INGEST_KILL_SEED: seed = '1' } = process.env;
const products = ['A-USD', 'B-USD'];
/** Many processes are started: on a busy machine each takes seconds. */
const timeout = 1_200_000;

describe('a harvest that is killed again and again', () => {
  it(`has every trade once in the end, after ${kills} kills`, { timeout }, async () => {
    await using stack = new AsyncDisposableStack();
    // One for each history, as each has a store, and with it a rate, of its own.
    const openExchange = async (): Promise<Exchange> => {
      const exchange = await startExchange({
        products: products.map((id) => ({ id, trades: 10_000, stepUs: 20_000_000 })),
        // A busy machine holds requests back for up to two seconds, and they come at once.
        rate: { ratePerSecond: 150, burst: 450 },
        latency: { meanMs: 5 },
        trouble: { error: 0.01, reset: 0.01, truncated: 0.01 },
      });
      return stack.use(exchange);
    };
    const exchanges = await Promise.all(Array.from({ length: 3 }, openExchange));
    // In turns, so that the locks of who was killed have run out when a history comes again.
    const histories = await Promise.all(
      exchanges.map(async (exchange) => {
        const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-kill-')));
        const place = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
        return { ...place, limit: '20', ratePerSecond: '150' };
      }),
    );
    const task = { products, leaseMs: 600, cooldownMs: 50, pagesMax: 20 };
    const random = seededRandom(Number(seed));
    let next = new Child();
    for (let round = 0; round < Number(kills); round += 1) {
      const exchange = exchanges[round % 3] as Exchange;
      await using child = await next.ready();
      next = new Child();
      child.begin({ ...task, flags: histories[round % 3] ?? {} });
      // From before the store is open to the middle of a harvest or of a change of the table.
      const until = exchange.stats.requests + Math.floor(60 * random());
      const enough = AbortSignal.timeout(5_000);
      while (exchange.stats.requests < until && !child.isDone && !enough.aborted) {
        await setTimeout(2);
      }
      await setTimeout(60 * random());
      await child.kill();
    }
    await using last = await next.ready();
    let left = 0;
    for (const [at, flags] of histories.entries()) {
      const exchange = exchanges[at] as Exchange;
      const whole = { ...task, flags, pagesMax: 1_000, leaseMs: 10_000 };
      const report = await last.run(whole);
      assert.deepEqual(report.statuses, ['done', 'done']);
      left += report.trades;
      const { settings } = readSettings({ flags, environment: {} });
      await using ingest = await openIngest({ settings, environment: {}, leaseMs: 10_000 });
      await assertTruth(await ingest.table(), exchange, products);
      // What the dead left is not needed: the same table can be made without it.
      const { signal } = new AbortController();
      for (const product of products) {
        const of = { exchange: 'simulated', product, generation: 1 };
        for (const { path } of await orphansOf(of, ingest, signal)) {
          await ingest.folder.delete(path);
        }
      }
      await (await ingest.transformer()).run({ rebuild: true, waits: false }, signal);
      await assertTruth(await ingest.table(), exchange, products);
      assert.equal(exchange.stats.refused, 0, 'a process that died has cost others a 429');
    }
    // What was killed had its share: else nothing was proved.
    assert.ok(left < 60_000 || kills === '0', 'nothing was committed by those who were killed');
  });
});
