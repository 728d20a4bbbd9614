import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pageOf } from '../src/connectors/page.ts';
import { numbered } from '../src/connectors/pagers.ts';
import type { Folder } from '../src/files/folder.ts';
import { type RawEntry, writeRawFile } from '../src/files/raw-file.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import { fenceOf, temporaryFolder } from './fixtures/trades.ts';

const dayUs = 86_400_000_000n;
const lines = { notes: { key: ['id'], declared: {} } };

interface Note {
  readonly id: number | string;
  readonly text: string;
  readonly day: number;
}

/** A raw file of records, numbered from `seq` on. */
async function entryOf(
  folder: Folder,
  notes: readonly Note[],
  seq: number,
  commit: number,
): Promise<RawEntry> {
  const found = notes.map((value) => {
    return { text: JSON.stringify(value), value: { ...value }, us: BigInt(value.day) * dayUs };
  });
  const of = { exchange: 'notes', product: 'all', generation: 1 };
  const range = { ...of, fence: 1, from: seq, to: seq + notes.length };
  const page = pageOf(found.map((one, place) => numbered(one, seq + place)));
  const file = await writeRawFile(folder, range, [page]);
  return { ...(file ?? assert.fail()), ...of, commit };
}

for (const [kind, idOf] of [
  ['numbers', (at: number) => at],
  ['texts', (at: number) => `n${String(at).padStart(5, '0')}`],
] as const) {
  describe(`records with a key of ${kind}`, () => {
    it('that change cost the files of their keys, however long the history is', async () => {
      await using folder = await temporaryFolder();
      const opened: string[] = [];
      const watched = new Proxy(folder, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name, target);
          if (typeof value !== 'function') return value;
          return (...words: unknown[]) => {
            if (name === 'hold') opened.push(String(words[0]));
            return Reflect.apply(value, target, words);
          };
        },
      });
      await using table = await TradeTable.open({ folder: watched, lines });
      const days = 20;
      const notes = Array.from({ length: 100 * days }, (_, at): Note => {
        return { id: idOf(at), text: 'first', day: Math.floor(at / 100) };
      });
      await table.merge([await entryOf(folder, notes, 1, 1)], fenceOf(1));
      assert.equal(table.manifest.files.length, days);
      opened.length = 0;
      // One of the third day, which moves to another day, and one that is new.
      const news: readonly Note[] = [
        { id: idOf(250), text: 'second', day: 19 },
        { id: idOf(9_000), text: 'new', day: 19 },
      ];
      const before = new Set(table.manifest.files.map(({ path }) => path));
      await table.merge([await entryOf(folder, news, 2_001, 2)], fenceOf(1));
      const read = new Set(opened.filter((path) => path.startsWith('table/')));
      assert.equal(read.size, 1, [...read].join());
      const made = table.manifest.files.filter(({ path }) => !before.has(path));
      assert.deepEqual(
        made.map(({ rows }) => rows),
        [99, 2],
      );
      const { rows } = await table.query(`SELECT count(*) AS n, count(DISTINCT id) AS ids,
        max(text) FILTER (id = '${idOf(250)}') AS changed FROM notes`);
      assert.deepEqual(rows, [{ n: 2_001, ids: 2_001, changed: 'second' }]);
      await table.compact(fenceOf(1));
      assert.equal(table.manifest.files.length, days);
      // A file whose records were all replaced is gone.
      const all = notes.slice(0, 100).map((note) => ({ ...note, day: 30 }));
      await table.merge([await entryOf(folder, all, 2_003, 3)], fenceOf(1));
      assert.ok(table.manifest.files.every(({ date }) => date !== '1970-01-01'));
    });
  });
}

it('a record whose key was taken for a time is found when the key becomes a text', async () => {
  await using folder = await temporaryFolder();
  await using table = await TradeTable.open({ folder, lines });
  const id = '2026-01-01T00:00:00Z';
  const first: readonly Note[] = [{ id, text: 'first', day: 0 }];
  await table.merge([await entryOf(folder, first, 1, 1)], fenceOf(1));
  const news: readonly Note[] = [
    { id: 'never', text: 'new', day: 0 },
    { id, text: 'second', day: 0 },
  ];
  await table.merge([await entryOf(folder, news, 2, 2)], fenceOf(1));
  // Once more, when the type is known to have changed.
  await table.merge([await entryOf(folder, [{ id, text: 'third', day: 0 }], 4, 3)], fenceOf(1));
  const { rows } = await table.query('SELECT text FROM notes ORDER BY _seq');
  assert.deepEqual(rows, [{ text: 'new' }, { text: 'third' }]);
});
