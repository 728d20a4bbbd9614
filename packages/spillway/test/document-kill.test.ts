import assert from 'node:assert/strict';
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Document } from 'spillway';
import { Child } from './fixtures/child.ts';

/** How often each kind of writer is killed: `SPILLWAY_KILLS` for more. */
const rounds = Number(process.env.SPILLWAY_KILLS ?? 60);
/** Several at once, each with a file of its own, because most of the time is Node starting. */
const lanes = 4;

/** Kills a writer at some moment, again and again, and lets `verify` look at what is left. */
async function killAgain(
  role: string,
  verify: (path: string, told: readonly string[]) => Promise<void>,
): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-kill-'));
  const lane = async (_: unknown, at: number) => {
    const path = join(folder.path, `${at}.json`);
    for (let round = at; round < rounds; round += lanes) {
      await using child = new Child(role, path);
      // The writer never rests, so a random moment from its first line on hits any step of it.
      await child.heard(1 + Math.floor(Math.random() * 10));
      await after(Math.random() * 20);
      await child.kill();
      await verify(path, child.lines);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

describe('A process killed at any moment', () => {
  it(`loses no acknowledged transaction of a document (${rounds} times)`, async () => {
    await killAgain('write', async (path, told) => {
      await using document = await Document.open({ path, initial: { left: 0, right: 0 } });
      const { left, right } = await document.read();
      assert.equal(left, right);
      assert.ok(left >= Math.max(...told.map(Number)), `${left} after ${told.at(-1)}`);
      assert.equal((await document.transaction(() => {})).left, left);
    });
  });

  it(`loses no awaited change of a write-behind cache (${rounds} times)`, async () => {
    await killAgain('writeBehind', async (path, told) => {
      const initial: Record<string, number> = {};
      await using document = await Document.open({ path, initial });
      const value = await document.read();
      for (const line of told) {
        const [key = '', n] = line.split(' ');
        assert.ok((value[key] ?? 0) >= Number(n), `${key}: ${value[key]} after ${n}`);
      }
    });
  });
});
