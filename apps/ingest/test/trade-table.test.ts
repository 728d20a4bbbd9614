import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TradeTable } from 'spillway-ingest';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

describe('TradeTable', () => {
  it('holds every trade of the raw files to the last digit', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const trades = tradesOf(range(1, 3000));
    const entries = [
      await entryOf(folder, trades.slice(0, 1500), { commit: 1 }),
      await entryOf(folder, trades.slice(1500), { commit: 2 }),
    ];
    const merged = await table.merge(entries, fenceOf(1));
    assert.deepEqual(merged, { version: 1, files: 2, read: 3000, added: 3000, partitions: 3 });
    const { rows } =
      await table.query(`SELECT trade_id, trade_id_text, rtrim(price::VARCHAR, '0') AS price,
      rtrim(quantity::VARCHAR, '0') AS size, epoch_us(trade_ts) AS us, maker_side, taker_side, exchange, product FROM trades`);
    assert.deepEqual(
      rows,
      trades.map(({ id, us, price, size, side }) => ({
        trade_id: id,
        trade_id_text: String(id),
        price,
        size,
        us,
        maker_side: side,
        taker_side: side === 'buy' ? 'sell' : 'buy',
        exchange: 'coinbase',
        product: 'BTC-USD',
      })),
    );
  });
});
