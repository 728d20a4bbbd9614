import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { systemRandom, wallClock } from 'spillway';
import { askOperator, operatorSocket } from 'spillway-http';
import { WebSocketServer } from 'ws';
import { coinbase } from '../src/connectors/coinbase.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { Feed } from '../src/harvest/feed.ts';
import { Follower } from '../src/harvest/follower.ts';
import { LiveTrades, liveConnector } from '../src/harvest/live.ts';
import { type Ingest, openIngest } from '../src/open.ts';
import { type ExchangeName, readSettings } from '../src/settings.ts';
import { type Exchange, startExchange } from '../src/simulated/exchange.ts';
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
  ): Promise<Scene> {
    const flags = { data: path, exchange: name, baseUrl: exchange.url, ratePerSecond: '1000' };
    const { settings } = readSettings({ flags, environment: {} });
    const ingest = await openIngest({ settings, environment: {}, batchMsMax: 10, leaseMs: 5_000 });
    const wish = { fullRefresh: false, sinceUs: undefined, untilUs: undefined, products };
    const { connector, clock, guard } = ingest;
    const form = connector.feed ?? assert.fail('no feed');
    const feed = new Feed({ form, products, clock, random: systemRandom, backoffMs: 20 });
    const request = { ...wish, fillsGaps: false };
    const live = new LiveTrades({
      ...{ feed, form, connector, guard, products, compareMs, clock },
      commitMs: 50,
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

  /** Every trade that is committed is in the table once, and as the exchange has it. */
  async assertTrue(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    const { signal } = new AbortController();
    await (await this.ingest.transformer()).run({ rebuild: false, waits: true }, signal);
    await assertTruthTo(this.ingest, this.exchange, this.products);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
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
    const { current: generation } = await ingest.book.generations(product);
    const of = { exchange: ingest.connector.name, product, generation };
    const checkpoint = await ingest.book.checkpoint(of);
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
  for (const name of ['coinbase', 'kraken', 'binance'] as const) {
    it(`of ${name} are in the ledger within a second, each once, as REST has them`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-feed-'));
      const product = names[name];
      await using exchange = await startExchange({ products: [growing(product)] });
      await using scene = await Scene.open(exchange, name, folder.path, [product], 500);
      await scene.isLive();
      let bestMs = Infinity;
      for (let looks = 0; looks < 5; looks += 1) {
        const newest = exchange.latest(product);
        const askedAt = performance.now();
        await scene.until(() => scene.nextId > newest);
        bestMs = Math.min(bestMs, performance.now() - askedAt);
      }
      assert.ok(bestMs < 1_000, `${bestMs} ms`);
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
    await scene.until(() => scene.nextId > 1_200);
    const { missed, duplicates, trades, contradicted } = scene.live.stats;
    assert.ok(missed > 0 && duplicates > 0 && trades > 0, JSON.stringify(scene.live.stats));
    assert.equal(contradicted, 0);
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
    const { trades } = scene.live.harvester;
    const { nextId } = scene;
    await scene.until(() => scene.nextId > nextId + 100);
    assert.equal(scene.live.harvester.trades, trades);
  });
});

/** A feed of Coinbase's form that says what the test wants. */
async function hostileFeed(
  script: (send: (message: object | string) => void, connection: number) => void,
): Promise<{ readonly feed: Feed; readonly url: string } & AsyncDisposable> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  let connections = 0;
  server.on('connection', (client) => {
    connections += 1;
    client.on('error', () => {});
    client.once('message', () => {
      const channels = [{ name: 'matches', product_ids: ['A-USD'] }];
      client.send(JSON.stringify({ type: 'subscriptions', channels }));
      const send = (message: object | string) =>
        client.send(typeof message === 'string' ? message : JSON.stringify(message));
      script(send, connections);
    });
  });
  const { port } = server.address() as AddressInfo;
  const url = `ws://127.0.0.1:${port}`;
  const form = coinbase({ feedUrl: url }).feed ?? assert.fail('no feed');
  const tuning = { tradesMax: 1_000, bytesMax: 10_000, silenceMs: 200, backoffMs: 5 };
  const feed = new Feed({
    ...{ form, products: ['A-USD'], ...tuning },
    clock: wallClock,
    random: systemRandom,
  });
  const stop = new AbortController();
  const running = feed.run(stop.signal);
  return {
    feed,
    url,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      for (const client of server.clients) client.terminate();
      server.close();
    },
  };
}

