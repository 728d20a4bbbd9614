import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FileLock } from 'spillway';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';
import { primaryLockPath } from '../src/primary/claim.ts';
import type { FleetSchema } from '../src/storage/fleet-schema.ts';
import { FleetStorage } from '../src/storage/fleet-storage.ts';
import { exportFleet } from '../src/transfer/export-fleet.ts';
import { importFleet } from '../src/transfer/import-fleet.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

const action = {
  ...{ action: 'system_event', username: 'x', run_id: null, run: null, task_id: null },
  ...{ worker: null, message: 'a "quoted"\nline', user: null, nn: null },
};

/** A data folder with some of everything. */
async function filled(folder: string, rows = 1_234): Promise<string> {
  const data = join(folder, 'from');
  mkdirSync(join(data, 'nets'), { recursive: true });
  mkdirSync(join(data, 'pgns', 'a'.repeat(24)), { recursive: true });
  writeFileSync(join(data, 'nets', 'nn-0123456789ab.nnue'), Buffer.alloc(600_000, 7));
  writeFileSync(join(data, 'nets', '.half.part'), 'half');
  writeFileSync(join(data, 'pgns', 'a'.repeat(24), '0-ab.pgn.gz'), 'games');
  await using database = await Database.open<FleetSchema>({ url: urlOf(data) });
  const storage = new FleetStorage(database);
  await storage.migrate();
  const actions = Array.from({ length: rows }, (_, id) => ({
    ...action,
    id: `${id}`,
    time: id / 3,
  }));
  for (let at = 0; at < rows; at += 500) {
    await database.kysely
      .insertInto('actions')
      .values(actions.slice(at, at + 500))
      .execute();
  }
  await storage.setDocument('kept', { é: [1, null] });
  const pgn = { run_id: 'a'.repeat(24), task_id: 0, size: 5, stored_at: 1.5, sha256: 'ab' };
  await database.kysely.insertInto('pgns').values(pgn).execute();
  return data;
}

const urlOf = (data: string) => `sqlite:${join(data, 'fleet.db')}`;

async function exported(data: string, files = true, database = urlOf(data)): Promise<string> {
  let text = '';
  const onGone = (file: string) => assert.fail(file);
  for await (const line of exportFleet({ database, data, files, onGone })) text += line;
  return text;
}

async function imported(
  data: string,
  text: string,
  replace = false,
  database = urlOf(data),
): Promise<{ readonly rows: number; readonly files: number }> {
  mkdirSync(data, { recursive: true });
  // Pieces of an odd length: lines do not come one by one.
  const bytes = Buffer.from(text);
  async function* source() {
    for (let at = 0; at < bytes.length; at += 10_007) yield bytes.subarray(at, at + 10_007);
  }
  return importFleet({ database, data, source: source(), replace });
}

/** Without the time in its first line, and the checksum that depends on it. */
function content(text: string): string[] {
  return text.split('\n').slice(1, -2);
}

