import assert from 'node:assert/strict';
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document } from 'spillway';
import { Child, kills } from './fixtures/child.ts';

/** Several at once, each with files of its own, because most of the time is Node starting. */
const lanes = 4;

describe('A process killed at any moment', () => {
  const name = 'loses no transaction of a document and no awaited change of a write-behind cache';
  it(`${name} (${kills} times)`, async (test) => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-kill-'));
    const acknowledged: string[] = [];
    const lane = async (_: unknown, at: number) => {
      const path = join(folder.path, String(at));
      for (let round = at; round < kills; round += lanes) {
        const told = await Child.killed('writeBoth', path);
        acknowledged.push(...told);
        await verify(path, told);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    const transactions = acknowledged.filter((line) => line.startsWith('document')).length;
    const changes = acknowledged.length - transactions;
    test.diagnostic(`${kills} kills, ${transactions} and ${changes} acknowledged, none lost`);
    assert.ok(transactions >= kills && changes >= kills, 'each kill hits both');
  });
});

async function verify(path: string, told: readonly string[]): Promise<void> {
  const halves = { left: 0, right: 0 };
  await using document = await Document.open({ path: `${path}.json`, initial: halves });
  const { left, right } = await document.read();
  assert.equal(left, right);
  const initial: Record<string, number> = {};
  await using cached = await Document.open({ path: `${path}.cache.json`, initial });
  const value: Record<string, number> = { ...(await cached.read()), document: left };
  for (const line of told) {
    const [key = '', n] = line.split(' ');
    assert.ok((value[key] ?? 0) >= Number(n), `${key}: ${value[key]} after ${n}`);
  }
  assert.equal((await document.transaction(() => {})).left, left);
}
