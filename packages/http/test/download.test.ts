import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { type FastifyInstance, fastify } from 'fastify';
import { seededRandom } from 'spillway';
import { type Download, download, httpError, type Piece } from 'spillway-http';

/** A server that answers GET / with what is made anew for each request. */
function serve(make: () => Download): FastifyInstance & AsyncDisposable {
  const app = fastify();
  app.get('/', async (_request, reply) => download(reply, make()));
  return app;
}

async function listen(app: FastifyInstance): Promise<number> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}

function request(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.write(`GET / HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return socket;
}

/** A piece of text that notes how it is opened and given in small chunks. */
function textPiece(text: string, opened: string[] = []): Piece {
  return {
    size: text.length,
    async *open(start, end) {
      opened.push(`${text}:${start}-${end}`);
      for (let at = start; at < end; at += 3) yield text.slice(at, Math.min(at + 3, end));
    },
  };
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe('a download of many pieces', () => {
  it('gives any range, and opens nothing that it does not need', async () => {
    const texts = ['alpha', '', 'b', 'gamma-delta', 'e'.repeat(20)];
    const whole = texts.join('');
    const opened: string[] = [];
    await using app = serve(() => ({ body: texts.map((text) => textPiece(text, opened)) }));
    const random = seededRandom(7);
    for (let n = 0; n < 200; n += 1) {
      const start = Math.floor(random() * whole.length);
      const last = start + Math.floor(random() * (whole.length - start));
      const headers = { range: `bytes=${start}-${last}` };
      const answer = await app.inject({ url: '/', headers });
      assert.equal(answer.statusCode, 206);
      assert.equal(answer.body, whole.slice(start, last + 1));
      assert.equal(answer.headers['content-length'], String(last + 1 - start));
      assert.equal(answer.headers['content-range'], `bytes ${start}-${last}/${whole.length}`);
    }
    opened.length = 0;
    await app.inject({ url: '/', headers: { range: 'bytes=4-7' } });
    assert.deepEqual(opened, ['alpha:4-5', 'b:0-1', 'gamma-delta:0-2']);
    opened.length = 0;
    const all = await app.inject('/');
    assert.deepEqual([all.statusCode, all.body], [200, whole]);
    opened.length = 0;
    const head = await app.inject({ method: 'HEAD', url: '/' });
    assert.equal(head.headers['content-length'], String(whole.length));
    assert.deepEqual(opened, []);
  });

  it('has headers for its name, type and version', async () => {
    await using app = serve(() => ({
      body: [textPiece('x')],
      type: 'text/plain; charset=utf-8',
      name: 'Zoë "quoted".pgn',
      version: 'v1',
      modifiedAt: 0,
    }));
    const { headers } = await app.inject('/');
    assert.equal(headers['content-type'], 'text/plain; charset=utf-8');
    const plain = 'attachment; filename="Zo_ _quoted_.pgn"';
    assert.equal(
      headers['content-disposition'],
      `${plain}; filename*=UTF-8''Zo%C3%AB%20%22quoted%22.pgn`,
    );
    assert.equal(headers.etag, '"v1"');
    assert.equal(headers['last-modified'], 'Thu, 01 Jan 1970 00:00:00 GMT');
    await using wrong = serve(() => ({ body: [], version: 'a"b' }));
    assert.match((await wrong.inject('/')).body, /version: must be visible ASCII/);
  });

  it('fails if its first piece does, and is cut off if a later one does', async () => {
    const lost: Piece = { size: 5, open: () => Promise.reject(httpError('NOT_FOUND', 'gone')) };
    await using first = serve(() => ({ body: [lost, textPiece('rest')] }));
    assert.equal((await first.inject('/')).statusCode, 404);
    const short: Piece = { size: 5, open: () => Readable.from(['ab']) };
    const long: Piece = { size: 1, open: () => Readable.from(['ab']) };
    for (const bad of [lost, short, long]) {
      await using later = serve(() => ({ body: [textPiece('good'), bad] }));
      const socket = request(await listen(later));
      const text = Buffer.concat(await socket.toArray()).toString();
      assert.match(text, /^HTTP\/1.1 200/);
      const [head = '', body = ''] = text.split('\r\n\r\n');
      const length = Number(/content-length: (\d+)/.exec(head)?.[1]);
      assert.ok(body.length < length, `${body} looks whole`);
    }
  });

  it('destroys its source at once when the client has gone', async () => {
    const sources: Readable[] = [];
    const endless: Piece = {
      size: 2 ** 40,
      open: () => {
        const source = new Readable({ read: () => void source.push(Buffer.alloc(65_536)) });
        sources.push(source);
        return source;
      },
    };
    await using app = serve(() => ({ body: [endless] }));
    const socket = request(await listen(app));
    await once(socket, 'data');
    assert.equal(sources[0]?.destroyed, false);
    const closed = once(sources[0] as Readable, 'close');
    socket.destroy();
    await closed;
    assert.equal(sources[0]?.destroyed, true);
  });

  it('destroys a source that was still being opened when the client went', async () => {
    const opening = Promise.withResolvers<Readable>();
    const asked = Promise.withResolvers<void>();
    const slow: Piece = {
      size: 10,
      open: () => {
        asked.resolve();
        return opening.promise;
      },
    };
    await using app = serve(() => ({ body: [slow] }));
    const gone = Promise.withResolvers<void>();
    app.addHook('onRequest', async (_request, reply) => {
      reply.raw.once('close', gone.resolve);
    });
    const socket = request(await listen(app));
    await asked.promise;
    socket.destroy();
    await gone.promise;
    const source = new Readable({ read: () => {} });
    opening.resolve(source);
    await once(source, 'close');
    assert.equal(source.destroyed, true);
  });
});

describe('a generated download', () => {
  it('is made at the pace of the client, and no longer made when it has gone', async () => {
    let made = 0;
    let ended = false;
    const generate = async function* () {
      try {
        for (;;) {
          made += 1;
          yield Buffer.alloc(65_536);
        }
      } finally {
        ended = true;
      }
    };
    await using app = serve(() => ({ body: generate() }));
    const socket = request(await listen(app));
    await once(socket, 'data');
    socket.pause();
    let before = -1;
    while (before !== made) {
      before = made;
      await turns(200);
    }
    assert.ok(
      made * 65_536 < 32 * 2 ** 20,
      `${made} chunks were made for a client that reads none`,
    );
    socket.destroy();
    while (!ended) await turns(1);
  });

  it('is not begun for a HEAD', async () => {
    const source = new Readable({ read: () => assert.fail('it was read') });
    await using app = serve(() => ({ body: source }));
    assert.equal((await app.inject({ method: 'HEAD', url: '/' })).statusCode, 200);
    assert.equal(source.destroyed, true);
  });
});
