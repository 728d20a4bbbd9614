import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { startExchange } from '../src/simulated/exchange.ts';
import { Terminal } from './fixtures/terminal.ts';

const products = [
  { id: 'A-USD', trades: 12_000 },
  { id: 'LONG-USD', trades: 4_000 },
];

describe('ingest run on a terminal', () => {
  it('shows each product, the bucket and the breaker, then only what counts', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-terminal-'));
    await using exchange = await startExchange({ products, latency: { meanMs: 20 } });
    const place = ['--data', folder.path, '--exchange', 'simulated', '--base-url', exchange.url];
    const pace = ['--limit', '100', '--rate-per-second', '40'];
    const terminal = new Terminal(['run', 'A-USD', 'LONG-USD', ...pace, ...place]);
    const rows = [
      /^A-USD +█+░+ +\d+ % +[\d,]+ of 12,000 +[\d,]+ trades\/s +ETA +\d+ s$/m,
      /^LONG-USD +█+░* +\d+ % +[\d,]+ of 4,000 +[\d,]+ trades\/s +ETA +\d+ s$/m,
      /^[\d.]+ of 40 requests\/s · \d+ of \d+ in flight · bucket [\d.]+ · breaker closed · \d+/m,
    ];
    for (const row of rows) assert.ok(await terminal.shows(row), terminal.screens.at(-2));
    assert.equal(await terminal.ended, 0, terminal.screen);
    const lines = terminal.screen.split('\n');
    assert.match(lines[0] ?? '', /^product +status +trades +upTo +gaps +reason$/);
    assert.match(lines[1] ?? '', /^A-USD +done +12,000 +12,000 +0 +-$/);
    assert.match(lines[2] ?? '', /^LONG-USD +done +4,000/);
    assert.match(lines[4] ?? '', /^16,000 lines of \d+ raw files read, 16,000 rows added/);
    assert.equal(lines.length, 5, terminal.screen);
  });

  it('stops at Ctrl-C with what is complete, and keeps to a narrow screen', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-terminal-'));
    await using exchange = await startExchange({ products, latency: { meanMs: 20 } });
    const place = ['--data', folder.path, '--exchange', 'simulated', '--base-url', exchange.url];
    const words = ['run', 'A-USD', '--limit', '50', '--rate-per-second', '40', ...place];
    const terminal = new Terminal(words, { columns: 72 });
    assert.ok(await terminal.shows(/A-USD +█/), terminal.screen);
    // What cannot be reached is not silence: the breaker says so while it waits.
    exchange.trouble = { error: 1 };
    assert.ok(await terminal.shows(/breaker open/), terminal.screen);
    terminal.type('\x03');
    assert.equal(await terminal.ended, 130, terminal.screen);
    assert.match(terminal.screen, /A-USD +stopped .* interrupted/);
    assert.match(terminal.screen, /Stopping: what is complete is committed/);
    const lines = terminal.screens.flatMap((screen) => screen.split('\n'));
    const live = lines.filter((line) => /requests\/s|░/.test(line));
    const widths = live.map(({ length }) => length);
    assert.ok(Math.max(...widths) < 72, 'a line that wraps is not cleared away');
  });
});
