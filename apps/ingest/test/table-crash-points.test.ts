// Slow: crashes at each step of a change.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LocalFolder } from '../src/files/folder.ts';
import { verify } from '../src/quality/verify.ts';
import { Engine } from '../src/table/engine.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const steps = ['adopt', 'create', 'settle', 'half of settle'] as const;

/** Makes the folder fail for good at one step of a change, as if the process had died there. */
function dieAt(folder: LocalFolder, step: (typeof steps)[number], isAfter: boolean): void {
  const name = step === 'half of settle' ? 'settle' : step;
  const work = folder[name].bind(folder) as (...given: unknown[]) => Promise<unknown>;
  const die = async (...given: unknown[]): Promise<never> => {
    const isHalf = step === 'half of settle';
    const waiting = given[0] as readonly string[];
    if (isHalf) await work(waiting.slice(0, Math.ceil(waiting.length / 2)), []);
    else if (isAfter) await work(...given);
    throw new Error('the process died');
  };
  Object.assign(folder, { [name]: die });
}

/** Rows that a reader of all files sees, and how many of them are different. */
async function rowsIn(folder: LocalFolder): Promise<readonly number[]> {
  await using engine = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder.scratch });
  const all = `read_parquet('${folder.place}/table/data/**/*.parquet', union_by_name = true)`;
  const [row = {}] = await engine.rows(
    `SELECT count(*) AS n, count(DISTINCT trade_id) AS ids FROM ${all}`,
  );
  return [Number(row.n), Number(row.ids)];
}

describe('a change of the table that dies', () => {
  for (const step of steps) {
    for (const isAfter of step === 'half of settle' ? [true] : [false, true]) {
      const when = step === 'half of settle' ? 'in the middle of settle' : `at ${step}`;
      const title = `${when}, ${isAfter ? 'after' : 'before'} it: the next change mends it`;
      it(title, async () => {
        await using folder = await temporaryFolder();
        const before = await entryOf(folder, tradesOf(range(1, 3_000)), { commit: 1 });
        const next = await entryOf(folder, tradesOf(range(3_001, 6_000)), { commit: 2 });
        await (await TradeTable.open({ folder, lines })).merge([before], fenceOf(5));
        const own = { adopt: folder.adopt, create: folder.create, settle: folder.settle };
        dieAt(folder, step, isAfter);
        const dying = await TradeTable.open({ folder, lines });
        await assert.rejects(dying.merge([next], fenceOf(5)), /the process died/);
        Object.assign(folder, own);
        const [rows = 0, ids] = await rowsIn(folder);
        assert.equal(rows, ids);
        assert.ok(rows >= 3_000 && rows <= 6_000, `${rows} rows`);
        const table = await TradeTable.open({ folder, lines });
        const isMade = table.manifest.version === 2;
        const { rows: found } = await table.query('SELECT count(*) AS n FROM trades');
        assert.deepEqual(found, [{ n: isMade ? 6_000 : 3_000 }]);
        const last = await entryOf(folder, tradesOf([6_001]), { commit: 3 });
        await table.merge(isMade ? [last] : [next, last], fenceOf(6));
        assert.deepEqual(await rowsIn(folder), [6_001, 6_001]);
        const ledger = { exchange: 'coinbase', product: 'BTC-USD', generation: 1, gaps: [] };
        const harvested = { from: 1, to: 6_002 };
        const entries = [before, next, last];
        const checked = await verify(table, [{ ...ledger, entries, harvested }]);
        assert.deepEqual([checked.issues, checked.waiting], [[], 0]);
      });
    }
  }
});
