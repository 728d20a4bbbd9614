import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { createServer, type HttpServer } from 'spillway-http';
import { get, post, until, Wire } from './fixtures/wire.ts';

const lane = new Lane({ name: 'methods', limit: 10, queueMax: 10, deadlineMs: 60_000 });

async function open(): Promise<HttpServer> {
  const server = await createServer({ lane });
  server.app.get('/user/:id', async () => ({ name: 'x' }));
  server.app.put('/user/:id', async () => 'put');
  server.app.post('/post', async () => 'posted');
  await server.start();
  return server;
}

describe('methods', () => {
  it('answers HEAD without reading a body that has no end', async () => {
    await using server = await createServer({ lane });
    const endless = () => new Readable({ read: (size) => void size });
    const streams: Readable[] = [];
    const kept = (stream: Readable) => {
      streams.push(stream);
      return stream;
    };
    server.app.get('/node', async () => kept(endless()));
    server.app.get('/web', async () => Readable.toWeb(kept(endless())));
    server.app.get('/response', async () => {
      const body = Readable.toWeb(kept(endless())) as ReadableStream;
      return new Response(body, { status: 203, headers: { 'x-own': 'yes' } });
    });
    await server.start();
    for (const [path, status] of Object.entries({ '/node': 200, '/web': 200, '/response': 203 })) {
      const { status: given } = await fetch(`${server.url}${path}`, { method: 'HEAD' });
      assert.equal(given, status, path);
    }
    await until(() => streams.length === 3 && streams.every(({ destroyed }) => destroyed));
  });

  it('answers HEAD like GET, without the body', async () => {
    await using server = await open();
    const head = await fetch(`${server.url}/user/1`, { method: 'HEAD' });
    const whole = await fetch(`${server.url}/user/1`);
    assert.equal(head.status, 200);
    assert.equal(await head.text(), '');
    for (const name of ['content-type', 'content-length', 'x-content-type-options']) {
      assert.equal(head.headers.get(name), whole.headers.get(name));
    }
    const nothing = await fetch(`${server.url}/none`, { method: 'HEAD' });
    assert.equal(nothing.status, 404);
    assert.equal(await nothing.text(), '');
  });

  it('refuses a method that the path does not take, and lists those it takes', async () => {
    await using server = await open();
    const response = await fetch(`${server.url}/user/1?x=/post`, { method: 'DELETE' });
    assert.equal(response.status, 405);
    assert.equal(response.headers.get('allow'), 'GET, HEAD, OPTIONS, PUT');
    assert.match(await response.text(), /"METHOD_REFUSED"/);
    const get = await fetch(`${server.url}/post`);
    assert.equal(get.status, 405);
    assert.equal(get.headers.get('allow'), 'OPTIONS, POST');
  });

  it('answers OPTIONS with what the path takes', async () => {
    await using server = await open();
    const response = await fetch(`${server.url}/user/1`, { method: 'OPTIONS' });
    assert.equal(response.status, 204);
    assert.equal(response.headers.get('allow'), 'GET, HEAD, OPTIONS, PUT');
    assert.equal((await fetch(`${server.url}/none`, { method: 'OPTIONS' })).status, 404);
    using wire = await Wire.open(server);
    wire.send('OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.match(await wire.until('\r\n\r\n'), /^HTTP\/1.1 204 [\s\S]*allow: .*DELETE, GET/);
  });

  it('answers an unknown path without its body, and takes no place for good', async () => {
    await using server = await open();
    using wire = await Wire.open(server);
    wire.send(post('/none', '{"a":1}').slice(0, -4));
    assert.match(await wire.until('"NOT_FOUND"'), /^HTTP\/1.1 404 /);
    using other = await Wire.open(server);
    other.send(get('/none').replace('GET', 'PROPFIND'));
    assert.match(await other.until('"NOT_FOUND"'), /^HTTP\/1.1 404 /);
    await until(() => lane.stats.inside === 0);
  });
});
