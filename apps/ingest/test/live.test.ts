import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { systemRandom } from 'spillway';
import { askOperator, operatorSocket } from 'spillway-http';
import { Feed } from '../src/harvest/feed.ts';
import { Follower } from '../src/harvest/follower.ts';
import { LiveTrades } from '../src/harvest/live.ts';
import { liveConnector } from '../src/harvest/live-connector.ts';
import { type Ingest, openIngest } from '../src/open.ts';
import { expectedProducts, type Verification, verify } from '../src/quality/verify.ts';
import { type ExchangeName, readSettings } from '../src/settings.ts';
import type { Exchange } from '../src/simulated/exchange.ts';
import { startExchange } from './fixtures/exchanges.ts';
import { IngestCommand, ingest as runIngest } from './fixtures/ingest-command.ts';
import { assertTruth } from './fixtures/table-truth.ts';

/** A follower with a feed, the REST API of which is asked as seldom as the test wants. */
class Scene implements AsyncDisposable {
  readonly ingest: Ingest;
  readonly exchange: Exchange;
  readonly products: readonly string[];
  readonly follower: Follower;
  readonly live: LiveTrades;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  static async open(
    exchange: Exchange,
    name: ExchangeName,
    path: string,
    products: readonly string[],
    compareMs = 600_000,
    roundMs?: number,
  ): Promise<Scene> {
    const flags = { data: path, exchange: name, baseUrl: exchange.url, ratePerSecond: '1000' };
    const { settings } = readSettings({ flags, environment: {} });
    const ingest = await openIngest({ settings, environment: {}, batchMsMax: 10 });
    const wish = { fullRefresh: false, sinceUs: undefined, untilUs: undefined, products };
    const { connector, clock } = ingest;
    const form = connector.feed ?? assert.fail('no feed');
    const feed = new Feed({ form, products, clock, random: systemRandom, backoffMs: 20 });
    const request = { ...wish, fillsGaps: false };
    const live = new LiveTrades({
      ...{ ...ingest, feed, products, compareMs, roundMs, commitMs: 50, finishMs: 60_000 },
      harvester: ingest.liveHarvester(liveConnector(connector, feed), request),
    });
    const follower = new Follower({
      ...{ products, live, clock },
      harvester: ingest.harvester(request),
      filler: ingest.harvester({ ...wish, fillsGaps: true }),
      transformer: await ingest.transformer(),
    });
    return new Scene(ingest, exchange, products, follower, live);
  }

  constructor(
    ingest: Ingest,
    exchange: Exchange,
    products: readonly string[],
    follower: Follower,
    live: LiveTrades,
  ) {
    this.ingest = ingest;
    this.exchange = exchange;
    this.products = products;
    this.follower = follower;
    this.live = live;
    this.#running = follower.run(this.#stop.signal);
  }

