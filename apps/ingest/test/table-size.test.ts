import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { assertTruth } from './fixtures/table-truth.ts';

describe('the table of the simulated exchange', () => {
  it('takes at most 9 bytes for a trade, each of them exact', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-size-'));
    // As many as there are in a row group: smaller files take more.
    const ids = ['A-USD'];
    const products = ids.map((id) => ({ id, trades: 61_000 }));
    await using exchange = await startExchange({ products });
    const place = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
    const flags = { ...place, ratePerSecond: '10000' };
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {} });
    const { signal } = new AbortController();
    await ingest.harvester({ products: ids }).run(signal);
    await (await ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    const table = await ingest.table();
    for (const { product, bytes, rows } of table.manifest.files) {
      assert.ok(bytes / rows <= 9, `${product}: ${bytes / rows} bytes a trade`);
    }
    await assertTruth(table, exchange, ids);
  });
});
