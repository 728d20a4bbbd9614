// Slow: plays many random histories.

import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Random, seededRandom } from 'spillway';
import type { Transformed } from '../src/harvest/transformer.ts';
import { type Ingest, openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { assertTruth } from './fixtures/table-truth.ts';

const { INGEST_PIPELINE_SEEDS: seeds = '4' } = process.env;
const products = ['A-USD', 'B-USD'];
const none = new AbortController().signal;
const wish = { fullRefresh: false, fillsGaps: false, sinceUs: undefined, untilUs: undefined };

/** Rows that the table must have, by what was committed: raw lines, and new ones. */
class Books {
  readonly #ingest: Ingest;
  /** By product: lines that the table has read, and of which generation. */
  readonly #read = new Map<string, { readonly generation: number; readonly trades: number }>();

  constructor(ingest: Ingest) {
    this.#ingest = ingest;
  }

  /** Transforms, and compares every count with the ledger. */
  async transform(rebuild: boolean): Promise<void> {
    const { ledger } = this.#ingest;
    let [read, added] = [0, 0];
    for (const product of await ledger.products()) {
      const { current: generation } = await ledger.generations(product);
      const entries = await ledger.entries({ exchange: ledger.exchange, product, generation });
      const trades = entries.reduce((sum, entry) => sum + entry.trades, 0);
      const before = this.#read.get(product) ?? { generation, trades: 0 };
      const isWhole = trades > 0 && (rebuild || before.generation !== generation);
      read += isWhole ? trades : trades - before.trades;
      added += trades - before.trades;
      this.#read.set(product, { generation, trades });
    }
    const transformer = await this.#ingest.transformer();
    const done: Transformed = await transformer.run({ rebuild, waits: false }, none);
    assert.equal(done.read, read, 'records read are not those that raw files have');
    assert.equal(done.added, added, 'records added are not those that are new');
    await this.#assertDistinct();
  }

  /** Each key once, as many as the ledger has. */
  async #assertDistinct(): Promise<void> {
    const trades = [...this.#read.values()].reduce((sum, one) => sum + one.trades, 0);
    const sql = `SELECT count(*) AS n, count(DISTINCT (exchange, product, trade_id)) AS keys
      FROM trades`;
    const { rows } = await (await this.#ingest.table()).query(sql);
    assert.deepEqual(rows, [{ n: trades, keys: trades }]);
  }
}

/** One number for all that is in the table. */
async function digest(ingest: Ingest): Promise<unknown> {
  const sql = 'SELECT count(*) AS n, sum(hash(t))::VARCHAR AS digest FROM trades AS t';
  return (await (await ingest.table()).query(sql)).rows;
}

/** Anything that people do, in any order. */
async function step(ingest: Ingest, books: Books, random: Random): Promise<void> {
  const kind = random();
  if (kind < 0.35) return await books.transform(random() < 0.3);
  const fullRefresh = kind > 0.85;
  const request = { ...wish, products, fullRefresh, fillsGaps: kind < 0.45 };
  const pagesMax = 1 + Math.floor(30 * random());
  const harvester = ingest.harvester({ ...request, pagesMax });
  // Some rounds, which may be enough.
  let rest: readonly string[] = products;
  for (let rounds = 6 * random(); rest.length > 0 && rounds > 0; rounds -= 1) {
    rest = await harvester.round(rest, none);
  }
}

describe('what is harvested with faults and brought into the table, in any order', () => {
  for (let seed = 1; seed <= Number(seeds); seed += 1) {
    it(`is read, added and there once, and the same when made anew (seed ${seed})`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-pipeline-'));
      const random = seededRandom(seed);
      const [first, second] = products as [string, string];
      await using exchange = await startExchange({
        products: [
          { id: first, trades: 1_400, stepUs: 90_000_000, gaps: [{ from: 200, to: 231 }], seed },
          { id: second, trades: 900, stepUs: 60_000_000, seed: seed + 100 },
        ],
        trouble: { error: 0.05, reset: 0.02, truncated: 0.02, garbled: 0.02 },
        seed,
      });
      const place = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
      const flags = { ...place, limit: '20', ratePerSecond: '1000' };
      const { settings } = readSettings({ flags, environment: {} });
      const times = { batchMsMax: 20, cooldownMs: 20 };
      await using ingest = await openIngest({ settings, environment: {}, ...times, random });
      const books = new Books(ingest);
      for (let steps = 0; steps < 14; steps += 1) await step(ingest, books, random);
      exchange.product(first).heal();
      for (const fillsGaps of [false, true]) {
        const harvester = ingest.harvester({ ...wish, products, fillsGaps });
        const outcomes = await harvester.run(none);
        assert.deepEqual(new Set(outcomes.map(({ status }) => status)), new Set(['done']));
      }
      await books.transform(false);
      await assertTruth(await ingest.table(), exchange, products);
      const before = await digest(ingest);
      await books.transform(true);
      assert.deepEqual(await digest(ingest), before);
      await assertTruth(await ingest.table(), exchange, products);
    });
  }
});
