import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { tableFromIPC } from 'apache-arrow';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { Engine } from '../src/table/engine.ts';
import { IngestCommand, ingest } from './fixtures/ingest-command.ts';
import { assertTruth } from './fixtures/table-truth.ts';

const folder = await mkdtemp(join(tmpdir(), 'ingest-commands-'));
const exchange = await startExchange({
  products: [
    { id: 'A-USD', trades: 3_500, stepUs: 60_000_000 },
    { id: 'B-USD', trades: 1_200, gaps: [{ from: 700, to: 703 }] },
    { id: 'C-USD', trades: 3_000, numericFrom: 2_000 },
    { id: 'D-EUR', trades: 100_000 },
  ],
  trouble: { error: 0.02 },
});
after(async () => {
  await exchange.close();
  await rm(folder, { recursive: true, force: true });
});

/** Flags that name a data folder of this test and the exchange. */
function place(name: string): readonly string[] {
  const data = ['--data', join(folder, name), '--exchange', 'simulated'];
  return [...data, '--base-url', exchange.url, '--rate-per-second', '200'];
}

describe('ingest run', () => {
  it('harvests, transforms, verifies and answers queries, and exits with 0', async () => {
    const here = place('whole');
    const list = await ingest('products', '--filter-regex', '^A-', ...here, '--json');
    assert.deepEqual(JSON.parse(list.stdout).productIds, ['A-USD']);
    const dry = await ingest('run', '--dry-run', '--json', ...here);
    assert.deepEqual(JSON.parse(dry.stdout).products[0]?.requests, 4);
    const run = await ingest('run', '--json', ...here);
    assert.equal(run.code, 0, run.stderr);
    const { status, trades, table } = JSON.parse(run.stdout);
    assert.deepEqual(
      { status, trades, added: table.added },
      { status: 'ok', trades: 3_500, added: 3_500 },
    );
    const verified = await ingest('verify', '--report', 'html', ...here);
    assert.equal(verified.code, 0, verified.stdout);
    assert.match(verified.stdout, /3,500 trades .* nothing is missing/);
    assert.match(await readFile(join(folder, 'whole', 'report.html'), 'utf8'), /^<!doctype html>/);
    const query = await ingest('query', 'SELECT count(*) AS n FROM trades', '--json', ...here);
    assert.equal(Number(JSON.parse(query.stdout).rows[0].n), 3_500);
    const shown = await ingest('status', '--json', ...here);
    const [product] = JSON.parse(shown.stdout);
    assert.deepEqual([product.inTable, product.upToId], [3_500, 3_500]);
    const rebuilt = await ingest('transform', '--rebuild', '--json', ...here);
    assert.equal(JSON.parse(rebuilt.stdout).read, 3_500);
    const flags = { data: join(folder, 'whole'), exchange: 'simulated', baseUrl: exchange.url };
    const { settings } = readSettings({ flags, environment: {} });
    await using opened = await openIngest({ settings, environment: {} });
    await assertTruth(await opened.table(), exchange, ['A-USD']);
  });

  it('refuses another address for a history, unless it is told that the API moved', async () => {
    const elsewhere = exchange.url.replace('127.0.0.1', 'localhost');
    await ingest('run', 'A-USD', ...place('moved'));
    const here = [...place('moved'), '--base-url', elsewhere];
    const refused = await ingest('run', 'A-USD', ...here);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr + refused.stdout, /came from .*127\.0\.0\.1.*add --moved/);
    const moved = await ingest('run', 'A-USD', '--moved', '--json', ...here);
    assert.equal(moved.code, 0, moved.stderr);
    assert.equal(JSON.parse(moved.stdout).trades, 0);
    const back = await ingest('run', 'A-USD', '--moved', ...place('moved'));
    assert.equal(back.code, 0, back.stderr);
  });

  it('leaves files that other programs read, and writes others for them', async () => {
    const here = place('readers');
    await ingest('run', 'A-USD', ...here);
    const listed = await ingest('files', 'A-USD', '--json', ...here);
    const files: { path: string; rows: number }[] = JSON.parse(listed.stdout);
    const trades = files.reduce((sum, { rows }) => sum + rows, 0);
    assert.equal(trades, 3_500);
    const there = await readdir(join(folder, 'readers', 'table', 'data'), { recursive: true });
    const parquet = there.filter((name) => name.endsWith('.parquet')).sort();
    const data = join(folder, 'readers', 'table', 'data');
    assert.deepEqual(
      parquet.map((name) => join(data, name)),
      files.map(({ path }) => path),
    );
    await using duckdb = await Engine.open({ memoryMb: 64, threads: 1, scratch: folder });
    for (const [name, read] of [
      ['all.parquet', 'read_parquet'],
      ['all.csv', 'read_csv'],
    ]) {
      const target = join(folder, 'out', name as string);
      const done = await ingest('export', target, 'A-USD', '--since', '2024-01-02', ...here);
      assert.equal(done.code, 0, done.stderr);
      const [row = {}] = await duckdb.rows(`SELECT count(*) AS n, count(DISTINCT trade_id) AS ids,
        min(trade_ts) >= '2024-01-02' AS late FROM ${read}('${target}')`);
      assert.deepEqual(row, { n: '2060', ids: '2060', late: true });
    }
    const target = join(folder, 'out', 'all.duckdb');
    await ingest('export', target, ...here);
    await duckdb.run(`ATTACH '${target}' AS given (READ_ONLY)`);
    const sum = await duckdb.rows(`SELECT count(*) AS n,
      sum(price * quantity) = sum(notional) AS same FROM given.trades`);
    assert.deepEqual(sum, [{ n: '3500', same: true }]);
    const arrow = join(folder, 'out', 'all.arrow');
    await ingest('export', arrow, 'A-USD', ...here);
    assert.equal(tableFromIPC(await readFile(arrow)).numRows, 3_500);
    const [iceberg] = JSON.parse((await ingest('iceberg', '--json', ...here)).stdout);
    assert.deepEqual([iceberg.table, iceberg.rows], ['trades', 3_500]);
    assert.match((await ingest('export', target, ...here)).stderr, /--force replaces it/);
    assert.match((await ingest('export', 'x.txt', ...here)).stderr, /must end in .parquet, .csv/);
    const unknown = await ingest('export', join(folder, 'out', 'u.arrow'), 'NOPE-USD', ...here);
    assert.match(unknown.stderr, /^ingest: NOPE-USD: nothing was harvested of it yet\n$/);
    assert.equal(unknown.code, 2);
    for (const command of ['files', 'transform']) {
      const { stderr, code } = await ingest(command, 'NOPE-USD', ...here);
      assert.deepEqual([stderr, code], [unknown.stderr, 2], command);
    }
    // The name of the unfinished file is too long to be made.
    const long = join(folder, 'out', `${'x'.repeat(245)}.arrow`);
    const refused = await ingest('export', long, ...here);
    assert.match(refused.stderr, /^ingest: ENAMETOOLONG: .*\n$/);
    assert.equal(refused.code, 1);
    const candles = `SELECT sum(trades) AS n FROM ohlcv('A-USD', '1d')`;
    const query = await ingest('query', candles, '--json', ...here);
    assert.equal(Number(JSON.parse(query.stdout).rows[0].n), 3_500);
  });

  it('notes gaps, which verify reports with exit code 1, and fills them', async () => {
    const here = place('gaps');
    const run = await ingest('run', 'B-USD', ...here);
    assert.equal(run.code, 4, run.stderr);
    const accepting = ['--data', join(folder, 'accepted'), ...here.slice(2)];
    await ingest('run', 'B-USD', ...accepting);
    assert.equal((await ingest('verify', ...accepting)).code, 1);
    const accepted = await ingest('gaps', 'accept', 'B-USD', '--json', ...accepting);
    assert.deepEqual(JSON.parse(accepted.stdout), [{ product: 'B-USD', accepted: 1 }]);
    assert.equal((await ingest('verify', ...accepting)).code, 0);
    assert.equal((await ingest('run', 'B-USD', ...accepting)).code, 0);
    const verified = await ingest('verify', ...here);
    assert.equal(verified.code, 1);
    assert.match(verified.stdout, /known-gap: B-USD: still to be filled: 3 trades, 700 to 702/);
    assert.equal((await ingest('gaps', 'fill', ...here)).code, 4);
    exchange.product('B-USD').heal();
    const filled = await ingest('gaps', 'fill', ...here);
    assert.match(filled.stdout, /3 trades found; 0 of 1 gaps are left/);
    assert.equal((await ingest('verify', ...here)).code, 0);
  });

  it('exits with 1 when a part failed, and names what is wrong', async () => {
    const run = await ingest('run', 'A-USD', 'X-USD', 'C-USD', '--json', ...place('part'));
    assert.equal(run.code, 1);
    const { status, products } = JSON.parse(run.stdout);
    assert.equal(status, 'partial_failure');
    const reasons = products.map((one: { reason?: string }) => one.reason ?? '');
    assert.equal(reasons[0], '');
    assert.match(reasons[1], /X-USD/);
    assert.match(reasons[2], /price/);
  });

  it('stops on Ctrl-C with what is complete committed, and goes on from there', async () => {
    const here = place('stopped');
    const planned = await ingest('run', 'A-USD', '--limit', '20', '--dry-run', '--json', ...here);
    assert.equal(JSON.parse(planned.stdout).requests, 175, planned.stderr);
    // If the first request failed, nothing could be committed.
    const { trouble } = exchange;
    exchange.trouble = {};
    using _trouble = { [Symbol.dispose]: () => Object.assign(exchange, { trouble }) };
    const command = new IngestCommand(['run', 'D-EUR', '--limit', '20', '--json', ...here]);
    const { requests } = exchange.stats;
    while (exchange.stats.requests < requests + 60) await setTimeout(5);
    command.signal('SIGINT');
    const { code, stdout } = await command.ended;
    assert.equal(code, 130);
    const { products, status } = JSON.parse(stdout);
    assert.equal(status, 'interrupted');
    const { trades, nextId } = products[0];
    assert.ok(trades > 0 && trades === nextId - 1, `${trades} trades up to ${nextId}`);
    const next = await ingest('run', 'D-EUR', '--max-requests', '10', '--json', ...here);
    assert.equal(next.code, 0);
    const [after] = JSON.parse(next.stdout).products;
    assert.equal(after.reason, 'max_requests');
    assert.equal(after.tradesInAll, after.nextId - 1);
    assert.ok(after.tradesInAll > trades);
  });

  it('exits with 3 when another process holds all that was asked for', async () => {
    const here = place('locked');
    const first = new IngestCommand(['run', 'D-EUR', '--limit', '5', ...here]);
    const { requests } = exchange.stats;
    while (exchange.stats.requests < requests + 10) await setTimeout(5);
    const second = await ingest('run', 'D-EUR', '--json', ...here);
    const told = await ingest('run', 'D-EUR', ...here);
    first.signal('SIGTERM');
    assert.equal((await first.ended).code, 130);
    assert.equal(second.code, 3, second.stdout);
    assert.equal(JSON.parse(second.stdout).products[0].reason, 'locked_by_another_worker');
    assert.equal(told.code, 3, told.stdout);
    assert.match(
      told.stdout,
      /Another run has locked what was skipped; a killed one for leaseSeconds/,
    );
  });
});

