import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import avro from 'avsc';
import { icebergManifests, icebergMetadata, icebergRead } from 'icebird';
import { StandIn } from 'spillway-fixtures/stand-in';
import { Engine } from '../src/table/engine.ts';
import { publishIceberg } from '../src/table/iceberg.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { inScene } from './fixtures/source-scene.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

/** Serves the files of a folder, as a bucket would. */
async function serving(root: string): Promise<StandIn> {
  const site = await StandIn.open();
  site.serve = async (request, response) => {
    const bytes = await readFile(join(root, request.url ?? '')).catch(() => undefined);
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
    const part = from === undefined ? bytes : bytes?.subarray(Number(from), Number(to) + 1);
    response.writeHead(bytes === undefined ? 404 : from === undefined ? 200 : 206).end(part);
  };
  return site;
}

/** All records of a file, by the schema that is in it. */
async function avroRows<T>(path: string): Promise<readonly T[]> {
  return await avro.createFileDecoder(path).toArray();
}

interface ManifestFile {
  readonly manifest_path: string;
  readonly content: number;
  readonly added_rows_count: number;
}

interface ManifestEntry {
  readonly data_file: {
    readonly file_path: string;
    readonly lower_bounds: readonly { readonly value: Buffer }[];
    readonly partition: { readonly exchange: string; readonly date: number };
  };
}

