// Slow: writes and compacts many tables.

import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { TableDraft } from '../src/table/manifest.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { assertTruth } from './fixtures/table-truth.ts';
import { entryOf, fenceOf, lines, temporaryFolder, tradesOf } from './fixtures/trades.ts';

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

  it('is made anew of more raw files than a call has arguments', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const one = await entryOf(folder, tradesOf([1]), { commit: 200_000 });
    await table.merge([one], fenceOf(1));
    // All but the last are in the table already.
    const many = Array.from({ length: 200_000 }, (_, at) => ({ ...one, commit: at + 1 }));
    const last = await entryOf(folder, tradesOf([2]), { commit: 200_001 });
    assert.equal((await table.merge([...many, last], fenceOf(1))).added, 1);
    const draft = new TableDraft(table.manifest);
    draft.advance(one, many);
    assert.equal(draft.product(one)?.mergedTo, 200_001);
  });
});
