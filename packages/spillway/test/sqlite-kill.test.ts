import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { SqliteFile } from 'spillway';
import { Child, kills } from './fixtures/child.ts';

/** Several on one file: those that are killed leave the others a log to recover. */
const together = 4;

describe('A process killed at any moment', () => {
  const name = 'loses no transaction of a SQLite file and no commit of a store in it';
  it(`${name} (${kills} times)`, async (test) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-kill-'));
    const path = join(folder.path, 'file.db');
    const acknowledged: string[] = [];
    let next = 0;
    const lane = async () => {
      while (next < kills) {
        next += 1;
        const isLooking = next % 20 === 0 || next === kills;
        acknowledged.push(...(await Child.killed('writeSqlite', path, next * 1_000_000)));
        // Looking is as dear as a kill; what was lost once is missing later, too.
        if (isLooking) await verify(path, acknowledged);
      }
    };
    await Promise.all(Array.from({ length: together }, lane));
    await verify(path, acknowledged);
    const transactions = acknowledged.filter((line) => line.startsWith('row')).length;
    const commits = acknowledged.length - transactions;
    test.diagnostic(`${kills} kills, ${transactions} and ${commits} acknowledged, none lost`);
    assert.ok(transactions >= kills && commits >= kills, 'each kill hits both');
  });
});

/** Each number that was acknowledged is there, and no number only by half. */
async function verify(path: string, acknowledged: readonly string[]): Promise<void> {
  const told = [...acknowledged];
  await using file = await SqliteFile.open({ path, readers: 1 });
  const rowsOf = async (sql: string) => (await file.read({ sql, parameters: [] })).rows;
  assert.deepEqual(await rowsOf('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
  const found = new Map<string, string>();
  const add = (key: string, side: unknown) => found.set(key, `${found.get(key) ?? ''} ${side}`);
  for (const { number, side } of await rowsOf('SELECT number, side FROM half ORDER BY side')) {
    add(`row ${number}`, side);
  }
  for (const { name } of await rowsOf('SELECT name FROM spillway_record ORDER BY name')) {
    const [number, side] = String(name).split('/');
    add(`record ${number}`, side);
  }
  const isHalf = ([, sides]: [string, string]) => sides !== ' left right';
  assert.deepEqual([...found].filter(isHalf), []);
  const isLost = (key: string) => !found.has(key);
  assert.deepEqual(told.filter(isLost), []);
}