  /** Waits for the event. */
  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      assert.equal(this.follower.stats.error, undefined);
      await setTimeout(5);
    }
  }

  get nextId(): number {
    return Math.min(...this.follower.stats.products.map(({ nextId }) => nextId));
  }

  async isLive(): Promise<void> {
    await this.until(() => this.live.stats.products.length === this.products.length);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** The trades that are committed, brought into the table and verified. */
  async verified(): Promise<Verification> {
    const { signal } = new AbortController();
    await (await this.ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    return await verify(await this.ingest.table(), await expectedProducts(this.ingest, signal));
  }

  /** Every trade that is committed is in the table once, and as the exchange has it. */
  async assertTrue(): Promise<void> {
    await this.stop();
    const { signal } = new AbortController();
    await (await this.ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    await assertTruthTo(this.ingest, this.exchange, this.products);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.ingest[Symbol.asyncDispose]();
  }
}

async function assertTruthTo(
  ingest: Ingest,
  exchange: Exchange,
  products: readonly string[],
): Promise<void> {
  const table = await ingest.table();
  for (const product of products) {
    const { current: generation } = await ingest.ledger.generations(product);
    const of = { exchange: ingest.connector.name, product, generation };
    const checkpoint = await ingest.ledger.checkpoint(of);
    const highest = checkpoint?.highestId ?? 0;
    assert.equal(checkpoint?.trades, highest, `${product}: each once`);
    // Binance counts from 0, and the simulated exchange from 1.
    const gaps = checkpoint?.harvest.gaps.filter(({ to }) => to !== 1);
    assert.deepEqual(gaps, []);
    await assertTruth(table, exchange, [product], highest);
  }
}

const growing = (id: string) => ({ id, trades: 500, growthPerSecond: 500 });
const names = { coinbase: 'A-USD', kraken: 'A-USD', binance: 'AUSD' };

describe('live trades', () => {
  it('are in the ledger while requests to REST hang', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-live-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    await using scene = await Scene.open(exchange, 'coinbase', folder.path, ['A-USD'], 100, 300);
    await scene.isLive();
    exchange.trouble = { hang: 1 };
    await scene.until(() => exchange.stats.troubles.hang > 0);
    const { nextId } = scene;
    const hungAt = scene.ingest.clock.now();
    // A client gives a request up after 30 s.
    const isGivenUp = () => exchange.stats.open < exchange.stats.troubles.hang;
    const isKnown = () => (scene.follower.stats.completeTo ?? 0) > hungAt;
    await scene.until(() => (scene.nextId > nextId + 500 && isKnown()) || isGivenUp());
    assert.ok(!isGivenUp(), `${scene.nextId - nextId} trades until the request was given up`);
    exchange.trouble = {};
    await scene.assertTrue();
  });

  for (const name of ['coinbase', 'kraken', 'binance'] as const) {
    it(`of ${name} are in the ledger within a second, each once, as REST has them`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
      const product = names[name];
      await using exchange = await startExchange({ products: [growing(product)] });
      await using scene = await Scene.open(exchange, name, folder.path, [product], 500);
      await scene.isLive();
      // A machine that is busy with other work may take longer for some of them.
      let bestMs = Infinity;
      for (let looks = 0; looks < 60 && bestMs >= 1_000; looks += 1) {
        const newest = exchange.latest(product);
        const askedAt = performance.now();
        await scene.until(() => scene.nextId > newest);
        bestMs = Math.min(bestMs, performance.now() - askedAt);
      }
      assert.ok(bestMs < 1_000, `${bestMs} ms at best`);
      await scene.until(() => scene.live.stats.compared > 100);
      const { contradicted, trades, missed } = scene.live.stats;
      assert.deepEqual([contradicted, missed], [0, 0]);
      assert.ok(trades > 100, `${trades} came by the feed`);
      await scene.assertTrue();
    });
  }

  it('need no request while the feed is whole', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    const slow = { ...growing('A-USD'), growthPerSecond: 50 };
    await using exchange = await startExchange({ products: [slow] });
    await using scene = await Scene.open(exchange, 'simulated', folder.path, ['A-USD']);
    await scene.isLive();
    const { requests } = exchange.stats;
    const { nextId } = scene;
    await scene.until(() => scene.nextId > nextId + 20);
    assert.equal(exchange.stats.requests, requests);
    await scene.assertTrue();
  });

  it('that the feed loses, repeats and reorders are filled from REST, and told', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    const products = ['A-USD', 'B-USD'];
    await using exchange = await startExchange({ products: products.map(growing) });
    exchange.feeds.trouble = { lost: 0.02, repeated: 0.1, swapped: 0.1 };
    await using scene = await Scene.open(exchange, 'simulated', folder.path, products);
    await scene.until(() => {
      const { missed, duplicates, trades } = scene.live.stats;
      return scene.nextId > 1_200 && missed > 0 && duplicates > 0 && trades > 0;
    });
    assert.equal(scene.live.stats.contradicted, 0);
    await scene.assertTrue();
  });

  it('go on after the connection is lost, and what came meanwhile is filled', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    await using scene = await Scene.open(exchange, 'kraken', folder.path, ['A-USD']);
    for (let times = 1; times <= 3; times += 1) {
      await scene.isLive();
      const { nextId } = scene;
      await scene.until(() => scene.nextId > nextId);
      exchange.feeds.disconnect();
      await scene.until(() => exchange.feeds.connections > times);
    }
    await scene.isLive();
    assert.equal(scene.live.stats.error, undefined);
    await scene.assertTrue();
  });

  it('that REST tells otherwise are told, and the product is left to REST', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    exchange.feeds.trouble = { altered: 0.05 };
    await using scene = await Scene.open(exchange, 'simulated', folder.path, ['A-USD'], 200);
    await scene.until(() => scene.live.stats.contradicted > 0);
    const { contradiction = '' } = scene.live.stats;
    assert.match(contradiction, /A-USD: trade \d+: the feed said .*, the REST API says /);
    assert.deepEqual(scene.live.stats.products, []);
    // A commit of the feed may be under way: the round after the next begins when that is over.
    const { rounds } = scene.follower.stats;
    await scene.until(() => scene.follower.stats.rounds > rounds + 1);
    const { trades } = scene.live.harvester;
    const { nextId } = scene;
    await scene.until(() => scene.nextId > nextId + 100);
    assert.equal(scene.live.harvester.trades, trades);
  });
});

