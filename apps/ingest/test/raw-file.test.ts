import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import type { TradePage } from '../src/connectors/page.ts';
import type { Folder } from '../src/files/folder.ts';
import {
  inOrderOfId,
  packedPage,
  type RawFile,
  rawFileName,
  readRawLines,
  writeRawFile,
} from '../src/files/raw-file.ts';
import { pageOf, range, start, type Trade, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const product = { exchange: 'coinbase', product: 'BTC-USD', generation: 1 };
const of = { ...product, fence: 4, from: 1, to: 1001 };

function pagesOf(trades: readonly Trade[], size: number): readonly TradePage[] {
  return Array.from({ length: Math.ceil(trades.length / size) }, (_, at) => {
    return pageOf(trades.slice(at * size, at * size + size));
  });
}

async function linesOf(folder: Folder, file: RawFile | undefined): Promise<readonly string[]> {
  return await readRawLines(folder, file?.file ?? '');
}

describe('a raw file', () => {
  it('holds the same lines, however they were cut, packed before or not', async () => {
    await using folder = await temporaryFolder();
    const trades = tradesOf(range(1, 3000));
    const all = { ...of, to: 3001 };
    const large = await Promise.all(pagesOf(trades, 1000).map(packedPage));
    assert.ok(large.every((page) => 'packed' in page && page.packed.length < 40_000));
    const small = await Promise.all(pagesOf(trades.slice(1000), 7).map(packedPage));
    assert.ok(
      small.every((page) => 'lines' in page),
      'small ones are packed together',
    );
    const mixed = [pageOf([]), ...large.slice(0, 1), ...small];
    const wanted = await linesOf(folder, await writeRawFile(folder, all, pagesOf(trades, 3000)));
    assert.equal(wanted.length, 3000);
    for (const pages of [large, mixed, pagesOf(trades, 50)]) {
      const file = await writeRawFile(folder, all, pages);
      assert.deepEqual(await linesOf(folder, file), wanted);
      assert.ok((file?.bytes ?? 0) < 30 * 3000, 'packed once');
    }
  });

  it('is put in order of id where pages come by time', () => {
    const pages = [range(1001, 2000), range(1, 1000)].map((ids) => pageOf(tradesOf(ids)));
    assert.deepEqual(inOrderOfId(pages), [pageOf(tradesOf(range(1, 2000)))]);
  });

  it('is put in order also where a page without trades comes in between', () => {
    const pages = [[5, 10], [], [7]].map((ids) => pageOf(tradesOf(ids)));
    assert.deepEqual(
      inOrderOfId(pages).map(({ ids }) => [...ids]),
      [[5, 7, 10]],
    );
  });

  it('may be of one page with all that there is', async () => {
    await using folder = await temporaryFolder();
    const ids = Float64Array.from(range(1, 200_000));
    const lines = Buffer.from([...ids].map((id) => `${id}\n`).join(''));
    const page = await packedPage({ ids, timesUs: ids, lines });
    const file = await writeRawFile(folder, { ...of, to: 200_001 }, [page]);
    assert.deepEqual([file?.trades, file?.firstUs, file?.lastUs], [200_000, 1, 200_000]);
    assert.equal((await linesOf(folder, file)).length, 200_000);
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
