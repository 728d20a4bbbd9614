import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import Fastify from 'fastify';
import { type OperatorOptions, operator } from 'spillway-http';
import { ask, portOf } from './ask.ts';

const token = 'correct-horse-battery-staple';
const paths = ['live', 'ready', 'metrics', 'stats', 'errors', 'routes', 'config', 'plugins'];
const outside = Object.values(networkInterfaces())
  .flat()
  .find((one) => one !== undefined && !one.internal && one.family === 'IPv4')?.address;

async function open(options: OperatorOptions = {}, host = '127.0.0.1') {
  const app = Fastify({ trustProxy: true });
  await app.register(operator, options);
  await app.listen({ port: 0, host });
  return { app, port: portOf(app), [Symbol.asyncDispose]: () => app.close() };
}

describe('access to the operator’s endpoints', () => {
  const cases: readonly (readonly [string, Record<string, string>, number])[] = [
    ['a program of this machine', {}, 200],
    ['the name localhost', { host: 'localhost:3000' }, 200],
    ['a name in capitals', { host: 'LOCALHOST' }, 200],
    ['the IPv6 address', { host: '[::1]:80' }, 200],
    ['a tab that was opened by hand', { 'sec-fetch-site': 'none' }, 200],
    ['a page of this very server', { 'sec-fetch-site': 'same-origin' }, 200],
    ['the right token', { authorization: `Bearer ${token}` }, 200],
    [
      'the right token through a proxy',
      { authorization: `bearer ${token}`, 'x-forwarded-for': '203.0.113.9', host: 'shop.example' },
      200,
    ],
    ['a wrong token', { authorization: 'Bearer wrong' }, 403],
    ['a longer token', { authorization: `Bearer ${token}x` }, 403],
    ['no token after its name', { authorization: 'Bearer ' }, 403],
    ['the token by another scheme', { authorization: `Basic ${token}` }, 403],
    ['a proxy’s header', { 'x-forwarded-for': '127.0.0.1' }, 403],
    ['a proxy’s standard header', { forwarded: 'for=127.0.0.1' }, 403],
    ['a proxy’s address header', { 'x-real-ip': '127.0.0.1' }, 403],
    ['a proxy’s host header', { 'x-forwarded-host': 'localhost' }, 403],
    ['a proxy that names itself', { via: '1.1 edge' }, 403],
    ['a content network', { 'cf-connecting-ip': '127.0.0.1' }, 403],
    ['another content network', { 'true-client-ip': '127.0.0.1' }, 403],
    ['a service mesh', { 'x-envoy-external-address': '127.0.0.1' }, 403],
    ['a foreign host', { host: 'rebound.example' }, 403],
    ['a host that begins like ours', { host: '127.0.0.1.example.com' }, 403],
    ['a host with user info', { host: 'x@localhost' }, 403],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['another port of this machine', { 'sec-fetch-site': 'same-site' }, 403],
    ['a foreign origin', { origin: 'https://evil.example' }, 403],
    ['an origin that hides', { origin: 'null' }, 403],
    ['another port as origin', { host: 'localhost:1', origin: 'http://localhost:2' }, 403],
    ['its own origin', { host: 'localhost:1', origin: 'http://localhost:1' }, 200],
  ];

  for (const [who, headers, status] of cases) {
    it(`${status === 200 ? 'lets in' : 'refuses'} ${who}`, async () => {
      await using server = await open({ token });
      const answer = await ask(`http://127.0.0.1:${server.port}/-/live`, headers);
      assert.equal(answer.status, status);
      if (status === 403) assert.equal(JSON.parse(answer.text).code, 'OPERATOR_ONLY');
    });
  }

  it('refuses an empty host, and HTTP/1.0 as a proxy that adds no header may speak', async () => {
    await using server = await open();
    const statusOf = async (request: string) => {
      const socket = connect(server.port, '127.0.0.1');
      await once(socket, 'connect');
      socket.write(request);
      return /^HTTP\/1\.1 (\d+) /.exec(await text(socket))?.[1];
    };
    const end = '\r\nConnection: close\r\n\r\n';
    assert.equal(await statusOf(`GET /-/live HTTP/1.1\r\nHost: localhost${end}`), '200');
    assert.equal(await statusOf(`GET /-/live HTTP/1.1\r\nHost: ${end}`), '403');
    assert.equal(await statusOf(`GET /-/live HTTP/1.0\r\nHost: localhost${end}`), '403');
  });

  it('refuses another machine at every endpoint, whatever it says about itself', async (test) => {
    if (outside === undefined) return test.skip('this machine has no address but its own');
    await using server = await open({ token }, '0.0.0.0');
    for (const path of [...paths, 'stats/stream']) {
      const url: string = `http://${outside}:${server.port}/-/${path}`;
      const made = { host: 'localhost', 'x-forwarded-for': '127.0.0.1' };
      assert.equal((await ask(url, { host: 'localhost' })).status, 403, path);
      assert.equal((await ask(url, made)).status, 403, path);
    }
    const live = `http://${outside}:${server.port}/-/live`;
    assert.equal((await ask(live, { authorization: `Bearer ${token}` })).status, 200);
    assert.equal((await ask(`http://127.0.0.1:${server.port}/-/live`)).status, 200);
  });

  it('goes by the address of the socket, of either family', async () => {
    const app = Fastify();
    await app.register(operator);
    const statusOf = async (remoteAddress: string) => {
      const url = '/-/live';
      const headers = { host: 'localhost' };
      return (await app.inject({ url, remoteAddress, headers })).statusCode;
    };
    for (const near of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) {
      assert.equal(await statusOf(near), 200, near);
    }
    for (const far of ['10.0.0.1', '128.0.0.1', '::ffff:10.0.0.1', 'fe80::1', '::2', 'x']) {
      assert.equal(await statusOf(far), 403, far);
    }
    await app.close();
  });

  it('lets in nobody without a token when loopback is off, or when there is no token', async () => {
    await using closed = await open({ loopback: false });
    const url = `http://127.0.0.1:${closed.port}/-/live`;
    assert.equal((await ask(url)).status, 403);
    assert.equal((await ask(url, { authorization: 'Bearer undefined' })).status, 403);
    assert.equal((await ask(url, { authorization: 'Bearer ' })).status, 403);
    await using tokened = await open({ loopback: false, token });
    const other = `http://127.0.0.1:${tokened.port}/-/live`;
    assert.equal((await ask(other)).status, 403);
    assert.equal((await ask(other, { authorization: `Bearer ${token}` })).status, 200);
  });

  it('refuses to begin with a token that can be guessed', async () => {
    await assert.rejects(open({ token: 'short' }), /token: must be a word of 16 to 1024/);
  });
});
