import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { seededRandom } from 'spillway';
import type { RawEntry } from '../src/files/raw-file.ts';
import { verify } from '../src/quality/verify.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { entryOf, fenceOf, lines, range, temporaryFolder, tradesOf } from './fixtures/trades.ts';

const rounds = Number(process.env.KILL_ROUNDS ?? 4);
const seed = Number(process.env.KILL_SEED ?? 1);
const child = join(import.meta.dirname, 'fixtures/merge-child.ts');

describe('a process that changes the table and is killed', () => {
  it('leaves the state before or the state after, and the next one goes on', async () => {
    const random = seededRandom(seed);
    await using folder = await temporaryFolder();
    const trades = tradesOf(range(1, 600), { stepUs: 200_000_000 });
    const entries: RawEntry[] = [];
    for (let at = 0; at < 60; at += 1) {
      // Each repeats two trades of the one before, so that files are replaced as well.
      const some = trades.slice(Math.max(0, at * 10 - 2), at * 10 + 10);
      entries.push(await entryOf(folder, some, { commit: at + 1 }));
    }
    const ledger = join(folder.place, 'ledger.json');
    await writeFile(ledger, JSON.stringify(entries));
    let acknowledged = 0;
    for (let round = 1; round <= rounds; round += 1) {
      const args = [child, folder.place, ledger, String(round)];
      const running = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      const closed = once(running, 'close');
      const said = createInterface({ input: running.stdout });
      said.on('line', (line) => {
        acknowledged = Math.max(acknowledged, Number(line.split(' ')[1] ?? 0));
      });
      await Promise.race([new Promise((begun) => said.once('line', begun)), closed]);
      // A moment of real time, because the process that is killed lives in real time.
      await pause(random() * 300);
      running.kill('SIGKILL');
      await closed;
      const table = await TradeTable.open({ folder, lines });
      const { mergedTo = 0, rows = 0 } = table.manifest.products[0] ?? {};
      assert.ok(mergedTo >= acknowledged, `${acknowledged} was acknowledged, ${mergedTo} is there`);
      const { rows: counted } = await table.query(
        'SELECT count(*) AS n, count(DISTINCT trade_id) AS ids, max(trade_id) AS last FROM trades',
      );
      const expected = mergedTo * 10;
      assert.deepEqual(counted, [{ n: expected, ids: expected, last: expected || null }]);
      assert.equal(rows, expected);
    }
    const table = await TradeTable.open({ folder, lines });
    await table.merge(entries, fenceOf(rounds + 1));
    // What the last one had written of the very next version is deleted by the change after it.
    await table.compact(fenceOf(rounds + 2));
    const of = { exchange: 'coinbase', product: 'BTC-USD', generation: 1 };
    const harvested = { from: 1, to: 601 };
    const found = await verify(table, [{ ...of, entries, harvested, gaps: [] }]);
    assert.deepEqual([found.issues, found.waiting], [[], 0]);
    const there = (await folder.list('table/data')).map(({ path }) => path);
    assert.deepEqual(
      there,
      table.manifest.files.map(({ path }) => path),
    );
  });
});
