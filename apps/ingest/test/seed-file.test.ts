import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { productsOf, shardOption } from '../src/commands/command-line.ts';
import { readSeed, writeSeed } from '../src/harvest/product-list.ts';
import { readSettings } from '../src/settings.ts';

const folder = await mkdtemp(join(tmpdir(), 'ingest-seed-'));
after(() => rm(folder, { recursive: true }));

describe('the list of products', () => {
  it('is written whole and read back, with what people have noted', async () => {
    const path = join(folder, 'deep', 'products.yaml');
    const seed = { productIds: ['ACH-USD', 'BTC-USD'], metadata: { note: 'mine', count: 2 } };
    await writeSeed(path, seed);
    assert.match(await readFile(path, 'utf8'), /^product_ids:\n {2}- ACH-USD\n/);
    assert.deepEqual(await readSeed(path), seed);
    assert.deepEqual(await readdir(join(folder, 'deep')), ['products.yaml']);
  });

  it('names nothing when it is missing, empty or null', async () => {
    const path = join(folder, 'empty.yaml');
    assert.deepEqual((await readSeed(path)).productIds, []);
    for (const text of ['', 'product_ids:\n', 'metadata: {}\n']) {
      await writeFile(path, text);
      assert.deepEqual((await readSeed(path)).productIds, [], text);
    }
  });

  it('says which file is wrong', async () => {
    const path = join(folder, 'wrong.yaml');
    for (const text of ['product_ids: BTC-USD', 'product_ids: [1]', 'a: [', 'product_ids: [""]']) {
      await writeFile(path, text);
      await assert.rejects(readSeed(path), { code: 'SEED_UNREADABLE', message: /wrong\.yaml/ });
    }
  });

  it('is shared out to machines, each product to one', async () => {
    const { settings } = readSettings({ flags: {}, environment: {} });
    const named = ['D', 'A', 'C', 'B', 'E'];
    const shares = await Promise.all(
      [1, 2, 3].map((index) => productsOf(named, settings, { index, count: 3 })),
    );
    assert.deepEqual(shares, [['A', 'D'], ['B', 'E'], ['C']]);
    const { parseArg } = shardOption();
    assert.deepEqual(parseArg?.('2/3', undefined), { index: 2, count: 3 });
    for (const wrong of ['0/3', '4/3', '2', 'a/b']) {
      assert.throws(() => parseArg?.(wrong, undefined), /--shard: must be i\/n/);
    }
  });
});
