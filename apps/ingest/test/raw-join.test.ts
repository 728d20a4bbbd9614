import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { joinRawFiles } from '../src/harvest/raw-join.ts';
import { openIngest } from '../src/open.ts';
import { expectedProducts, verify } from '../src/quality/verify.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { assertTruth } from './fixtures/table-truth.ts';

describe('small raw files', () => {
  it('become one, and the table can be made anew from it', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-join-'));
    const products = [{ id: 'A-USD', trades: 300 }];
    await using exchange = await startExchange({ products });
    const place = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
    const pace = { ratePerSecond: '1000', limit: '5' };
    const { settings } = readSettings({ flags: { ...place, ...pace }, environment: {} });
    await using ingest = await openIngest({ settings, environment: {}, batchMsMax: 0 });
    const { signal } = new AbortController();
    // Two pages in a round make one file or two.
    await ingest.harvester({ products: ['A-USD'], pagesMax: 2 }).run(signal);
    const transformer = await ingest.transformer();
    await transformer.run({ rebuild: false, waits: true }, signal);
    const before = (await ingest.folder.list('raw')).length;
    assert.ok(before >= 30, `${before} raw files`);
    const of = { exchange: 'simulated', product: 'A-USD', generation: 1 };
    const upTo = (await ingest.table()).manifest.products[0]?.mergedTo ?? 0;
    await joinRawFiles(of, { after: 0, upTo }, ingest, signal);
    assert.equal((await ingest.folder.list('raw')).length, 1);
    const table = await ingest.table();
    const found = await verify(table, await expectedProducts(ingest, signal));
    assert.deepEqual([found.issues, found.waiting], [[], 0]);
    // What is in the table is not read again, unless all of it is.
    assert.equal((await transformer.run({ rebuild: false, waits: true }, signal)).files, 0);
    assert.equal((await transformer.run({ rebuild: true, waits: true }, signal)).read, 300);
    await assertTruth(table, exchange, ['A-USD']);
  });
});