describe('export and import', () => {
  it('carry everything from one database to another', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const text = await exported(await filled(folder));
    const to = join(folder, 'to');
    assert.deepEqual(await imported(to, text), { rows: 1_236, files: 2 });
    assert.deepEqual(content(await exported(to)), content(text));
    assert.ok(
      readFileSync(join(to, 'nets', 'nn-0123456789ab.nnue')).equals(Buffer.alloc(600_000, 7)),
    );
    assert.equal(readFileSync(join(to, 'pgns', 'a'.repeat(24), '0-ab.pgn.gz'), 'utf8'), 'games');
    assert.doesNotMatch(text, /primary_instance|half/);
    assert.equal(
      readdirSync(to).some((name) => name.startsWith('.import')),
      false,
    );
  });

  it('carry everything to Postgres and back', async () => {
    await using stack = new AsyncDisposableStack();
    const [folder, url] = [await temporaryFolder(stack), await postgresUrl(stack)];
    const text = await exported(await filled(folder));
    const to = join(folder, 'to');
    assert.deepEqual(await imported(to, text, false, url), { rows: 1_236, files: 2 });
    await assert.rejects(imported(to, text, false, url), /database: is not empty \(documents\)/);
    const back = await exported(to, true, url);
    assert.deepEqual(new Set(content(back)), new Set(content(text)));
    assert.deepEqual(await imported(join(folder, 'back'), back), { rows: 1_236, files: 2 });
    const cut = back.slice(0, back.length / 2);
    await assert.rejects(imported(to, cut, true, url), /is not JSON|without the last one/);
    assert.deepEqual(content(await exported(to, true, url)), content(back));
  });

  it('leave a database alone that is not empty, unless it shall be replaced', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const data = await filled(folder, 5);
    const text = await exported(data, false);
    await assert.rejects(imported(data, text), /database: is not empty \(documents\); --replace/);
    assert.deepEqual(await imported(data, text, true), { rows: 7, files: 0 });
    assert.deepEqual(content(await exported(data, false)), content(text));
  });

  const damages: readonly (readonly [string, (lines: string[]) => string[], RegExp])[] = [
    ['was cut', (lines) => lines.slice(0, -1), /it ends after \d+ lines, without the last one/],
    ['lost a line', (lines) => lines.toSpliced(3, 1), /the checksum is wrong/],
    [
      'was changed',
      (lines) => lines.map((line) => line.replace('"username":"x"', '"username":"y"')),
      /the checksum is wrong/,
    ],
    ['goes on after its end', (lines) => [...lines, '{}'], /follows the end/],
    ['is something else', () => ['{"a":1}'], /line 1: this is not what fleet has written/],
    ['is no JSON', (lines) => lines.with(2, '{'), /line 3: is not JSON/],
    ['is empty', () => [], /it ends after 0 lines/],
    [
      'is of another version',
      (lines) => lines.with(0, (lines[0] as string).replace('"version":1', '"version":2')),
      /line 1: this is version 2 of tables \d+, and here is version 1/,
    ],
    [
      'names a table that is not there',
      (lines) => lines.with(1, '{"table":"spillway_record","row":{}}'),
      /there is no table spillway_record here/,
    ],
    [
      'leads out of the folder',
      (lines) => lines.with(1, '{"file":"nets/../../x","at":0,"base64":""}'),
      /neither a row nor a file that belongs here/,
    ],
    [
      'lost a piece of a file',
      (lines) => lines.filter((line) => !/"file":"nets.*"at":0,/.test(line)),
      /nn-0123456789ab\.nnue: a piece is missing/,
    ],
  ];
  it('take all or nothing', async (test) => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const lines = (await exported(await filled(folder, 5))).trimEnd().split('\n');
    const to = join(folder, 'to');
    for (const [name, damage, words] of damages) {
      await test.test(`refusing what ${name}`, async () => {
        const text = damage(lines).map((line) => `${line}\n`);
        await assert.rejects(imported(to, text.join('')), words);
        assert.equal(existsSync(join(to, 'nets')), false);
      });
    }
    assert.deepEqual(content(await exported(to)), []);
    assert.deepEqual(await imported(to, `${lines.join('\n')}\n`), { rows: 7, files: 2 });
  });

  it('leave out games that a server removes meanwhile, and tell', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const data = await filled(folder, 5);
    const games = join(data, 'pgns', 'a'.repeat(24));
    for (const task of [1, 2]) writeFileSync(join(games, `${task}-ab.pgn.gz`), 'games');
    const gone: string[] = [];
    const onGone = (file: string) => gone.push(file);
    let text = '';
    const removed = new Set<string>();
    const options = { database: urlOf(data), data, files: true, onGone };
    for await (const line of exportFleet(options)) {
      text += line;
      const { file } = JSON.parse(line);
      if (!file?.startsWith('pgns/') || removed.size > 0) continue;
      for (const name of readdirSync(games)) {
        if (file.endsWith(`/${name}`)) continue;
        rmSync(join(games, name));
        removed.add(`pgns/${'a'.repeat(24)}/${name}`);
      }
    }
    assert.equal(removed.size, 2);
    assert.deepEqual(new Set(gone), removed);
    assert.deepEqual(await imported(join(folder, 'to'), text), { rows: 7, files: 2 });
  });

  it('keep away from a database that a server decides about', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const data = await filled(folder, 5);
    const lock = stack.use(new FileLock({ path: primaryLockPath(urlOf(data)) as string }));
    stack.use(await lock.acquire());
    const text = await exported(data);
    await assert.rejects(imported(data, text, true), /a server has it open; stop that first/);
    assert.deepEqual(content(await exported(data)), content(text));
  });

  it('say what is missing where there is nothing to export', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    await assert.rejects(exported(folder), /there is no file .*fleet\.db; see --data/);
  });
});
