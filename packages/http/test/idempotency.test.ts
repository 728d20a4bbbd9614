import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { idempotency, uploads } from 'spillway-http';
import { barrier, Shop } from './fixtures/shop.ts';
import { crowd, Site, tally } from './fixtures/site.ts';

describe('idempotency', () => {
  it('does a thing once and gives its answer again, with status, headers and body', async () => {
    await using shop = await Shop.open({});
    const first = await shop.send('k');
    assert.equal(first.status, 201);
    const again = await shop.send('k');
    assert.equal(again.status, 201);
    assert.equal(again.text, first.text);
    assert.equal(again.headers['x-order'], '1');
    assert.equal(again.headers['content-type'], first.headers['content-type']);
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.equal(first.headers['idempotency-replayed'], undefined);
    assert.equal(shop.done, 1);
    assert.equal((await shop.send('other')).json.order, 2);
  });

  it('is done once of 200 tries, 32 at a time, and refuses 199 in mode `refuse`', async () => {
    await using shop = await Shop.open({ mode: 'refuse' });
    const replies = await crowd(200, 32, () => shop.send('one'));
    assert.deepEqual(tally(replies.map(({ status }) => status)), { 201: 1, 409: 199 });
    assert.equal(shop.done, 1);
    assert.equal((await shop.send('one')).json.code, 'IDEMPOTENCY_REPEATED');
  });

  it('is done once of 200 tries, 32 at a time, and gives all others its answer', async () => {
    const gate = barrier();
    await using shop = await Shop.open({}, async () => {
      await gate.wait();
      return { order: 'only' };
    });
    const trying = crowd(200, 32, async () => {
      const reply = await shop.send('one');
      if (reply.status === 409) gate.open();
      return reply;
    });
    const replies = await trying;
    const running = replies.filter(({ status }) => status === 409);
    const answered = replies.filter(({ status }) => status === 200);
    assert.equal(running.length + answered.length, 200);
    assert.ok(running.length > 0 && answered.length > 1);
    for (const { json, headers } of running) {
      assert.equal(json.code, 'IDEMPOTENCY_RUNNING');
      assert.equal(headers['retry-after'], '1');
    }
    for (const { json } of answered) assert.deepEqual(json, { order: 'only' });
    const first = answered.filter(({ headers }) => headers['idempotency-replayed'] === undefined);
    assert.equal(first.length, 1);
    assert.equal(shop.done, 1);
  });

  it('refuses a key that was used for something else', async () => {
    await using shop = await Shop.open({});
    await shop.send('k', '/order/1');
    for (const [path, body] of [
      ['/order/1', { n: 2 }],
      ['/order/2', { n: 1 }],
      ['/order/1?x', { n: 1 }],
    ] as const) {
      const refused = await shop.send('k', path, { body });
      assert.equal(refused.status, 422, path);
      assert.equal(refused.json.code, 'IDEMPOTENCY_MISMATCH');
    }
    assert.equal(shop.done, 1);
  });

  it('tells bodies apart that are read as a stream, though they are of one length', async () => {
    await using site = await Site.open(async (app) => {
      await app.register(idempotency, {});
      app.addContentTypeParser('text/plain', (_request, payload, done) => done(null, payload));
      app.post('/upload', async ({ body }) => ({ read: (await text(body as Readable)).length }));
    });
    const send = (body: string) =>
      site.ask('/upload', {
        method: 'POST',
        headers: { 'idempotency-key': 'k', 'content-type': 'text/plain' },
        body,
      });
    const [long, other] = ['a', 'b'].map((end) => 'x'.repeat(300_000) + end) as [string, string];
    assert.deepEqual((await send(long)).json, { read: 300_001 });
    assert.equal((await send(long)).headers['idempotency-replayed'], 'true');
    assert.equal((await send(other)).json.code, 'IDEMPOTENCY_MISMATCH');
    assert.equal((await send(long)).headers['idempotency-replayed'], 'true');
  });

  it('tells forms apart that differ in one letter of a file', async () => {
    await using site = await Site.open(async (app) => {
      await app.register(uploads);
      await app.register(idempotency, {});
      app.post('/form', async (request) => {
        let bytes = 0;
        for await (const part of request.parts()) {
          if (part.type === 'file') bytes += (await part.toBuffer()).length;
        }
        return { bytes };
      });
    });
    const send = (letter: string) => {
      const head = '--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\n';
      return site.ask('/form', {
        method: 'POST',
        headers: { 'idempotency-key': 'k', 'content-type': 'multipart/form-data; boundary=b' },
        body: `${head}${'x'.repeat(200_000)}${letter}\r\n--b--\r\n`,
      });
    };
    assert.deepEqual((await send('a')).json, { bytes: 200_001 });
    assert.equal((await send('a')).headers['idempotency-replayed'], 'true');
    assert.equal((await send('b')).json.code, 'IDEMPOTENCY_MISMATCH');
  });

  it('keeps the keys of routes, methods and users apart', async () => {
    await using shop = await Shop.open({ user: ({ headers }) => headers.authorization });
    const as = (authorization: string) => ({ headers: { authorization } });
    await shop.send('k', '/order', as('ann'));
    await shop.send('k', '/order', as('bob'));
    await shop.send('k', '/order');
    await shop.send('k', '/order', { method: 'PUT' });
    await shop.send('k', '/order/1');
    assert.equal(shop.done, 5);
    await shop.send('k', '/order', as('ann'));
    assert.equal(shop.done, 5);
  });

  it('asks for a key where one is needed, and takes no strange one', async () => {
    await using shop = await Shop.open({});
    const missing = await shop.site.ask('/must', { method: 'POST', body: {} });
    assert.equal(missing.status, 400);
    assert.equal(missing.json.code, 'IDEMPOTENCY_INVALID');
    assert.equal((await shop.send('k', '/must')).status, 201);
    for (const key of ['', 'a b', 'x'.repeat(256), 'ü']) {
      assert.equal((await shop.send(key)).status, 400, key);
    }
    assert.equal((await shop.send('x'.repeat(255))).status, 201);
    const free = await shop.site.ask('/order', { method: 'POST', body: {} });
    assert.equal(free.status, 201);
    await using strict = await Shop.open({ required: true });
    assert.equal((await strict.site.ask('/order', { method: 'POST' })).status, 400);
    assert.equal((await strict.site.ask('/never', { method: 'POST' })).status, 201);
    assert.equal((await strict.site.ask('/order')).status, 201);
  });

  it('keeps what a handler refused, but nothing that may be otherwise next time', async () => {
    let status = 404;
    await using shop = await Shop.open({}, (_request, reply) => reply.code(status).send({}));
    const statuses: number[] = [];
    for (const next of [404, 200]) {
      status = next;
      statuses.push((await shop.send('refused')).status);
    }
    for (const passing of [500, 503, 401, 403, 429]) {
      for (const next of [passing, 200, 500]) {
        status = next;
        statuses.push((await shop.send(`passing ${passing}`.replace(' ', '-'))).status);
      }
    }
    const again = [500, 503, 401, 403, 429].flatMap((passing) => [passing, 200, 200]);
    assert.deepEqual(statuses, [404, 404, ...again]);
  });

  it('frees the key of what was refused before the handler', async () => {
    await using shop = await Shop.open({});
    assert.equal((await shop.send('k', '/strict', { body: {} })).status, 400);
    assert.equal((await shop.send('k', '/strict', { body: { n: 1 } })).status, 201);
    assert.equal(shop.done, 1);
  });

  it('keeps an answer that is a stream, and hands it on at the pace of its reader', async () => {
    let produced = 0;
    const stuck = Promise.withResolvers<ServerResponse>();
    const pieces = function* () {
      for (let i = 0; i < 4; i += 1) yield Buffer.alloc(1000, `${i}`);
    };
    const endless = function* () {
      for (produced = 0; produced < 4096; produced += 1) yield Buffer.alloc(65_536);
    };
    await using shop = await Shop.open({ answerBytesMax: 4000 }, ({ url }, reply) => {
      if (url !== '/order') stuck.resolve(reply.raw);
      const source = url === '/order' ? Readable.from(pieces()) : Readable.from(endless());
      return reply.type('text/plain').send(source);
    });
    const first = await shop.send('k');
    assert.equal(first.text.length, 4000);
    const again = await shop.send('k');
    assert.equal(again.text, first.text);
    assert.equal(again.headers['content-type'], first.headers['content-type']);
    assert.equal(shop.done, 1);

    // A client that reads nothing: the source must stop, not fill the memory.
    const { port, hostname } = new URL(shop.site.origin);
    const socket = connect(Number(port), hostname);
    const request = 'POST /order/1 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n';
    socket.pause();
    socket.write(`${request}idempotency-key: slow\r\n\r\n`);
    const { socket: full } = await stuck.promise;
    while (!full?.writableNeedDrain) await setImmediate();
    for (let turn = 0; turn < 100; turn += 1) await setImmediate();
    assert.ok(produced < 1000, `${produced} of 4096 pieces`);
    socket.destroy();
    // It was done, though it broke off: it is not done again.
    let late = await shop.send('slow', '/order/1', { body: '' });
    while (late.json.code === 'IDEMPOTENCY_RUNNING') {
      late = await shop.send('slow', '/order/1', { body: '' });
    }
    assert.equal(late.status, 409);
    assert.equal(late.json.code, 'IDEMPOTENCY_DONE');
  });

  it('remembers that a thing was done though its answer is too long to keep', async () => {
    await using shop = await Shop.open({ answerBytesMax: 10 }, () => 'x'.repeat(11));
    assert.equal((await shop.send('k')).status, 200);
    const again = await shop.send('k');
    assert.equal(again.status, 409);
    assert.equal(again.json.code, 'IDEMPOTENCY_DONE');
    assert.equal(shop.done, 1);
  });

  it('keeps the answer for a client that left before it came', async () => {
    const gate = barrier();
    await using shop = await Shop.open({}, async () => {
      await gate.wait();
      return { order: 1 };
    });
    const { port, hostname } = new URL(shop.site.origin);
    const socket = connect(Number(port), hostname);
    const head = 'POST /order HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
    socket.write(`${head}content-length: 7\r\nidempotency-key: k\r\n\r\n{"n":1}`);
    await gate.begun;
    socket.destroy();
    gate.open();
    let reply = await shop.send('k');
    while (reply.status === 409) reply = await shop.send('k');
    assert.deepEqual(reply.json, { order: 1 });
    assert.equal(shop.done, 1);
  });

  it('refuses wrong options, naming them', async () => {
    await assert.rejects(Shop.open({ answerBytesMax: -1 }), /answerBytesMax: must be/);
    await assert.rejects(Shop.open({ mode: 'x' as 'answer' }), /mode: must be/);
    await assert.rejects(Shop.open({ name: '' }), /name: must be/);
    await assert.rejects(Shop.open({ ageMs: 0 }), /ageMs: must be/);
  });
});
