// Slow: simulates many processes.

import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { processCases } from 'spillway/testing';

describe('real processes on one SQLite file', () => {
  for (const { name, check } of processCases) {
    it(name, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-shared-'));
      const program = join(import.meta.dirname, 'fixtures', 'sqlite-player.ts');
      await check({ program, args: [join(folder.path, 'shared.db')] });
    });
  }
});
