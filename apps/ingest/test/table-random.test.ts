// Slow: plays many random histories.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Random, seededRandom } from 'spillway';
import type { RawEntry } from '../src/files/raw-file.ts';
import { verify } from '../src/quality/verify.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import {
  entryOf,
  fenceOf,
  lines,
  range,
  type Trade,
  temporaryFolder,
  tradesOf,
} from './fixtures/trades.ts';

const seeds = Number(process.env.TABLE_SEEDS ?? 2);
const from = Number(process.env.TABLE_SEED ?? 1);
const products = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

const allSql = `SELECT product, trade_id, rtrim(price::VARCHAR, '0') AS price,
  epoch_us(trade_ts) AS us FROM trades ORDER BY product, trade_id`;

/** Rows that the table must hold: each trade once, at its latest time. */
class Model {
  readonly #trades = new Map<string, Trade & { readonly product: string }>();
  readonly entries: RawEntry[] = [];

  add(product: string, trades: readonly Trade[]): number {
    const before = this.#trades.size;
    for (const trade of trades) {
      const key = `${product} ${trade.id}`;
      const known = this.#trades.get(key);
      if (known === undefined || known.us < trade.us) this.#trades.set(key, { ...trade, product });
    }
    return this.#trades.size - before;
  }

  rows(): readonly unknown[] {
    return [...this.#trades.values()]
      .sort((a, b) => (a.product === b.product ? a.id - b.id : a.product < b.product ? -1 : 1))
      .map(({ product, id, price, us }) => ({ product, trade_id: id, price, us }));
  }

  commits(product: string): number {
    return this.entries.filter((entry) => entry.product === product).length;
  }
}

/** A part of a history, some of it read before, some left out; some trades at another time. */
function someTrades(random: Random, product: string): readonly Trade[] {
  const first = 1 + Math.floor(random() * 400);
  const length = 1 + Math.floor(random() * 120);
  const keeps = random() < 0.3 ? 0.5 : 1;
  const ids = range(first, first + length - 1).filter((id) => id === first || random() < keeps);
  const late = random() < 0.2 ? 40_000_000_000 : 0;
  const trades = tradesOf(ids, { seed: products.indexOf(product) + 1, stepUs: 900_000_000 });
  return trades.map((trade) => ({ ...trade, us: trade.us + (trade.id % 7 === 0 ? late : 0) }));
}

describe('a table that is fed at random', () => {
  for (let seed = from; seed < from + seeds; seed += 1) {
    it(`equals the model, and what a rebuild makes of the raw files (seed ${seed})`, async () => {
      const random = seededRandom(seed);
      await using folder = await temporaryFolder();
      await using table = await TradeTable.open({ folder, lines });
      const model = new Model();
      for (let step = 0; step < 6; step += 1) {
        let added = 0;
        const news: RawEntry[] = [];
        for (let count = 1 + Math.floor(random() * 4); count > 0; count -= 1) {
          const product = products[Math.floor(random() * products.length)] as string;
          const trades = someTrades(random, product);
          const commit = model.commits(product) + 1;
          const entry = await entryOf(folder, trades, {
            commit,
            product,
            generation: seed + commit,
          });
          news.push({ ...entry, generation: 1 });
          model.entries.push({ ...entry, generation: 1 });
          added += model.add(product, trades);
        }
        const read = news.reduce((sum, { trades }) => sum + trades, 0);
        // Lines that are in the table already may be given again.
        const merged = await table.merge(random() < 0.5 ? news : model.entries, fenceOf(step));
        assert.deepEqual([merged.read, merged.added, merged.files], [read, added, news.length]);
        if (random() < 0.3) await table.compact(fenceOf(step));
      }
      const rows = model.rows();
      assert.deepEqual((await table.query(allSql)).rows, rows);
      assert.deepEqual(await flawsOf(table, model), []);
      await table.rebuild(model.entries, fenceOf(9));
      assert.deepEqual((await table.query(allSql)).rows, rows);
      await using anew = await temporaryFolder();
      for (const { file } of model.entries) await anew.write(file, await folder.read(file));
      await using second = await TradeTable.open({ folder: anew, lines });
      await second.merge(model.entries, fenceOf(1));
      assert.deepEqual((await second.query(allSql)).rows, rows);
    });
  }
});

/** Whatever is wrong apart from ids that were left out on purpose. */
async function flawsOf(table: TradeTable, model: Model): Promise<readonly string[]> {
  const ledgers = [...Map.groupBy(model.entries, ({ product }) => product)].map((of) => {
    const [product, entries] = of;
    const harvested = { from: 1, to: Math.max(...entries.map(({ to }) => to)) };
    return { exchange: 'coinbase', product, generation: 1, entries, harvested, gaps: [] };
  });
  const { issues, waiting } = await verify(table, ledgers);
  assert.equal(waiting, 0);
  return issues.filter(({ flaw }) => flaw !== 'gap').map(({ message }) => message);
}
