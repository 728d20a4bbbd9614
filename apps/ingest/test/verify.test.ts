import assert from 'node:assert/strict';
import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import type { IdRange } from '../src/connectors/page.ts';
import type { LocalFolder } from '../src/files/folder.ts';
import type { RawEntry } from '../src/files/raw-file.ts';
import { type ExpectedProduct, type Verification, verify } from '../src/quality/verify.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const of = { exchange: 'coinbase', product: 'BTC-USD', generation: 1 };

describe('verify', () => {
  let folder: LocalFolder;
  let table: TradeTable;
  let entries: readonly RawEntry[];

  before(async () => {
    folder = await temporaryFolder();
    table = await TradeTable.open({ folder, lines });
    // 101 to 119 and 150 are missing.
    const parts = [range(1, 100), [...range(120, 149), ...range(151, 300)]];
    entries = [
      await entryOf(folder, tradesOf(parts[0] as number[]), { commit: 1 }),
      await entryOf(folder, tradesOf(parts[1] as number[]), { commit: 2 }),
    ];
    await table.merge(entries, fenceOf(1));
  });
  after(async () => await folder[Symbol.asyncDispose]());

  const found = async (change: Partial<ExpectedProduct>): Promise<Verification> => {
    const gaps: readonly IdRange[] = [
      { from: 101, to: 120 },
      { from: 150, to: 151 },
    ];
    const harvested = { from: 1, to: 301 };
    return await verify(table, [{ ...of, entries, harvested, gaps, ...change }]);
  };
  const flaws = ({ issues }: Verification): readonly string[] => {
    return issues.map(({ flaw, ids }) => (ids ? `${flaw} ${ids.from}-${ids.to - 1}` : flaw));
  };

  it('tells gaps that the ledger knows from those it does not', async () => {
    assert.deepEqual(flaws(await found({})), ['known-gap 101-119', 'known-gap 150-150']);
    const some = await found({ gaps: [{ from: 105, to: 110 }] });
    assert.deepEqual(flaws(some), [
      'gap 101-104',
      'known-gap 105-109',
      'gap 110-119',
      'gap 150-150',
    ]);
  });

  it('finds what is missing at the ends of what was harvested', async () => {
    const wider = await found({ harvested: { from: -4, to: 310 }, gaps: [{ from: 101, to: 151 }] });
    const expected = ['gap -4-0', 'known-gap 101-119', 'known-gap 150-150', 'gap 301-309'];
    assert.deepEqual(flaws(wider), expected);
    const narrower = await found({ harvested: { from: 1, to: 300 } });
    assert.ok(narrower.issues.some(({ message }) => /beyond what was harvested/.test(message)));
  });

  it('tells a change that was not finished from one that goes on', async () => {
    const [file] = table.manifest.files;
    const old = join(folder.place, file?.path.replace(/[\da-f]{16}/, '0'.repeat(16)) ?? '');
    await copyFile(join(folder.place, file?.path ?? ''), old);
    assert.ok(flaws(await found({})).includes('foreign'));
    await using other = await TradeTable.open({ folder, lines });
    other.strays = async () => {
      const seen = await table.strays();
      await rm(old, { force: true });
      return seen;
    };
    assert.deepEqual(
      (await verify(other, [])).issues.map(({ flaw }) => flaw),
      ['count'],
    );
  });

  it('finds raw files that are damaged or gone, by name', async () => {
    const [first, second] = entries as [RawEntry, RawEntry];
    const path = join(folder.place, first.file);
    const bytes = await readFile(path);
    await writeFile(path, Buffer.concat([bytes, Buffer.from('x')]));
    const missing = { ...second, file: second.file.replace('120-', '121-') };
    const { issues } = await found({ entries: [first, missing] });
    await writeFile(path, bytes);
    const raw = issues.filter(({ flaw }) => flaw === 'raw');
    assert.deepEqual(
      raw.map(({ file }) => file),
      [first.file, missing.file],
    );
    assert.match(raw[0]?.message ?? '', /sha256/);
  });

  it('says what is not in the table yet, and what only the table has', async () => {
    const next = await entryOf(folder, tradesOf(range(301, 310)), { commit: 3 });
    const behind = await found({ entries: [...entries, next], harvested: { from: 1, to: 311 } });
    // What is in the table is checked all the same.
    assert.deepEqual(flaws(behind), ['known-gap 101-119', 'known-gap 150-150']);
    assert.equal(behind.waiting, 1);
    const apart = await entryOf(folder, tradesOf(range(311, 320)), { commit: 3 });
    const late = await found({ entries: [...entries, apart], harvested: { from: 1, to: 321 } });
    assert.deepEqual(flaws(late).slice(2), ['gap 301-310']);
    const fills = await entryOf(folder, tradesOf(range(101, 119)), { commit: 3 });
    assert.deepEqual(flaws(await found({ entries: [...entries, fills] })), []);
    const other = await found({ generation: 2 });
    assert.deepEqual([flaws(other), other.waiting], [[], 2]);
    assert.match((await verify(table, [])).issues[0]?.message ?? '', /ledger does not know it/);
    const fewer = await found({ entries: entries.slice(1) });
    assert.ok(fewer.issues.some(({ message }) => /280 trades were read, .* has 180/.test(message)));
  });

  it('finds repeats in a file, though it is one that the manifest names', async () => {
    const [file] = table.manifest.files;
    const path = join(folder.place, file?.path ?? '');
    const kept = join(folder.scratch, 'kept.parquet');
    await copyFile(path, kept);
    const instance = await DuckDBInstance.create();
    const connection = await instance.connect();
    await connection.run(`COPY (SELECT * FROM '${kept}' UNION ALL SELECT * FROM '${kept}'
      WHERE trade_id = 7) TO '${path}' (FORMAT parquet)`);
    connection.closeSync();
    instance.closeSync();
    const { issues } = await found({});
    assert.deepEqual(
      issues.filter(({ flaw }) => !flaw.endsWith('gap')).map(({ flaw }) => flaw),
      ['file', 'duplicate'],
    );
    await copyFile(kept, path);
    assert.deepEqual(flaws(await found({})), ['known-gap 101-119', 'known-gap 150-150']);
  });
});
