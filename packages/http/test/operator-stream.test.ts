import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { Panel } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer } from 'spillway-http';
import { ask, portOf } from './ask.ts';

interface Numbered {
  readonly number: number;
  readonly ballast: string;
}

async function open({ ballastBytes = 0 }: { readonly ballastBytes?: number }) {
  const clock = new VirtualClock();
  const panel = new Panel();
  const ballast = 'x'.repeat(ballastBytes);
  const state = { number: 0, reads: 0 };
  panel.watch('part', {
    get stats(): Numbered {
      state.reads += 1;
      return { number: state.number, ballast };
    },
  });
  const server = await createServer({ operator: { panel }, clock });
  const { app } = server.operator;
  const sockets = new Set<Socket>();
  app.server.on('connection', (socket) => sockets.add(socket));
  await app.listen({ port: 0, host: '127.0.0.1' });
  const url = `http://127.0.0.1:${portOf(app)}/-/stats/stream`;
  return { server, clock, state, sockets, url, [Symbol.asyncDispose]: () => server.close() };
}

/** Reads states one by one from an answer of server-sent events. */
async function* states(answer: IncomingMessage): AsyncGenerator<Numbered> {
  let rest = '';
  for await (const chunk of answer.setEncoding('utf8')) {
    rest += chunk;
    for (let end = rest.indexOf('\n\n'); end !== -1; end = rest.indexOf('\n\n')) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      // The first line only shows that the connection is there.
      if (event === ':') continue;
      assert.ok(event.startsWith('data: '));
      yield JSON.parse(event.slice('data: '.length)).parts.part.stats;
    }
  }
}

async function listen(url: string) {
  const asked = request(url, { agent: false }).end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return { asked, answer, next: states(answer) };
}

describe('the stream of stats', () => {
  it('begins with the state of now and goes on once a second', async () => {
    await using server = await open({});
    const { asked, answer, next } = await listen(server.url);
    assert.equal(answer.headers['content-type'], 'text/event-stream');
    assert.equal((await next.next()).value?.number, 0);
    server.state.number = 1;
    await server.clock.advance(999);
    assert.equal(server.state.reads, 1);
    await server.clock.advance(1);
    assert.equal((await next.next()).value?.number, 1);
    asked.destroy();
  });

  it('refuses one listener too many, and takes the place of one that left', async () => {
    await using server = await open({});
    const listeners = await Promise.all(Array.from({ length: 16 }, () => listen(server.url)));
    const refused = await ask(server.url);
    assert.equal(refused.status, 503);
    assert.equal(JSON.parse(refused.text).error.code, 'SOCKETS_FULL');
    const [{ asked: leaving }] = listeners as [(typeof listeners)[number]];
    const port = leaving.socket?.localPort;
    const [its] = [...server.sockets].filter(({ remotePort }) => remotePort === port);
    const gone = once(its as Socket, 'close');
    leaving.destroy();
    await gone;
    assert.equal((await listen(server.url)).answer.statusCode, 200);
    for (const { asked } of listeners) asked.destroy();
  });

  it('leaves no timer with the last listener, and reads the parts once for all', async () => {
    await using server = await open({});
    const listeners = [await listen(server.url), await listen(server.url)];
    for (const { next } of listeners) await next.next();
    const before = server.state.reads;
    await server.clock.advance(1_000);
    for (const { next } of listeners) await next.next();
    assert.equal(server.state.reads, before + 1);
    const gone = [...server.sockets].map((socket) => once(socket, 'close'));
    for (const { asked } of listeners) asked.destroy();
    await Promise.all(gone);
    assert.equal(server.clock.pending, 0);
  });

  it('keeps nothing for a slow reader, who then gets the newest state', async () => {
    const ballastBytes = 1_000_000;
    await using server = await open({ ballastBytes });
    const asked = request(server.url, { agent: false }).end();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.pause();
    const [socket] = server.sockets;
    assert.ok(socket !== undefined);
    let mostBytes = 0;
    for (let second = 1; second <= 30; second += 1) {
      server.state.number = second;
      await server.clock.advance(1_000);
      // One turn of the loop, so that the kernel takes what it has room for.
      await new Promise((resolve) => setImmediate(resolve));
      mostBytes = Math.max(mostBytes, socket.writableLength);
    }
    assert.ok(mostBytes > 0, 'the reader was slow enough to be waited for');
    assert.ok(mostBytes < 3 * ballastBytes, `${mostBytes} bytes wait`);
    const sent = server.state.reads;
    assert.ok(sent < 15, `${sent} of 30 states were sent`);
    const reading = states(answer);
    server.state.number = 99;
    await server.clock.advance(1_000);
    let taken = 0;
    for (let newest = 0; newest !== 99; taken += 1) {
      newest = (await reading.next()).value?.number ?? 0;
    }
    assert.ok(taken <= sent + 1, `${taken} states came before the newest`);
    asked.destroy();
  });

  it('cuts off a reader that has read nothing for a minute', async () => {
    await using server = await open({ ballastBytes: 8_000_000 });
    const { answer } = await listen(server.url);
    answer.pause();
    const [socket] = server.sockets;
    assert.ok(socket !== undefined);
    const cut = once(socket, 'close');
    await server.clock.advance(80_000);
    await cut;
    assert.equal(server.clock.pending, 0);
    answer.destroy();
  });

  it('ends when the server closes', async () => {
    const server = await open({});
    const { next } = await listen(server.url);
    await next.next();
    const closed = server.server.close();
    assert.equal((await next.next()).done, true);
    await closed;
    assert.equal(server.clock.pending, 0);
  });

  it('is not opened by HEAD, which would never read it', async () => {
    await using server = await open({});
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write('HEAD /-/stats/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    const [head] = await once(socket, 'data');
    assert.match(String(head), /^HTTP\/1\.1 404/);
    assert.equal(server.clock.pending, 0);
  });
});
