import assert from 'node:assert/strict';
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document } from 'spillway';
import { Child, kills } from './fixtures/child.ts';

/** Several at once, each with files of its own, because most of the time is Node starting. */
const lanes = 4;
/** A busy machine kills fewer processes, but at least so many, in this time in milliseconds. */
const killsMin = 20;
const killingMs = 120_000;

describe('A process killed at any moment', () => {
  it(`loses no acknowledged transaction of a document (up to ${kills} times)`, async (test) => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-kill-'));
    let acknowledged = 0;
    let done = 0;
    const endsAt = performance.now() + killingMs;
    const lane = async (_: unknown, at: number) => {
      const path = join(folder.path, `${at}.json`);
      for (let round = at; round < kills; round += lanes) {
        if (round >= killsMin && performance.now() > endsAt) return;
        const told = await Child.killed('write', path);
        done += 1;
        acknowledged += told.length;
        await verify(path, told);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
    test.diagnostic(`${done} kills, ${acknowledged} transactions acknowledged, none lost`);
    assert.ok(acknowledged >= done, 'each kill hits a process at work');
  });
});

async function verify(path: string, told: readonly string[]): Promise<void> {
  const initial = { left: 0, right: 0 };
  await using document = await Document.open({ path, initial, deadlineMs: 60_000 });
  const { left, right } = await document.read();
  assert.equal(left, right);
  for (const line of told) {
    const [, number] = line.split(' ');
    assert.ok(left >= Number(number), `${left} after ${number}`);
  }
  assert.equal((await document.transaction(() => {})).left, left);
}