describe('the comparison of a feed with REST', () => {
  for (const name of ['simulated', 'kraken'] as const) {
    it(`of ${name} goes on after a restart, and what it finds is known ever after`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
      const slow = { ...growing('A-USD'), growthPerSecond: 50 };
      await using exchange = await startExchange({ products: [slow] });
      exchange.feeds.trouble = { altered: 1 };
      const open = () => Scene.open(exchange, name, folder.path, ['A-USD'], 300_000);
      {
        await using scene = await open();
        await scene.until(() => scene.live.harvester.trades > 50);
        // REST has none of them when it stops, so that nothing can be compared.
        exchange.behind = 1e6;
        await scene.stop();
        const { contradicted, compared, uncompared } = scene.live.stats;
        assert.deepEqual([contradicted, compared], [0, 0]);
        const verification = await scene.verified();
        assert.ok(uncompared > 50);
        assert.deepEqual([verification.uncompared, verification.issues], [uncompared, []]);
      }
      exchange.behind = 0;
      exchange.feeds.trouble = {};
      {
        await using scene = await open();
        await scene.until(() => scene.live.stats.contradicted > 50);
        await scene.stop();
        const { uncompared, issues } = await scene.verified();
        assert.deepEqual([uncompared, issues.map(({ flaw }) => flaw)], [0, ['contradicted']]);
        assert.match(issues[0]?.message ?? '', /the feed said .*, the REST API says .* more\)/);
      }
      await using scene = await open();
      await scene.until(() => scene.live.stats.contradicted > 50);
      const { nextId } = scene;
      await scene.until(() => scene.nextId > nextId);
      assert.deepEqual([scene.live.harvester.trades, scene.live.stats.products], [0, []]);
    });
  }

  it('covers what came last, when it stops', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    exchange.feeds.trouble = { altered: 1 };
    await using scene = await Scene.open(exchange, 'simulated', folder.path, ['A-USD']);
    await scene.until(() => scene.live.harvester.trades > 0);
    await scene.stop();
    const { contradicted, uncompared } = scene.live.stats;
    assert.deepEqual([contradicted > 0, uncompared], [true, 0]);
  });

  it('waits for a REST API that is behind, and takes it for no contradiction', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    await using scene = await Scene.open(exchange, 'simulated', folder.path, ['A-USD'], 50);
    await scene.isLive();
    exchange.behind = 100;
    const { compared } = scene.live.stats;
    await scene.until(() => scene.live.stats.compared > compared + 200);
    const { contradicted, contradiction } = scene.live.stats;
    assert.deepEqual([contradicted, contradiction], [0, undefined]);
    await scene.isLive();
  });
});

describe('ingest follow with a feed', () => {
  it('ends with 1 if REST contradicts the feed, which verify and status tell later', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    await using exchange = await startExchange({ products: [growing('A-USD')] });
    exchange.feeds.trouble = { altered: 1 };
    const place = ['--data', folder.path, '--exchange', 'simulated', '--base-url', exchange.url];
    const rate = ['--rate-per-second', '100'];
    const follow = new IngestCommand(['follow', 'A-USD', '--port', '0', ...rate, ...place]);
    const socket = operatorSocket(folder.path);
    for (let text = ''; !/"contradicted":[1-9]/.test(text); await setTimeout(20)) {
      ({ text } = await askOperator({ socket, path: '/-/stats' }).catch(() => ({ text: '' })));
    }
    follow.signal('SIGINT');
    const { code, stderr } = await follow.ended;
    assert.match(stderr, /The feed and REST disagree: A-USD: trade \d+: .*the REST API says/);
    assert.equal(code, 1);
    await runIngest('transform', ...place);
    const verified = await runIngest('verify', ...place);
    assert.match(verified.stdout, /contradicted: A-USD: .*--full-refresh/);
    assert.equal(verified.code, 1);
    const status = await runIngest('status', '--json', ...place);
    assert.match(status.stdout, /"contradicted": *[1-9]/);
  });

  it('loses and doubles nothing when it is killed in the middle', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
    const products = ['A-USD', 'B-USD'];
    await using exchange = await startExchange({ products: products.map(growing) });
    const place = ['--data', folder.path, '--exchange', 'simulated', '--base-url', exchange.url];
    const words = ['follow', ...products, '--port', '0', '--lease-seconds', '1', ...place];
    const socket = operatorSocket(folder.path);
    for (let kills = 0; kills < 2; kills += 1) {
      const command = new IngestCommand([...words, '--rate-per-second', '100']);
      // Trades of this process that came by its feed are committed.
      for (;;) {
        const { text } = await askOperator({ socket, path: '/-/stats' }).catch(() => ({
          text: '',
        }));
        const isLive = /"products":\["A-USD","B-USD"\]/.test(text);
        if (isLive) break;
        await setTimeout(20);
      }
      const newest = exchange.latest('A-USD');
      while (exchange.latest('A-USD') < newest + 150 + 100 * kills) await setTimeout(1);
      command.signal('SIGKILL');
      await command.ended;
    }
    const { stderr } = await runIngest('run', ...products, '--rate-per-second', '100', ...place);
    const flags = { data: folder.path, exchange: 'simulated', baseUrl: exchange.url };
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {} });
    const { signal } = new AbortController();
    await (await ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    await assertTruthTo(ingest, exchange, products);
    assert.doesNotMatch(stderr, /failed/);
  });
});
