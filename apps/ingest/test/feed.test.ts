import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { systemRandom, wallClock } from 'spillway';
import { WebSocketServer } from 'ws';
import { coinbase } from '../src/connectors/coinbase.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { Feed } from '../src/harvest/feed.ts';

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
