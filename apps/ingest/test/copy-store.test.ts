import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { ingest } from './fixtures/ingest-command.ts';

it('ingest goes on with its store in Postgres, and back in a file', async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-move-'))).path;
  const exchange = stack.use(await startExchange({ products: [{ id: 'A-USD', trades: 3_500 }] }));
  const flags = ['--data', folder, '--exchange', 'simulated', '--base-url', exchange.url];
  const stores = [
    `sqlite:${join(folder, 'first.db')}`,
    await postgresUrl(stack),
    `sqlite:${join(folder, 'last.db')}`,
  ];
  for (const [at, store] of stores.entries()) {
    const here = [...flags, '--store', store];
    const limit = at < 2 ? ['--max-requests', '2'] : [];
    const run = await ingest('run', 'A-USD', ...limit, '--json', ...here);
    assert.equal(run.code, 0, run.stderr);
    const next = stores[at + 1];
    if (next === undefined) continue;
    const copied = await ingest('copy-store', next, ...here);
    assert.equal(copied.code, 0, copied.stderr);
  }
  const verified = await ingest('verify', ...flags, '--store', stores[2] as string);
  assert.equal(verified.code, 0, verified.stdout);
  assert.match(verified.stdout, /3,500 trades .* nothing is missing/);
  const twice = await ingest(
    'copy-store',
    stores[0] as string,
    ...flags,
    '--store',
    `${stores[2]}`,
  );
  assert.deepEqual([twice.code, twice.stdout], [1, '']);
  assert.match(twice.stderr, /the other store is not empty/);
});

it('a store that was copied is refused until that is undone', async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-move-'))).path;
  const exchange = stack.use(await startExchange({ products: [{ id: 'A-USD', trades: 1_500 }] }));
  const flags = ['--data', folder, '--exchange', 'simulated', '--base-url', exchange.url];
  const other = `sqlite:${join(folder, 'other.db')}`;
  assert.equal((await ingest('run', 'A-USD', '--max-requests', '1', ...flags)).code, 0);
  assert.equal((await ingest('copy-store', other, ...flags)).code, 0);
  assert.equal((await ingest('run', 'A-USD', ...flags, '--store', other)).code, 0);
  for (const words of [['run', 'A-USD'], ['follow', 'A-USD'], ['transform'], ['clean']]) {
    const { code, stderr } = await ingest(...words, ...flags);
    assert.equal(code, 1, words[0]);
    assert.ok(stderr.includes(`the store was copied to ${other}: set "store" to that one`), stderr);
  }
  const undone = await ingest('copy-store', '--undo', ...flags);
  assert.match(undone.stdout, /used again/);
  assert.equal((await ingest('clean', '--dry-run', ...flags)).code, 0);
});

it('a process that runs commits nothing more to a store that was copied', async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-move-'))).path;
  const product = { id: 'A-USD', trades: 1_500, growthPerSecond: 100 };
  const exchange = stack.use(await startExchange({ products: [product] }));
  const words = ['--data', folder, '--exchange', 'simulated', '--base-url', exchange.url];
  const flags = { data: folder, exchange: 'simulated', baseUrl: exchange.url };
  const { settings } = readSettings({ flags, environment: {} });
  const running = stack.use(await openIngest({ settings, environment: {} }));
  const { signal } = new AbortController();
  const [first] = await running.harvester({ products: ['A-USD'] }).run(signal);
  const store = `sqlite:${join(folder, 'other.db')}`;
  assert.equal((await ingest('copy-store', store, ...words)).code, 0);
  const [second] = await running.harvester({ products: ['A-USD'] }).run(signal);
  assert.deepEqual([second?.status, second?.code], ['failed', 'STORE_COPIED']);
  const other = { settings: { ...settings, store }, environment: {} };
  const { ledger } = stack.use(await openIngest(other));
  const kept = await running.ledger.checkpoint(await running.ledger.current('A-USD'));
  assert.equal(kept?.trades, first?.tradesInAll);
  assert.deepEqual(await ledger.checkpoint(await ledger.current('A-USD')), kept);
});
