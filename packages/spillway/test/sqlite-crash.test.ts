import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtempDisposable, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type Random, SqliteFile, SqliteStore, seededRandom } from 'spillway';

const fixture = (name: string) => join(import.meta.dirname, 'fixtures', name);
const temporary = () => mkdtempDisposable(join(tmpdir(), 'spillway-crash-'));

/** How many writers are killed; set `SPILLWAY_KILLS` for a longer run. */
const kills = Number(process.env.SPILLWAY_KILLS ?? 60);
const together = 4;

function start(name: string, ...args: readonly string[]): ChildProcess {
  const { NODE_TEST_CONTEXT, ...inherited } = process.env;
  // A process starts in half the time when it finds its modules compiled.
  const env = { ...inherited, NODE_COMPILE_CACHE: join(tmpdir(), 'spillway-compiled') };
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  return spawn(process.execPath, [fixture(name), ...args], { env, stdio: [...stdio] });
}

/** Runs the writer until it has acknowledged something, and some random time more. */
async function killedWriter(path: string, first: number, random: Random): Promise<string[]> {
  const child = start('sqlite-writer.ts', path, String(first));
  let printed = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  const closed = once(child, 'close');
  await Promise.race([once(child.stdout as NodeJS.ReadableStream, 'data'), closed]);
  await setTimeout(random() * 30);
  child.kill('SIGKILL');
  const [, signal] = await closed;
  assert.equal(signal, 'SIGKILL', 'the writer ended by itself');
  const lines = printed.split('\n');
  // What follows the last line feed was never said in full.
  return lines.slice(0, -1);
}

/** Every number whose both halves are there; fails if any has only one. */
async function wholes(path: string): Promise<Set<string>> {
  await using file = await SqliteFile.open({ path, readers: 1 });
  const rowsOf = async (sql: string) => (await file.read({ sql, parameters: [] })).rows;
  assert.deepEqual(await rowsOf('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
  const found = new Map<string, string[]>();
  const add = (key: string, side: string) => found.set(key, [...(found.get(key) ?? []), side]);
  for (const { number, side } of await rowsOf('SELECT number, side FROM half')) {
    add(`w${number}`, String(side));
  }
  for (const { name } of await rowsOf('SELECT name FROM spillway_record')) {
    const [number, side] = String(name).split('/');
    add(`c${number}`, String(side));
  }
  for (const [key, sides] of found) assert.deepEqual(sides.sort(), ['left', 'right'], key);
  return new Set(found.keys());
}

describe('a SQLite file', () => {
  it('loses nothing acknowledged, whenever its process is killed', async (test) => {
    await using folder = await temporary();
    const path = join(folder.path, 'file.db');
    const random = seededRandom(Number(process.env.SPILLWAY_SEED ?? 1));
    const acknowledged: string[] = [];
    let next = 0;
    while (next < kills) {
      // Several at once: those that are killed leave the others a log to recover.
      const writers = Array.from({ length: Math.min(together, kills - next) }, () => {
        next += 1;
        return killedWriter(path, next * 1_000_000, random);
      });
      acknowledged.push(...(await Promise.all(writers)).flat());
      // Looking is as dear as a kill; what was lost once is missing later, too.
      if (next % 24 !== 0 && next !== kills) continue;
      const found = await wholes(path);
      const lost = acknowledged.filter((key) => !found.has(key));
      assert.deepEqual(lost, [], `lost by kill ${next}`);
    }
    test.diagnostic(`${kills} kills, ${acknowledged.length} acknowledged, none lost`);
  });

  it('counts right to 2,000 in 8 processes', async () => {
    await using folder = await temporary();
    const path = join(folder.path, 'file.db');
    const children = Array.from({ length: 8 }, () => start('sqlite-counter.ts', path, '250'));
    const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]));
    assert.deepEqual(codes, new Array(8).fill(0));
    await using store = await SqliteStore.open(path);
    assert.equal((await store.read(['count'])).records[0]?.value, 2_000);
  });

  it('counts right to 1,000 from 1,000 callers at once', async () => {
    await using folder = await temporary();
    await using file = await SqliteFile.open({ path: join(folder.path, 'file.db') });
    await file.write([
      { sql: 'CREATE TABLE counter (count INTEGER)', parameters: [] },
      { sql: 'INSERT INTO counter VALUES (0)', parameters: [] },
    ]);
    const sql = 'UPDATE counter SET count = count + 1 RETURNING count';
    const seen = await Promise.all(
      Array.from({ length: 1_000 }, async () => {
        const [result] = await file.write([{ sql, parameters: [] }]);
        return result?.rows[0]?.count;
      }),
    );
    assert.deepEqual(
      new Set(seen),
      new Set(Array.from({ length: 1_000 }, (_, count) => count + 1)),
    );
  });

  it('counts right to 150 from 150 callers that compare and set', async () => {
    await using folder = await temporary();
    await using store = await SqliteStore.open(join(folder.path, 'file.db'));
    const increment = async () => {
      for (;;) {
        const record = (await store.read(['count'])).records[0];
        const value = Number(record?.value ?? 0) + 1;
        const change = { name: 'count', value, ifVersion: record?.version ?? 0 };
        if ((await store.commit([change])) !== undefined) return;
      }
    };
    await Promise.all(Array.from({ length: 150 }, increment));
    assert.equal((await store.read(['count'])).records[0]?.value, 150);
  });

  it('says when the disk is full, loses nothing, and goes on when there is room', async (test) => {
    await using folder = await temporary();
    const disk = join(folder.path, 'disk');
    await mkdir(disk);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]);
    if (mounted.status !== 0) return test.skip('a small disk cannot be mounted here');
    await using stack = new AsyncDisposableStack();
    stack.defer(() => void spawnSync('umount', [disk]));
    const ballast = join(disk, 'ballast');
    await writeFile(ballast, Buffer.alloc(1_000_000));
    const file = stack.use(await SqliteFile.open({ path: join(disk, 'file.db'), readers: 1 }));
    const create = 'CREATE TABLE page (number INTEGER PRIMARY KEY, bytes BLOB)';
    await file.write([{ sql: create, parameters: [] }]);
    const done: number[] = [];
    const fill = async (number: number): Promise<void> => {
      const sql = 'INSERT INTO page (number, bytes) VALUES (?, ?)';
      await file.write([{ sql, parameters: [number, new Uint8Array(3_000)] }]);
      done.push(number);
    };
    const numbers = Array.from({ length: 1_000 }, (_, number) => number);
    const filled = await Promise.allSettled(numbers.map(fill));
    const failures = filled.filter((result) => result.status === 'rejected');
    assert.ok(failures.length > 0 && done.length > 0, `${done.length} of 1,000 fitted`);
    for (const { reason } of failures) {
      assert.deepEqual(
        [reason.code, reason.status, reason.retryable],
        ['DATABASE_FULL', 507, false],
      );
    }
    await rm(ballast);
    await fill(1_000);
    const { rows } = await file.read({ sql: 'SELECT number FROM page', parameters: [] });
    assert.deepEqual(
      rows.map(({ number }) => number),
      done.sort((a, b) => a - b),
    );
  });
});
