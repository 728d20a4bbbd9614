import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import type { TradePage } from '../src/connectors/page.ts';
import { rawFileName, writeRawFile } from '../src/files/raw-file.ts';
import { pageOf, range, start, type Trade, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const product = { exchange: 'coinbase', product: 'BTC-USD', generation: 1 };
const of = { ...product, fence: 4, from: 1, to: 1001 };

function pagesOf(trades: readonly Trade[], size: number): readonly TradePage[] {
  return Array.from({ length: Math.ceil(trades.length / size) }, (_, at) => {
    return pageOf(trades.slice(at * size, at * size + size));
  });
}

describe('a raw file', () => {
  it('has the same bytes for the same trades, however they were cut', async () => {
    await using folder = await temporaryFolder();
    // Less than one piece of what is compressed at once, and more.
    for (const count of [1000, 40, 3000]) {
      const all = { ...of, to: count + 1 };
      const trades = tradesOf(range(1, count));
      const first = await writeRawFile(folder, all, pagesOf(trades, count));
      const again = await writeRawFile(folder, all, [pageOf([]), ...pagesOf(trades, 7)]);
      assert.deepEqual(again, first);
    }
  });

  it('is named by its ids and its day, and holds the lines as they came', async () => {
    await using folder = await temporaryFolder();
    const trades = tradesOf(range(1, 1000));
    const first = await writeRawFile(folder, of, pagesOf(trades, 100));
    assert.equal(
      first?.file,
      'raw/exchange=coinbase/product=BTC-USD/date=2024-02-28/1-1000.g1.f4.jsonl.zst',
    );
    const bytes = await folder.read(first?.file ?? '');
    assert.equal(bytes.length, first?.bytes);
    assert.equal(createHash('sha256').update(bytes).digest('hex'), first?.sha256);
    const lines = Buffer.concat(pagesOf(trades, 1000).map((page) => page.lines));
    assert.ok(lines.equals(zstdDecompressSync(bytes)));
  });

  it('tells what is in it', async () => {
    await using folder = await temporaryFolder();
    const trades = tradesOf([5, 7, 900]);
    const file = await writeRawFile(folder, of, pagesOf(trades, 2));
    const { trades: count, firstId, lastId, firstUs, lastUs, from, to } = file ?? assert.fail();
    assert.deepEqual([count, firstId, lastId, from, to], [3, 5, 900, 1, 1001]);
    assert.deepEqual([firstUs, lastUs], [trades[0]?.us, trades[2]?.us]);
  });

  it('is not written for no trades, nor for trades out of order or out of range', async () => {
    await using folder = await temporaryFolder();
    assert.equal(await writeRawFile(folder, of, []), undefined);
    assert.equal(await writeRawFile(folder, of, [pageOf([])]), undefined);
    const wrong = [[5, 4], [5, 5], [0], [1001]];
    for (const ids of wrong) {
      const pages = ids.map((id) => pageOf(tradesOf([id])));
      await assert.rejects(writeRawFile(folder, of, pages), { code: 'RAW_INVALID' });
    }
    await assert.rejects(writeRawFile(folder, of, pagesOf(tradesOf([1]), 1), AbortSignal.abort()), {
      name: 'AbortError',
    });
    assert.deepEqual(await folder.list('raw'), []);
  });

  it('has a name of its own in each generation, and under each lease', () => {
    const name = { ...of, product: 'A/B', firstUs: start };
    assert.match(rawFileName(name), /product=A%2FB\/date=2024-02-28\/1-1000\.g1\.f4\.jsonl\.zst$/);
    assert.match(rawFileName({ ...name, generation: 2 }), /\/1-1000\.g2\.f4\.jsonl\.zst$/);
    assert.match(rawFileName({ ...name, fence: 5 }), /\/1-1000\.g1\.f5\.jsonl\.zst$/);
  });
});