describe('ingest, used wrongly', { concurrency: 4 }, () => {
  const wrong: readonly (readonly [words: readonly string[], code: number, words: RegExp])[] = [
    [['run', '--workers', '11', 'A-USD'], 2, /workers .*1 to 10/],
    [['run', '--since', 'yesterday', 'A-USD'], 2, /--since: must be a time/],
    [['run', '--since', '2024-02-30', 'A-USD'], 2, /--since: must be a time/],
    [['gaps', 'list', 'Z-USD'], 2, /Z-USD: nothing was harvested/],
    [['run', '--since', '2026-01-02', '--until', '2026-01-01', 'A-USD'], 2, /before --until/],
    [['run', '--full-refresh', '--until', '2026-01-01', 'A-USD'], 2, /--full-refresh/],
    [['run'], 2, /no products: .*products\.yaml/],
    [['run', '--max-requests', '0', 'A-USD'], 2, /an integer from 1/],
    [['query', 'DROP TABLE trades'], 2, /ingest: /],
    [['query', 'SELECT nonsense FROM trades'], 2, /nonsense/],
    [['verify', '--report', 'report.txt'], 2, /json, html/],
    [
      ['export', 'x.csv', '--since', '2026-01-02', '--until', '2026-01-01'],
      2,
      /--since: must be before --until/,
    ],
    [['verify', 'Z-USD'], 2, /Z-USD: nothing was harvested/],
    [['exchange', '--errors', '2'], 2, /from 0 to 1/],
    [['products', '--filter-regex', '('], 2, /--filter-regex/],
    [['nonsense'], 2, /unknown command/],
  ];
  for (const [words, code, message] of wrong) {
    it(`answers "${words.join(' ')}" with ${code} and why`, async () => {
      const ended = await ingest(...words, '--data', join(folder, 'wrong'));
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, message);
      assert.doesNotMatch(ended.stderr, /\n\s+at /);
    });
  }

  it('keeps the list of products if none is called as was asked for', async () => {
    const here = place('kept-list');
    await ingest('products', '--filter-regex', '^A-', ...here);
    const ended = await ingest('products', '--filter-regex', 'eur', ...here);
    assert.equal(ended.code, 2);
    assert.match(ended.stderr, /--filter-regex: none of 4 products .* is as it was/);
    const list = await readFile(join(folder, 'kept-list', 'products.yaml'), 'utf8');
    assert.match(list, /- A-USD/);
  });

  it('tells which exchange something is there of, if another one is asked about', async () => {
    const data = join(folder, 'other');
    await ingest('run', 'B-USD', '--no-transform', ...place('other'));
    for (const words of [['status'], ['gaps', 'list']]) {
      const { stdout } = await ingest(...words, '--data', data);
      assert.match(stdout, /Nothing was harvested from coinbase yet; only simulated is here: add/);
    }
    const { stderr } = await ingest('run', ...place('other'));
    assert.match(stderr, /products\.yaml with "ingest products --exchange simulated"/);
  });

  it('says what is wrong with a target that cannot be written, and damages nothing', async () => {
    const data = join(folder, 'file');
    await writeFile(data, 'not a folder');
    const ended = await ingest('run', 'A-USD', '--data', data);
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /file/);
    assert.equal(await readFile(data, 'utf8'), 'not a folder');
    const broken = join(folder, 'broken');
    await mkdir(broken);
    await writeFile(join(broken, 'ingest.db'), 'this is no database, whatever it is called');
    const store = await ingest('status', '--data', broken);
    assert.equal(store.code, 1);
    assert.match(store.stderr, /ingest\.db/);
  });
});
