import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { type Exchange, startExchange } from '../src/simulated/exchange.ts';
import { Child } from './fixtures/child.ts';
import { assertTruth } from './fixtures/table-truth.ts';

const processes = 4;
const ratePerSecond = 100;
/** Tokens that may be saved up, of the bucket that all share: those of 500 ms. */
const burst = 50;
/** A busy machine holds requests back, and they come at once: this leaves three seconds for it. */
const rate = { ratePerSecond, burst: 3.5 * ratePerSecond };

/** Looks at how many requests have come until `done` settles. */
async function meter(exchange: Exchange, done: Promise<unknown>): Promise<void> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  done.then(end, end);
  const begunAt = performance.now();
  for (let seen = 0; !isOver; await setTimeout(2)) {
    const { requests } = exchange.stats;
    const now = performance.now();
    if (requests === seen) continue;
    seen = requests;
    // However late a request arrives, no more than these were let go by now.
    const most = burst + ((now - begunAt) * ratePerSecond) / 1_000;
    assert.ok(requests <= most, `${requests} requests in ${now - begunAt} ms`);
  }
}

async function fourAtOnce(store: string, data: string): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const products = Array.from({ length: 8 }, (_, at) => ({ id: `P${at}-USD`, trades: 400 }));
  const exchange = stack.use(
    await startExchange({ products, rate, latency: { meanMs: 60 }, trouble: { error: 0.01 } }),
  );
  const children = Array.from({ length: processes }, () => stack.use(new Child()));
  await Promise.all(children.map((child) => child.ready()));
  const flags = {
    ...{ data, store, exchange: 'simulated', baseUrl: exchange.url, limit: '10' },
    ratePerSecond: String(ratePerSecond),
  };
  const ids = products.map(({ id }) => id);
  const running = Promise.all(
    children.map((child, at) => {
      const own = ids.slice(2 * at, 2 * at + 2);
      return child.run({ flags, products: own, leaseMs: 30_000 });
    }),
  );
  const [reports] = await Promise.all([running, meter(exchange, running)]);
  const statuses = new Set(reports.flatMap((report) => report.statuses));
  assert.deepEqual([...statuses], ['done']);
  const { requests, refused } = exchange.stats;
  assert.equal(refused, 0, `${refused} of ${requests} came too early`);
  assert.equal(
    requests,
    reports.reduce((sum, report) => sum + report.requests, 0),
  );
  assert.equal(
    reports.reduce((sum, report) => sum + report.trades, 0),
    8 * 400,
  );
}

describe('four processes with one breaker', () => {
  it('have exactly one among them ask while the exchange is down, and then go on', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-breaker-'));
    await using stack = new AsyncDisposableStack();
    const products = Array.from({ length: 4 }, (_, at) => ({ id: `P${at}-USD`, trades: 600 }));
    const latency = { meanMs: 60, sigma: 0.1 };
    const exchange = stack.use(await startExchange({ products, latency }));
    const children = Array.from({ length: processes }, () => stack.use(new Child()));
    await Promise.all(children.map((child) => child.ready()));
    const flags = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url, limit: '10' };
    const reports = Promise.all(
      children.map((child, at) => {
        const own = [products[at]?.id ?? ''];
        const task = { flags: { ...flags, ratePerSecond: '100' }, products: own, leaseMs: 30_000 };
        return child.run({ ...task, cooldownMs: 100 });
      }),
    );
    // If something fails below, that is to be told, and not that its children were ended.
    reports.catch(() => {});
    while (exchange.stats.requests < 40) await setTimeout(2);
    exchange.trouble = { error: 1 };
    // It opens for all when it has opened for one, and what was under way comes to its end.
    const { error: before } = exchange.stats.troubles;
    while (exchange.stats.troubles.error < before + 5 || exchange.stats.open > 0) {
      await setTimeout(2);
    }
    // For half a second each may go by what it last read. When there was no request for longer, all
    // know that it is open: the breaker doubles its pauses, so there soon is such a time.
    for (let quietAt = performance.now(); performance.now() < quietAt + 750; ) {
      const { requests } = exchange.stats;
      await setTimeout(1);
      if (exchange.stats.requests > requests) quietAt = performance.now();
    }
    const from = exchange.stats.requests;
    let most = 0;
    while (exchange.stats.requests < from + 4) {
      most = Math.max(most, exchange.stats.open);
      await setTimeout(1);
    }
    assert.equal(most, 1, `${most} of them asked at once`);
    exchange.trouble = {};
    const statuses = (await reports).flatMap((report) => report.statuses);
    assert.deepEqual(statuses, ['done', 'done', 'done', 'done']);
  });
});

describe('four processes with one rate', () => {
  it('never exceed it together, on SQLite', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-rate-'));
    await fourAtOnce(`sqlite:${join(folder.path, 'shared.db')}`, folder.path);
  });

  it('never exceed it together, on Postgres', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-rate-')));
    await fourAtOnce(await postgresUrl(stack), folder.path);
  });

  it('never exceed it together, on Redis', requires('redis-server'), async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-rate-'));
    await using server = await RedisServer.start();
    await fourAtOnce(server.url, folder.path);
  });
});

describe('four processes, two of which are killed', () => {
  it('lose and double nothing, and keep one rate, on Postgres', async () => {
    await using stack = new AsyncDisposableStack();
    const { path: data } = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-four-')));
    const products = Array.from({ length: 8 }, (_, at) => ({ id: `P${at}-USD`, trades: 400 }));
    const exchange = stack.use(await startExchange({ products, rate, latency: { meanMs: 20 } }));
    const children = Array.from({ length: processes }, () => stack.use(new Child()));
    await Promise.all(children.map((child) => child.ready()));
    const store = await postgresUrl(stack);
    const place = { data, store, exchange: 'simulated', baseUrl: exchange.url, limit: '10' };
    const flags = { ...place, ratePerSecond: String(ratePerSecond) };
    const ids = products.map(({ id }) => id);
    const task = (at: number) => ({
      flags,
      products: ids.slice(2 * at, 2 * at + 2),
      leaseMs: 1_000,
    });
    const [one, two, three, four] = children as [Child, Child, Child, Child];
    one.begin(task(0));
    two.begin(task(1));
    const running = async (): Promise<void> => {
      const living = Promise.all([three.run(task(2)), four.run(task(3))]);
      while (exchange.stats.requests < 60) await setTimeout(2);
      await one.kill();
      while (exchange.stats.requests < 120) await setTimeout(2);
      await two.kill();
      await living;
      // One that lives takes over, as soon as the locks of the dead have run out.
      const { statuses } = await three.run({ ...task(0), products: ids });
      assert.deepEqual(new Set(statuses), new Set(['done']));
    };
    const over = running();
    await Promise.all([over, meter(exchange, over)]);
    assert.equal(exchange.stats.refused, 0, 'a process that died has cost others a 429');
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {} });
    const { signal } = new AbortController();
    await (await ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    await assertTruth(await ingest.table(), exchange, ids);
    for (const product of ids) {
      const of = { exchange: 'simulated', product, generation: 1 };
      assert.equal((await ingest.ledger.checkpoint(of))?.trades, 400);
    }
  });
});
