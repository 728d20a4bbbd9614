import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Json } from 'spillway';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { type Ended, IngestCommand, ingest, plainEnvironment } from './fixtures/ingest-command.ts';

const folder = await mkdtemp(join(tmpdir(), 'ingest-bad-'));
const exchange = await startExchange({
  products: [
    { id: 'A-USD', trades: 40_000 },
    { id: 'B-USD', trades: 300 },
    { id: 'N-USD', trades: 3_000, numericFrom: 2_000 },
  ],
});
after(async () => {
  await exchange.close();
  await rm(folder, { recursive: true, force: true });
});

function flagsOf(name: string): Record<string, string> {
  const place = { data: join(folder, name), exchange: 'simulated', baseUrl: exchange.url };
  return { ...place, ratePerSecond: '200' };
}

function place(name: string): readonly string[] {
  const { data, baseUrl } = flagsOf(name);
  const where = ['--data', data as string, '--exchange', 'simulated'];
  return [...where, '--base-url', baseUrl as string, '--rate-per-second', '200'];
}

/** It has failed, and says so in words for people. */
function assertFailed({ code, stdout, stderr }: Ended, message: RegExp): void {
  assert.equal(code, 1, stdout + stderr);
  assert.match(stdout + stderr, message);
  assert.doesNotMatch(stderr, /\n\s+at /);
}

const program = join(import.meta.dirname, '..', 'bin', 'ingest.js');
const canMount = spawnSync('unshare', ['-rm', 'true']).status === 0;