describe('the Iceberg metadata of a table', () => {
  it('that is damaged is named, with the way to make it anew', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    await table.merge([await entryOf(folder, tradesOf([1]), { commit: 1 })], fenceOf(1));
    await folder.write('iceberg/state.json', Buffer.from('{"loc'));
    await assert.rejects(publishIceberg(folder, table.manifest, 1, { begins: true }), {
      code: 'TABLE_CORRUPT',
      message: /iceberg\/state\.json: it is no JSON.*delete it, then run "ingest iceberg"/,
    });
  });

  it('leads another reader to every trade, before and after files are joined', async () => {
    await using folder = await temporaryFolder();
    await using site = await serving(folder.place);
    await using table = await TradeTable.open({ folder, lines });
    const tableUrl = `${site.url}/iceberg/trades`;
    assert.deepEqual(await publishIceberg(folder, table.manifest, 1), []);
    const usual = (ids: readonly number[]) =>
      tradesOf(ids).map((trade) => ({ ...trade, price: `${trade.id}.25` }));
    await table.merge([await entryOf(folder, usual(range(1, 3_000)), { commit: 1 })], fenceOf(1));
    const wish = { begins: true, location: site.url };
    const [made] = await publishIceberg(folder, table.manifest, 1.5, wish);
    const written = await folder.read('iceberg/trades/metadata/v1.metadata.json');
    const { snapshots, ...state } = JSON.parse(Buffer.from(written).toString());
    assert.deepEqual([state['last-updated-ms'], snapshots[0]['timestamp-ms']], [1, 1]);
    const metadata = `${tableUrl}/metadata/v1.metadata.json`;
    assert.deepEqual(made, { table: 'trades', rows: 3_000, files: 3, metadata });
    const again = await entryOf(folder, usual(range(2_900, 4_000)), { commit: 2 });
    const other = await entryOf(folder, usual([7, 8]), { commit: 1, product: 'A/B' });
    await table.merge([again, other], fenceOf(1));
    await publishIceberg(folder, table.manifest, 2);
    const rows = await icebergRead({ tableUrl });
    const { rows: expected } = await table.query(
      'SELECT trade_id, epoch_us(trade_ts) AS us, price, taker_side FROM trades',
    );
    const read = rows.map(({ trade_id, trade_ts, price, taker_side }) => {
      const us = Number(trade_ts) * 1000;
      return `${trade_id} ${Math.floor(us / 1000)} ${Number(price).toFixed(2)} ${taker_side}`;
    });
    const own = expected.map((row) => {
      const ms = Math.floor(Number(row.us) / 1000);
      return `${row.trade_id} ${ms} ${Number(row.price).toFixed(2)} ${row.taker_side}`;
    });
    assert.deepEqual(new Set(read), new Set(own));
    assert.equal(read.length, own.length);
    // The metadata of the state before may still be asked for; those before are gone.
    await table.merge([await entryOf(folder, usual([5_000]), { commit: 3 })], fenceOf(1));
    await publishIceberg(folder, table.manifest, 3);
    const there = (await folder.list('iceberg/trades/metadata')).map(({ path }) => path.slice(24));
    const ofVersion = (version: number) => [
      `${version}-m0.avro`,
      `snap-${version}.avro`,
      `v${version}.metadata.json`,
    ];
    assert.deepEqual(there, [...ofVersion(2), ...ofVersion(3), 'version-hint.text'].sort());
  });

  it('is as the format says, file by file, and lists the files of the table', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    // The first product has 18 decimals, and so a table of its own.
    await table.merge(
      [
        await entryOf(folder, tradesOf(range(1, 2_000)), { commit: 1 }),
        await entryOf(folder, [{ ...tradesOf([5])[0], price: '1.5' } as never], {
          ...{ commit: 1, product: 'ETH-USD' },
        }),
      ],
      fenceOf(1),
    );
    const tables = await publishIceberg(folder, table.manifest, 1, { begins: true });
    assert.deepEqual(
      tables.map((one) => [one.table, one.rows]),
      [
        ['trades_coinbase_BTC_USD', 2_000],
        ['trades', 1],
      ],
    );
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    for (const { metadata, rows } of tables) {
      const local = (address: string) => address.replace(/^file:\/\//, '');
      const found = JSON.parse(await readFile(local(metadata), 'utf8'));
      const [snapshot] = found.snapshots;
      assert.equal(snapshot['snapshot-id'], found['current-snapshot-id']);
      const [manifest] = await avroRows<ManifestFile>(local(snapshot['manifest-list']));
      assert.deepEqual([manifest?.content, manifest?.added_rows_count], [0, rows]);
      const entries = await avroRows<ManifestEntry>(local(String(manifest?.manifest_path)));
      const paths = entries.map((entry) => local(entry.data_file.file_path));
      const sql = `SELECT count(*) AS n, min(trade_id) AS first, any_value(typeof(price)) AS type
        FROM read_parquet([${paths.map((path) => `'${path}'`).join()}])`;
      const [row] = await engine.rows(sql);
      assert.equal(Number(row?.n), rows);
      const price = found.schemas[0].fields.find(({ name }: { name: string }) => name === 'price');
      assert.equal(String(row?.type), price.type.toUpperCase().replace(' ', ''));
      const { data_file: first } = entries[0] as ManifestEntry;
      assert.equal(first.lower_bounds[0]?.value.readBigInt64LE(), BigInt(String(row?.first)));
      assert.equal(first.partition.exchange, 'coinbase');
      assert.equal(new Date(first.partition.date * 86_400_000).getUTCFullYear(), 2024);
    }
  });

  it('of a declared source has its columns, also new ones, and follows each change', async () => {
    const posts = {
      name: 'my-posts',
      address: 'http://localhost/posts',
      key: 'id',
      pages: { by: 'offset', offset: '_start', limit: '_limit', size: 10 },
      limits: { perSecond: 5_000 },
    };
    await inScene(posts, async (scene, api, root) => {
      await using site = await serving(root);
      const list: (Record<string, unknown> & { id: number })[] = [{ id: 1, title: 'a', more: [1] }];
      api.lists.set('/posts', list);
      await scene.run();
      await scene.iceberg(site.url);
      list.push({ id: 2, title: 'b', rate: 1.5 });
      await scene.run();
      const tableUrl = `${site.url}/iceberg/my_posts`;
      const metadata = await icebergMetadata({ tableUrl });
      const [{ entries } = { entries: [] }] = await icebergManifests(metadata);
      assert.equal(entries.length, 1);
      const rows = await icebergRead({ tableUrl, metadata });
      assert.deepEqual(
        rows.map(({ id, title, rate, more }) => [Number(id), title, rate ?? null, more ?? null]),
        [
          [1, 'a', null, '[1]'],
          [2, 'b', 1.5, null],
        ],
      );
    });
  });
});