function match(trade_id: number, others: object = {}): object {
  const time = new Date().toISOString();
  const trade = { type: 'match', trade_id, side: 'buy', size: '1.5', price: '2.50', time };
  return { ...trade, product_id: 'A-USD', sequence: trade_id, ...others };
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await setTimeout(2);
}

describe('a feed', () => {
  const faults: readonly (readonly [string, string, RegExp])[] = [
    ['is not JSON', '{"type":"match",', /cannot be read/],
    ['is too long', `{"type":"note","text":"${'x'.repeat(20_000)}"}`, /./],
    ['has a price that is a number', JSON.stringify(match(5, { price: 2.5 })), /price.*got 2\.5/],
    ['refuses', JSON.stringify({ type: 'error', message: 'no', reason: 'never' }), /no: never/],
  ];
  for (const [what, message, error] of faults) {
    it(`is left and connected to again when a message ${what}`, async () => {
      await using scene = await hostileFeed((send, connection) => {
        send(match(connection));
        if (connection <= 2) send(message);
      });
      const { feed } = scene;
      const errors = new Set<string>();
      await until(() => {
        errors.add(feed.stats.error ?? '');
        return feed.stats.connections >= 3 && feed.newest('A-USD') === 3;
      });
      assert.match([...errors].join(' '), error);
      assert.equal(feed.runAt('A-USD', 1, 10), 3);
    });
  }

  it('is connected to again when it is silent', async () => {
    await using scene = await hostileFeed((send, connection) => send(match(connection)));
    await until(() => scene.feed.newest('A-USD') === 2);
    assert.ok(scene.feed.stats.connections >= 2);
  });

  it('keeps neither other products, nor trades of the future, nor any twice', async () => {
    await using scene = await hostileFeed((send) => {
      send(match(1, { product_id: 'B-USD' }));
      send(match(2, { time: '2999-01-01T00:00:00.000000Z' }));
      for (const id of [7, 5, 6, 5, 9]) send(match(id));
    });
    const { feed } = scene;
    await until(() => feed.newest('A-USD') === 9);
    assert.deepEqual([...feed.page('A-USD', 0, 100).ids], [5, 6, 7, 9]);
    const { refused, duplicates, missed, trades } = feed.stats;
    assert.deepEqual([refused, duplicates, missed, trades], [2, 1, 1, 4]);
    assert.equal(feed.subscribedAt('B-USD'), undefined);
  });

  it('drops the oldest when nobody takes them, and says so', async () => {
    await using scene = await hostileFeed((send) => {
      for (let id = 1; id <= 1_500; id += 1) send(match(id));
    });
    await until(() => scene.feed.newest('A-USD') === 1_500);
    assert.equal(scene.feed.stats.dropped, 500);
    assert.equal(scene.feed.page('A-USD', 0, 2_000).ids.length, 1_000);
  });

  it('gives the digits that Kraken writes, also with an exponent', () => {
    const form = kraken().feed ?? assert.fail('no feed');
    const data = (price: string, qty: string): string =>
      `{"channel":"trade","type":"update","data":[{"symbol":"BTC/USD","side":"sell",
        "price":${price},"qty":${qty},"ord_type":"limit","trade_id":7,
        "timestamp":"2023-09-25T07:49:37.708706Z"}]}`;
    const lineOf = (price: string, qty: string): string => {
      const { trades = [] } = form.read(data(price, qty));
      return trades.map(({ trade }) => form.line(trade).text).join();
    };
    const rest = '1695628177.708706,"s","l","",7]';
    assert.equal(lineOf('0.30000000000000004', '40.0'), `["0.30000000000000004","40.0",${rest}`);
    assert.equal(lineOf('1.25e-7', '2E3'), `["0.000000125","2000",${rest}`);
    assert.equal(lineOf('12.5e1', '1e0'), `["125","1",${rest}`);
  });
});

describe('ingest follow with a feed', () => {
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