/** Shell lines with a small disk of their own at `$disk`; `ingest` runs a command on it. */
async function onSmallDisk(name: string, script: string): Promise<string> {
  const disk = join(folder, name);
  await mkdir(disk);
  const words = place(name).join(' ');
  const lines = `mount -t tmpfs -o size=1m none "$disk"
    ingest() { echo "> $*"; "${process.execPath}" "${program}" "$@" ${words} 2>&1; echo "exit $?"; }
    ${script}`;
  const child = spawn('unshare', ['-rm', 'sh', '-c', lines], {
    env: { ...plainEnvironment(), disk },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return Buffer.concat(await child.stdout.toArray()).toString();
}

describe('ingest, where the disk does not do', { skip: !canMount && 'no namespaces here' }, () => {
  it('names the file for which there is no room, and goes on once there is', async () => {
    const said = await onSmallDisk(
      'full',
      // The store has a place of its own, so that it is always a raw file that finds no room.
      `export INGEST_STORE="sqlite:${join(folder, 'full.db')}"
      mount -o remount,size=300k "$disk"
      ingest run A-USD
      mount -o remount,size=64m "$disk"
      ingest run A-USD
      ingest verify`,
    );
    const full = /> run A-USD\n[^>]*\/full\/\S+[^>]*(ENOSPC|No space left)[^>]*exit 1\n/;
    assert.match(said, full);
    assert.match(said, /> verify\n40,000 trades of 1 product .* nothing is missing.*\nexit 0\n/);
  });

  it('leaves nothing of an export for which there was no room', async () => {
    const said = await onSmallDisk(
      'export',
      `mount -o remount,size=64m "$disk"
      ingest run A-USD
      dd if=/dev/zero of="$disk/fill" bs=64k 2>/dev/null; truncate -s -400k "$disk/fill"
      ingest export "$disk/all.duckdb"
      ls "$disk" | sed 's/^/left: /'`,
    );
    assert.match(said, /> export .*\n[^>]*(ENOSPC|No space left)[^>]*exit 1\n/);
    assert.doesNotMatch(said, /left: all/);
  });

  it('names the file that cannot be written to, harms nothing, and can be read', async () => {
    const said = await onSmallDisk(
      'read-only',
      `mount -o remount,size=64m "$disk"
      ingest run B-USD
      mount -o remount,ro "$disk"
      ingest run A-USD
      ingest transform --rebuild
      ingest query "SELECT count(*) AS n FROM trades"
      ingest verify
      ingest status
      mount -o remount,rw "$disk"`,
    );
    assert.match(said, /> run A-USD\n[^>]*read-only\/ingest\.db[^>]*exit 1\n/);
    assert.match(said, /> transform --rebuild\n[^>]*read-only\/ingest\.db[^>]*exit 1\n/);
    assert.match(said, /> query .*\n +n\n300\nexit 0\n/);
    assert.match(said, /> verify\n300 trades of 1 product .* nothing is missing.*\nexit 0\n/);
    assert.match(said, /> status\n[^>]*B-USD +300 [^>]*exit 0\n/);
  });
});

describe('ingest, where a place cannot be used', () => {
  for (const [what, data, store] of [
    ['store', 'unused', 'sqlite:file/ingest.db'],
    ['store that is a directory', 'unused', 'sqlite:.'],
    ['store on a server that is away', 'unused', 'postgres://nobody@127.0.0.1:9/none'],
    ['folder', 'file', 'sqlite:unused/ingest.db'],
    ['source', 'unused', 'sqlite:unused/ingest.db'],
  ] as const) {
    it(`refuses the ${what} before it has made anything`, async () => {
      const home = await mkdtemp(join(folder, 'unusable-'));
      await writeFile(join(home, 'file'), '');
      const source = what === 'source' ? ['--source', 'none.yaml'] : [];
      const words = ['run', 'A-USD', '--data', data, '--store', store, ...source];
      const { code, stderr } = await new IngestCommand(words, {}, home).ended;
      assert.notEqual(code, 0);
      assert.match(stderr, /cannot be used|not a directory|none\.yaml/);
      assert.doesNotMatch(stderr, /\n\s+at /);
      assert.deepEqual(await readdir(home), ['file']);
    });
  }
});

describe('ingest, with a burst that is too short for its rate', () => {
  it('names the limit of the source, and stretches one for a rate that is set', async () => {
    const home = await mkdtemp(join(folder, 'burst-'));
    const run = async (perSecond: number, ...flags: readonly string[]) => {
      const pages = 'pages: { by: page, page: page, size: 2 }';
      const limits = `limits: { perSecond: ${perSecond}, burst: 1 }`;
      const address = 'http://127.0.0.1:9/none';
      const lines = ['name: short', `address: ${address}`, 'key: id', pages, limits];
      await writeFile(join(home, 'short.yaml'), lines.join('\n'));
      const words = ['run', '--source', 'short.yaml', '--data', 'data', '--dry-run', ...flags];
      return await new IngestCommand(words, {}, home).ended;
    };
    const refused = await run(1_000);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /short: limits\.burst: must be at least 20/);
    const { stdout, stderr } = await run(50, '--rate-per-second', '75');
    assert.doesNotMatch(stdout + stderr, /burst/);
  });
});

const hasProc = process.platform === 'linux' && process.getuid?.() === 0;

// Only root is let as far as there.
describe('ingest, where nothing can be made', { skip: !hasProc }, () => {
  for (const command of ['run', 'status']) {
    it(`says so and ends: ${command}`, async () => {
      const words = [command, '--data', '/proc/spillway', '--exchange', 'simulated'];
      assertFailed(
        await new IngestCommand(words, {}).ended,
        /\/proc\/spillway.*cannot be used|ENOENT/,
      );
    });
  }
});

describe('ingest, where something is not its own', { concurrency: 2 }, () => {
  it('names a foreign file among those of the table, and leaves all as it is', async () => {
    const here = place('foreign');
    assert.equal((await ingest('run', 'B-USD', ...here)).code, 0);
    const foreign = join(folder, 'foreign', 'table', 'data', 'notes.txt');
    await writeFile(foreign, 'mine');
    const status = await ingest('status', '--json', ...here);
    assertFailed(await ingest('transform', '--rebuild', ...here), /table\/data\/notes\.txt/);
    assertFailed(await ingest('run', 'A-USD', ...here), /table\/data\/notes\.txt/);
    assertFailed(await ingest('verify', ...here), /foreign: table\/data\/notes\.txt/);
    assert.equal(await readFile(foreign, 'utf8'), 'mine');
    const [, before] = JSON.parse((await ingest('status', '--json', ...here)).stdout);
    assert.deepEqual(before, JSON.parse(status.stdout)[0]);
    await rm(foreign);
    assert.equal((await ingest('run', 'A-USD', ...here)).code, 0);
    assert.equal((await ingest('verify', ...here)).code, 0);
  });

  for (const [what, damage, message] of [
    ['damaged', { trades: 7 }, /checkpoint\/simulated\/B-USD\/1: its checksum .*--full-refresh/],
    ['of a newer program', { schemaVersion: 2 }, /B-USD\/1: its schemaVersion is 2, .* newer one/],
  ] as const) {
    it(`names a checkpoint that is ${what}, and leaves it as it is`, async () => {
      const name = `checkpoint ${what}`.replaceAll(' ', '-');
      const here = place(name);
      assert.equal((await ingest('run', 'B-USD', ...here)).code, 0);
      const record = 'checkpoint/simulated/B-USD/1';
      const { settings } = readSettings({ flags: flagsOf(name), environment: {} });
      let bad: Json;
      {
        await using opened = await openIngest({ settings, environment: {} });
        const { records } = await opened.store.read([record]);
        bad = { ...(records[0]?.value as object), ...damage };
        await opened.store.commit([{ name: record, value: bad }]);
      }
      for (const words of [['run', 'B-USD'], ['status'], ['verify'], ['gaps', 'fill']]) {
        assertFailed(await ingest(...words, ...here), message);
      }
      await using opened = await openIngest({ settings, environment: {} });
      assert.deepEqual((await opened.store.read([record])).records[0]?.value, bad);
      const { rows } = await (await opened.table()).query('SELECT count(*) AS n FROM trades');
      assert.equal(Number(rows[0]?.n), 300);
    });
  }

  it('names the field whose type has changed, and keeps what came before it', async () => {
    const here = place('changed');
    const ended = await ingest('run', 'N-USD', ...here);
    assertFailed(ended, /trades\[\d+\]\.(price|size): must be .*, got \d/);
    const query = await ingest('query', '--json', 'SELECT max(trade_id) AS m FROM trades', ...here);
    // Whether a batch before it was complete depends on the order of the answers.
    if (query.code === 0) assert.ok(JSON.parse(query.stdout).rows[0].m < 2_000);
    else assert.match(query.stderr, /nothing was harvested yet/);
    const again = await ingest('run', 'N-USD', 'B-USD', '--json', ...here);
    assert.equal(JSON.parse(again.stdout).status, 'partial_failure');
  });

  it('says that a product is not known, and where those are that are', async () => {
    const ended = await ingest('run', 'X-USD', ...place('unknown'));
    assertFailed(
      ended,
      /X-USD: simulated has no such product at http:.+; "ingest products --dry-run", with the same/,
    );
    const nothing = await ingest('verify', ...place('unknown'));
    assert.equal(nothing.code, 2);
    assert.match(nothing.stderr, /unknown: nothing was harvested yet/);
  });
});
