import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { askOperator, operatorSocket } from 'spillway-http';
import { Follower } from '../src/harvest/follower.ts';
import { takeLease } from '../src/harvest/ledger.ts';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { IngestCommand, ingest } from './fixtures/ingest-command.ts';

describe('a follower', () => {
  it('harvests on while the table is locked, and while its quality is looked at', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-follow-'));
    const products = ['A-USD'];
    const growing = [{ id: 'A-USD', trades: 100, growthPerSecond: 200 }];
    await using exchange = await startExchange({ products: growing });
    const flags = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {}, batchMsMax: 10 });
    const stop = new AbortController();
    const looked = Promise.withResolvers<void>();
    const follower = new Follower({
      products,
      harvester: ingest.harvester({ products }),
      filler: ingest.harvester({ products, fillsGaps: true }),
      transformer: await ingest.transformer(),
      clock: ingest.clock,
      onTable: async (signal) => {
        looked.resolve();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    });
    const grows = async (): Promise<void> => {
      const { trades } = follower.stats;
      while (follower.stats.trades < trades + 100) await setTimeout(5);
    };
    const lease = await takeLease(ingest, 'table', stop.signal);
    const running = follower.run(stop.signal);
    await grows();
    await grows();
    assert.equal(follower.stats.transformed, undefined, 'the table was changed though locked');
    await lease[Symbol.asyncDispose]();
    await looked.promise;
    await grows();
    stop.abort();
    await running;
  });
});

describe('ingest follow', () => {
  it('keeps up, shows how far it is, how good the data are, and stops at Ctrl-C', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-follow-'));
    const products = [{ id: 'A-USD', trades: 2_000, growthPerSecond: 200 }];
    await using exchange = await startExchange({ products });
    const place = ['--data', folder.path, '--exchange', 'simulated'];
    const pace = ['--base-url', exchange.url, '--rate-per-second', '50'];
    const command = new IngestCommand(['follow', 'A-USD', '--port', '0', ...place, ...pace]);
    const enough = AbortSignal.timeout(240_000);
    const url = await command.url();
    const ask = async (path: string) => {
      const answer = await fetch(url + path);
      return { status: answer.status, text: (await answer.text()).replace(/<!--.*?-->/g, '') };
    };
    const pause = () => setTimeout(50, undefined, { signal: enough });
    // More than it had at first: it goes on.
    const trades = async () => {
      const { text } = await ask('/quality/metrics');
      return Number(/^ingest_quality_trades (\d+)$/m.exec(text)?.[1] ?? 0);
    };
    while ((await trades()) < 2_000) await pause();
    const upTo = async () => {
      const { text } = await ask('/');
      const row = /A-USD<\/th>.*?data-name="Trades"[^>]*><span>([\d,]+)/s.exec(text);
      return Number(row?.[1]?.replaceAll(',', ''));
    };
    while (!((await upTo()) > 2_500)) await pause();
    assert.match((await ask('/')).text, /\d+ tokens left.*<dt>Breaker<\/dt><dd>closed</s);
    const report = await ask('/report');
    assert.equal(report.status, 200);
    assert.match(report.text, /Quality of the trades/);
    assert.match((await ask('/quality/metrics')).text, /^ingest_quality_health_score \d+$/m);
    const socket = operatorSocket(folder.path);
    const config = JSON.parse((await askOperator({ socket, path: '/-/config' })).text);
    assert.deepEqual([config.data, config.ratePerSecond], [folder.path, 50]);
    const live = await ingest('verify', ...place);
    assert.equal(live.code, 0, live.stdout);
    command.signal('SIGINT');
    const { code, stderr } = await command.ended;
    assert.equal(code, 0, stderr);
    await ingest('transform', ...place);
    assert.match((await ingest('verify', ...place)).stdout, /nothing is missing/);
  });

  it('is not ready while its Postgres is away, says why, and goes on by itself', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-follow-'));
    await using server = await PostgresServer.start();
    const where = ['--data', folder.path, '--port', '0', '--store', server.url];
    const command = new IngestCommand(['follow', '--simulated', ...where]);
    const socket = operatorSocket(folder.path);
    const until = async (status: number) => {
      for (;;) {
        const told = await askOperator({ socket, path: '/-/ready' }).catch(() => undefined);
        if (told?.status === status) return JSON.parse(told.text);
        await setTimeout(20);
      }
    };
    await until(200);
    await server.stop();
    const away = await until(503);
    assert.deepEqual(away.unready, ['database']);
    assert.match(away.reasons.database, /Postgres cannot be reached/);
    await server.start();
    await until(200);
    command.signal('SIGINT');
    const { code, stderr } = await command.ended;
    assert.equal(code, 0, stderr);
  });

  it('tells on stderr that the exchange is away, once, and that it is back', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-follow-'));
    const products = [{ id: 'A-USD', trades: 100 }];
    await using exchange = await startExchange({ products, trouble: { reset: 1 } });
    const place = ['--data', folder.path, '--port', '0', '--exchange', 'simulated'];
    const words = ['A-USD', ...place, '--base-url', exchange.url, '--feed', 'off'];
    const command = new IngestCommand(['follow', ...words]);
    const away = /cannot be reached: .*; it is tried again\.\n/g;
    while (!command.stderr.match(away)) await setTimeout(20);
    exchange.trouble = {};
    while (!command.stderr.includes('It goes well again.')) await setTimeout(20);
    command.signal('SIGINT');
    const { code, stderr } = await command.ended;
    assert.equal(code, 0, stderr);
    assert.equal(stderr.match(away)?.length, 1, stderr);
  });

  it('says that its port is taken, and ends before it has made anything', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-follow-'));
    await using exchange = await startExchange({ products: [{ id: 'A-USD', trades: 1 }] });
    const { port } = new URL(exchange.url);
    const data = join(folder.path, 'data');
    const words = ['follow', '--simulated', '--data', data, '--port', port];
    const { code, stderr } = await new IngestCommand(words).ended;
    assert.equal(code, 1);
    assert.equal(existsSync(data), false);
    assert.match(
      stderr,
      new RegExp(`127\\.0\\.0\\.1:${port} is in use; choose another with --port`),
    );
  });
});
