import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type Clock, systemRandom, wallClock } from 'spillway';
import { type WebSocket, WebSocketServer } from 'ws';
import { coinbase } from '../src/connectors/coinbase.ts';
import { declared } from '../src/connectors/declared.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { pageOf } from '../src/connectors/page.ts';
import { Feed } from '../src/harvest/feed.ts';

/** A feed of Coinbase's form that says what the test wants. */
async function hostileFeed(
  script: (send: (message: object | string) => void, connection: number, client: WebSocket) => void,
  clock: Clock = wallClock,
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
      script(send, connections, client);
    });
  });
  const { port } = server.address() as AddressInfo;
  const url = `ws://127.0.0.1:${port}`;
  const form = declared(coinbase, { feedUrl: url }).feed ?? assert.fail('no feed');
  const tuning = { tradesMax: 1_000, bytesMax: 10_000, silenceMs: 200, backoffMs: 5 };
  const feed = new Feed({
    ...{ form, products: ['A-USD'], ...tuning },
    clock,
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
      const errors: (string | undefined)[] = [];
      const clock: Clock = {
        now: () => wallClock.now(),
        after(ms, call) {
          // The wait for the next connection is among these calls: until then the error is told.
          errors.push(scene?.feed.stats.error);
          return wallClock.after(ms, call);
        },
      };
      let scene: Awaited<ReturnType<typeof hostileFeed>> | undefined;
      scene = await hostileFeed((send, connection) => {
        send(match(connection));
        if (connection <= 2) send(message);
      }, clock);
      await using _scene = scene;
      const { feed } = scene;
      await until(() => feed.newest('A-USD') >= 3);
      assert.match(errors.join(' '), error);
      assert.ok(feed.runAt('A-USD', 1, 10) >= 3);
    });
  }

  it('is connected to again when it is silent', async () => {
    await using scene = await hostileFeed((send, connection) => send(match(connection)));
    await until(() => scene.feed.newest('A-USD') >= 2);
    assert.ok(scene.feed.stats.connections >= 2);
  });

  it('is not heard any more once it was left, however slowly it closes', async () => {
    let isSaid = false;
    await using scene = await hostileFeed((send, connection, client) => {
      send(match(connection));
      if (connection > 1) return;
      client.pause();
      void setTimeout(400).then(() => {
        send(match(50));
        isSaid = true;
      });
    });
    await until(() => isSaid);
    await setTimeout(100);
    assert.ok(scene.feed.newest('A-USD') < 50, `${scene.feed.newest('A-USD')}`);
  });

  it('is asked less often each time it subscribes and fails, until a trade comes', async () => {
    const pauses: number[] = [];
    const clock: Clock = {
      now: () => wallClock.now(),
      after(ms, call) {
        // Apart from the watch for silence and for the end of a closed connection.
        if (ms !== 200 / 3 && ms !== 1_000) pauses.push(ms);
        return wallClock.after(ms, call);
      },
    };
    await using scene = await hostileFeed((send, connection) => {
      if (connection === 6) send(match(1));
      send({ type: 'error', message: 'no', reason: 'not now' });
    }, clock);
    await until(() => scene.feed.stats.connections >= 7);
    const [first = 0, , , , fifth = 0, sixth = 0] = pauses;
    assert.ok(first <= 5 && fifth >= 40 && sixth <= 5, pauses.join());
  });

  it('is cut off if the server does not answer the closing of a connection', async () => {
    const server = createServer();
    const ended = new Promise<void>((resolve) => {
      server.once('upgrade', (request, socket) => {
        const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
        const accept = createHash('sha1').update(key).digest('base64');
        const head =
          'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade';
        socket.write(`${head}\r\nsec-websocket-accept: ${accept}\r\n\r\n`);
        socket.on('error', () => {}).resume();
        socket.once('end', () => {
          socket.destroy();
          resolve();
        });
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const form =
      declared(coinbase, { feedUrl: `ws://127.0.0.1:${port}` }).feed ?? assert.fail('no feed');
    const tuning = { silenceMs: 100, backoffMs: 60_000, clock: wallClock, random: systemRandom };
    const feed = new Feed({ form, products: ['A-USD'], ...tuning });
    const stop = new AbortController();
    const running = feed.run(stop.signal);
    await ended;
    const { lastMessageAt } = feed.stats;
    stop.abort();
    await running;
    server.close();
    // The server has accepted the connection, and said nothing.
    assert.equal(lastMessageAt, undefined);
  });

  it('keeps neither other products, nor trades of the future, nor any twice', async () => {
    await using scene = await hostileFeed((send, connection) => {
      if (connection > 1) return;
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

  it('keeps trades of now where the clock of the process is behind', async () => {
    const clock: Clock = { ...wallClock, now: () => wallClock.now() - 7_200_000 };
    await using scene = await hostileFeed((send) => send(match(5)), clock);
    await until(() => scene.feed.newest('A-USD') === 5);
    assert.equal(scene.feed.stats.refused, 0);
  });

  it('forgets an id far beyond what REST has, and nothing that leads on from there', async () => {
    let now = wallClock.now();
    const clock: Clock = { now: () => now, after: (ms, call) => wallClock.after(ms, call) };
    await using scene = await hostileFeed((send, connection) => {
      if (connection > 1) return;
      for (const id of [5, 6, 8, 2 ** 52]) send(match(id));
      send({ type: 'heartbeat', product_id: 'A-USD', last_trade_id: 2 ** 50 });
    }, clock);
    const { feed } = scene;
    await until(() => feed.stats.trades === 4 && feed.runAt('A-USD', 2 ** 52, 1) === 1);
    feed.doubt('A-USD', 5);
    assert.equal(feed.newest('A-USD'), 2 ** 52, 'it may be that REST is late');
    now += 60_001;
    feed.doubt('A-USD', 5);
    assert.equal(feed.newest('A-USD'), 6);
    assert.deepEqual([...feed.page('A-USD', 0, 10).ids], [5, 6]);
    assert.equal(feed.stats.missed, 0);
  });

  it('drops the oldest when nobody takes them, and says so', async () => {
    await using scene = await hostileFeed((send, connection) => {
      if (connection > 1) return;
      for (let id = 1; id <= 1_500; id += 1) send(match(id));
    });
    await until(() => scene.feed.newest('A-USD') === 1_500);
    assert.equal(scene.feed.stats.dropped, 500);
    assert.equal(scene.feed.page('A-USD', 0, 2_000).ids.length, 1_000);
  });

  it('gives the digits that Kraken writes, also with an exponent', () => {
    const form = declared(kraken).feed ?? assert.fail('no feed');
    const data = (price: string, qty: string): string =>
      `{"channel":"trade","type":"update","data":[{"symbol":"BTC/USD","side":"sell",
        "price":${price},"qty":${qty},"ord_type":"limit","trade_id":7,
        "timestamp":"2023-09-25T07:49:37.708706Z"}]}`;
    const lineOf = (price: string, qty: string): string => {
      const { trades = [] } = form.read(data(price, qty));
      const { lines } = pageOf(trades.map(({ trade }) => form.line(trade)));
      return Buffer.from(lines).toString().trimEnd();
    };
    const rest = '1695628177.708706,"s","l","",7]';
    assert.equal(lineOf('0.30000000000000004', '40.0'), `["0.30000000000000004","40.0",${rest}`);
    assert.equal(lineOf('1.25e-7', '2E3'), `["0.000000125","2000",${rest}`);
    assert.equal(lineOf('12.5e1', '1e0'), `["125","1",${rest}`);
  });
});
