import assert from 'node:assert/strict';
import { link, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { demandUsedDatabase, noteDatabase } from '../src/commands/used-database.ts';

describe('the note of the database in use', () => {
  it('is replaced whole: a crash leaves no empty one that lets a command pass', async () => {
    const data = await mkdtemp(join(tmpdir(), 'fleet-note-'));
    try {
      const database = 'postgres://user:secret@host/fleet';
      await noteDatabase({ data, database });
      // A second name of the file shows whether its content is changed in place.
      await link(join(data, 'database-used'), join(data, 'before'));
      await noteDatabase({ data, database: 'postgres://host/other' });
      const before = await readFile(join(data, 'before'), 'utf8');
      assert.equal(before, 'postgres://user:***@host/fleet\n');
      assert.deepEqual((await readdir(data)).sort(), ['before', 'database-used']);
      const own = { data, database: `sqlite:${join(data, 'fleet.db')}` };
      await assert.rejects(demandUsedDatabase(own), /used postgres:\/\/host\/other; give the same/);
    } finally {
      await rm(data, { recursive: true });
    }
  });
});
