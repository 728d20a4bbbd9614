// Slow: reads a table while it changes, many times.

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { Engine } from '../src/table/engine.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const commitsMin = 24;
const perCommit = 20;

describe('a reader of all Parquet files', () => {
  it('sees every committed trade once at every moment, also while files are joined', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    const glob = `${folder.place}/**/*.parquet`;
    const sql = `SELECT count(*) AS n, count(DISTINCT trade_id) AS ids
      FROM read_parquet('${glob}')`;
    // While files are put in place, for less than a millisecond, a read may see old and new, or
    // find a file gone that it has listed.
    let isSettling = false;
    let settled = 0;
    const settle = folder.settle.bind(folder);
    folder.settle = async (waiting, gone) => {
      isSettling = true;
      await settle(waiting, gone);
      isSettling = false;
      settled += 1;
    };
    let begun = 0;
    let committed = 0;
    const change = async (): Promise<void> => {
      // On until there were enough reads between two changes, also where those are quick.
      for (let commit = 1; commit <= commitsMin || reads <= 3; commit += 1) {
        const ids = range((commit - 1) * perCommit + 1, commit * perCommit);
        const entry = await entryOf(folder, tradesOf(ids), { commit });
        begun = commit;
        await table.merge([entry], fenceOf(1));
        committed = commit;
        if (commit % 4 === 0) await table.compact(fenceOf(1), 4);
      }
    };
    let isDone = false;
    let reads = 0;
    const changing = change().finally(() => {
      isDone = true;
    });
    try {
      while (!isDone) {
        const before = committed;
        const after = settled;
        const isLate = isSettling;
        const found = before === 0 ? [{ n: 0, ids: 0 }] : await engine.rows(sql).catch(String);
        const isOverlap = isLate || isSettling || settled !== after;
        const { n, ids } = typeof found === 'string' ? { n: -1, ids: 0 } : Object(found[0]);
        assert.ok(Number(ids) <= begun * perCommit, `${ids} when ${begun} was begun`);
        if (!isOverlap) {
          assert.equal(Number(n), Number(ids), String(found));
          assert.ok(Number(ids) >= before * perCommit, `${ids} after commit ${before}`);
          reads += 1;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      await changing;
    }
    const all = committed * perCommit;
    assert.deepEqual(await engine.rows(sql), [{ n: String(all), ids: String(all) }]);
    const there = (await folder.list('table/data')).map(({ path }) => path);
    assert.deepEqual(
      there,
      table.manifest.files.map(({ path }) => path),
    );
  });

  it('finds old and new files of one day at a time where many days are joined', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    const day = 86_400_000_000;
    for (const commit of [1, 2]) {
      const trades = tradesOf([10 * commit, 10 * commit + 1, 10 * commit + 2]);
      const days = trades.map((trade, at) => ({ ...trade, us: trade.us + at * day }));
      await table.merge([await entryOf(folder, days, { commit })], fenceOf(1));
    }
    const steps: (readonly string[])[] = [];
    const settle = folder.settle.bind(folder);
    folder.settle = async (waiting, gone) => {
      steps.push([...waiting, ...gone].map(dirname));
      await settle(waiting, gone);
    };
    await table.compact(fenceOf(1));
    const days = table.manifest.files.map(({ path }) => dirname(path));
    assert.equal(days.length, 3);
    const joined = steps.filter((step) => step.length > 0);
    assert.deepEqual(
      joined,
      days.map((one) => [one, one, one]),
    );
  });

  it('can read the manifest: one JSON document that names the files', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    await table.merge([await entryOf(folder, tradesOf([1, 2, 3]), { commit: 1 })], fenceOf(1));
    const [{ path } = { path: '' }] = await folder.list('table/manifest');
    const { format, files } = JSON.parse(Buffer.from(await folder.read(path)).toString());
    assert.equal(format, 'spillway-trades');
    assert.deepEqual(files, table.manifest.files);
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    const file = join(folder.place, files[0]?.path ?? '');
    const rows = await engine.rows(`SELECT count(*) AS n FROM read_parquet('${file}')`);
    assert.deepEqual(rows, [{ n: '3' }]);
  });

  it('is right again after a change that was killed between its steps', async () => {
    await using folder = await temporaryFolder();
    await using table = await TradeTable.open({ folder, lines });
    await table.merge([await entryOf(folder, tradesOf(range(1, 10)), { commit: 1 })], fenceOf(1));
    const settle = folder.settle.bind(folder);
    folder.settle = async (waiting, gone) => {
      if (waiting.length > 0) throw new Error('killed');
      await settle(waiting, gone);
    };
    const again = await entryOf(folder, tradesOf(range(5, 20)), { commit: 2 });
    await assert.rejects(table.merge([again], fenceOf(1)), /killed/);
    folder.settle = settle;
    // Readers by the manifest see the new state, readers of the folder still the one before.
    const next = await TradeTable.open({ folder, lines });
    const sql = 'SELECT count(*) AS n FROM trades';
    assert.deepEqual((await next.query(sql)).rows, [{ n: 20 }]);
    await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
    const glob = `SELECT count(*) AS n FROM read_parquet('${folder.place}/**/*.parquet')`;
    assert.deepEqual(await engine.rows(glob), [{ n: '10' }]);
    const third = await entryOf(folder, tradesOf([21]), { commit: 3 });
    await next.merge([third], fenceOf(2));
    assert.deepEqual(await engine.rows(glob), [{ n: '21' }]);
    assert.deepEqual((await next.query(sql)).rows, [{ n: 21 }]);
  });
});
