import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, MemoryStore } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, type HttpServer } from 'spillway-http';
import { post, until, Wire } from './fixtures/wire.ts';

/** A shop whose one handler waits to be told how to end. */
class Shop implements AsyncDisposable {
  readonly clock: VirtualClock;
  readonly lane: Lane;
  readonly store: MemoryStore;
  sales = 0;
  work = Promise.withResolvers<object>();
  readonly server: HttpServer;

  private constructor(server: HttpServer, lane: Lane, store: MemoryStore, clock: VirtualClock) {
    this.server = server;
    this.store = store;
    this.lane = lane;
    this.clock = clock;
  }

  static async open(): Promise<Shop> {
    const clock = new VirtualClock();
    const lane = new Lane({ name: 'shop', limit: 8, queueMax: 0, deadlineMs: 1_000, clock });
    const store = new MemoryStore({ clock });
    const server = await createServer({ lane, clock, idempotency: { store, clock } });
    const shop = new Shop(server, lane, store, clock);
    server.app.post('/', async () => {
      shop.sales += 1;
      return await shop.work.promise;
    });
    await server.start();
    return shop;
  }

  /** A connection on which a sale has begun. */
  async sell(): Promise<Wire> {
    const { sales } = this;
    const wire = await Wire.open(this.server);
    wire.send(post('/', '{}', 'idempotency-key: a\r\n'));
    await until(() => this.sales > sales);
    return wire;
  }

  /** Asks for the same sale once more. */
  async again(): Promise<{ status: number; text: string }> {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'a' };
    const answer = await fetch(this.server.url, { method: 'POST', headers, body: '{}' });
    return { status: answer.status, text: await answer.text() };
  }

  /** Returns when the handler has ended and its place is free. */
  async ended(): Promise<void> {
    await until(() => this.lane.stats.inside === 0);
    for (;;) {
      const records = await this.store.list('idempotency/', { max: 10 });
      if (records.every(({ value }) => 'answer' in Object(value))) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close();
  }
}

describe('an idempotency key whose client did not wait', () => {
  it('keeps the answer of a client that left for its next try', async () => {
    await using shop = await Shop.open();
    using wire = await shop.sell();
    wire.socket.destroy();
    await until(() => shop.server.connections === 0);
    shop.work.resolve({ sold: 1 });
    await shop.ended();
    assert.deepEqual(await shop.again(), { status: 200, text: '{"sold":1}' });
    assert.equal(shop.sales, 1);
  });

  it('is free when what the client did not stay for has failed', async () => {
    await using shop = await Shop.open();
    using wire = await shop.sell();
    wire.socket.destroy();
    await until(() => shop.server.connections === 0);
    shop.work.reject(new Error('given up'));
    await shop.ended();
    shop.work = Promise.withResolvers();
    shop.work.resolve({ sold: 2 });
    assert.deepEqual(await shop.again(), { status: 200, text: '{"sold":2}' });
    assert.equal(shop.server.app.recentErrors.stats.total, 0);
  });

  it('is not free as long as the handler goes on after its deadline', async () => {
    await using shop = await Shop.open();
    using wire = await shop.sell();
    await shop.clock.advance(1_000);
    await wire.until('504 Gateway Timeout');
    assert.match((await shop.again()).text, /IDEMPOTENCY_RUNNING/);
    shop.work.resolve({ sold: 1 });
    await shop.ended();
    assert.match((await shop.again()).text, /IDEMPOTENCY_DONE/);
    assert.equal(shop.sales, 1);
  });

  it('is free when the handler has failed after its deadline', async () => {
    await using shop = await Shop.open();
    using wire = await shop.sell();
    await shop.clock.advance(1_000);
    await wire.until('504 Gateway Timeout');
    shop.work.reject(new Error('given up'));
    await shop.ended();
    shop.work = Promise.withResolvers();
    shop.work.resolve({ sold: 2 });
    assert.deepEqual(await shop.again(), { status: 200, text: '{"sold":2}' });
  });

  it('gives a repeated answer the id of its own request', async () => {
    await using shop = await Shop.open();
    shop.work.resolve({ sold: 1 });
    for (const id of ['first', 'second']) {
      using wire = await Wire.open(shop.server);
      wire.send(post('/', '{}', `idempotency-key: a\r\nx-request-id: ${id}\r\n`));
      assert.match(await wire.until('{"sold":1}'), new RegExp(`x-request-id: ${id}\r\n`));
    }
    assert.equal(shop.sales, 1);
  });
});
