import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { writeRawFile } from '../src/files/raw-file.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import {
  entryOf,
  fenceOf,
  lines,
  pageOf,
  range,
  start,
  type Trade,
  temporaryFolder,
  tradesOf,
} from './fixtures/trades.ts';

const dayUs = 86_400_000_000;

describe('new trades in order', () => {
  it('become one file a day, however many raw files they came in', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    // The last raw file is of two days.
    const trades = range(1, 310_000).map((id): Trade => {
      return { id, us: start + id * 300_000, price: '1.5', size: '2', side: 'buy' };
    });
    const entries = [];
    for (let from = 0; from < trades.length; from += 100_000) {
      const some = trades.slice(from, from + 100_000);
      entries.push(await entryOf(folder, some, { commit: entries.length + 1 }));
    }
    const { added } = await table.merge(entries, fenceOf(1));
    assert.equal(added, 310_000);
    const { files } = table.manifest;
    const second = trades.findIndex(({ us }) => us >= start + dayUs);
    assert.deepEqual(
      files.map(({ rows, firstId, lastId }) => ({ rows, firstId, lastId })),
      [
        { rows: second, firstId: 1, lastId: second },
        { rows: 310_000 - second, firstId: second + 1, lastId: 310_000 },
      ],
    );
  });

  it('are looked at one by one when a raw file has one twice, on two days', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const [one, two, three, four] = tradesOf([1, 2, 3, 4], { stepUs: dayUs / 4 });
    assert.ok(one && two && three && four);
    const said = pageOf([one, two, three, four]);
    const page = { ...said, lines: pageOf([one, two, { ...two, us: four.us - 1 }, four]).lines };
    const of = {
      exchange: 'coinbase',
      product: 'BTC-USD',
      generation: 1,
      fence: 1,
      from: 1,
      to: 5,
    };
    const file = await writeRawFile(folder, of, [page]);
    assert.ok(file !== undefined);
    const { added } = await table.merge([{ ...file, ...of, commit: 1 }], fenceOf(1));
    assert.equal(added, 3);
    const { rows } = await table.query(
      'SELECT trade_id, epoch_us(trade_ts) AS us FROM trades ORDER BY 1',
    );
    assert.deepEqual(rows, [
      { trade_id: 1, us: one.us },
      { trade_id: 2, us: four.us - 1 },
      { trade_id: 4, us: four.us },
    ]);
  });
});
