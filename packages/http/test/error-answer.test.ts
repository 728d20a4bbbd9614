import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FastifyBaseLogger } from 'fastify';
import { SpillwayError } from 'spillway';
import { createServer, type HttpServer, type ServerOptions, wantsPage } from 'spillway-http';
import { get, post, Wire } from './fixtures/wire.ts';

interface Told {
  readonly ok: boolean;
  readonly error: { code: string; message: string; field?: string; id?: string };
}

async function open(
  declare: (app: HttpServer['app']) => void,
  options: ServerOptions = {},
): Promise<HttpServer> {
  const server = await createServer(options);
  declare(server.app);
  await server.start();
  return server;
}

async function told(response: Response): Promise<Told> {
  return (await response.json()) as Told;
}

function json(body: string): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': 'application/json' } };
}

/** Keeps what is logged as an error. */
function logger(errors: unknown[]): FastifyBaseLogger {
  const silent = () => {};
  const log = {
    level: 'info',
    child: () => log,
    error: (line: unknown) => errors.push(line),
    fatal: silent,
    warn: silent,
    info: silent,
    debug: silent,
    trace: silent,
    silent,
  };
  return log as unknown as FastifyBaseLogger;
}

describe('errorAnswers', () => {
  it('tells the message of a failure of the server only if the error says so', async () => {
    const fault = { code: 'PAGE_GONE', status: 502, retryable: false };
    await using server = await open((app) => {
      app.get('/silent', async () => {
        throw new SpillwayError(fault, 'db-7 refused');
      });
      app.get('/told', async () => {
        throw Object.assign(new SpillwayError(fault, 'the page is gone'), { expose: true });
      });
    });
    const { error: silent } = await told(await fetch(`${server.url}/silent`));
    assert.deepEqual([silent.code, silent.message.includes('db-7')], ['PAGE_GONE', false]);
    const { error } = await told(await fetch(`${server.url}/told`));
    assert.deepEqual([error.code, error.message], ['PAGE_GONE', 'the page is gone']);
  });

  it('keeps code, status and headers of a deliberate failure', async () => {
    await using server = await open((app) => {
      app.get('/', async () => {
        const fault = { code: 'TEST_BUSY', status: 503, retryable: true };
        throw new SpillwayError(fault, 'come again', { retryAfterMs: 2_500 });
      });
    });
    const response = await fetch(server.url);
    assert.equal(response.status, 503);
    assert.equal(response.headers.get('retry-after'), '3');
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const id = response.headers.get('x-request-id') ?? '';
    const message = 'the server cannot do this now: try again later';
    const error = { code: 'TEST_BUSY', message, id };
    assert.deepEqual(await told(response), { ok: false, error });
    const [kept] = server.app.recentErrors.list();
    assert.deepEqual([kept?.code, kept?.route, kept?.id], ['TEST_BUSY', 'GET /', undefined]);
    assert.equal(kept?.message, 'come again');
  });

  it('tells of an unexpected failure only an id, which the log has, and goes on', async () => {
    const logged: unknown[] = [];
    let healthy = false;
    const declare = (app: HttpServer['app']) => {
      app.get('/', async (_request, reply) => {
        if (healthy) return 'well';
        reply.header('etag', '"x"').header('cache-control', 'public');
        throw Object.assign(new Error('secret of /etc'), { status: 404, statusCode: 404 });
      });
    };
    await using server = await open(declare, { log: logger(logged) });
    const response = await fetch(server.url);
    assert.equal(response.status, 500);
    assert.equal(response.headers.get('etag'), null);
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const text = await response.text();
    assert.doesNotMatch(text, /secret|stack|\.ts/);
    const { error } = JSON.parse(text) as Told;
    assert.equal(error.code, 'UNEXPECTED');
    assert.equal(error.id, response.headers.get('x-request-id'));
    const [line, ...more] = logged as { errorId: string; err: Error }[];
    assert.equal(line?.errorId, error.id);
    assert.match(line?.err.stack ?? '', /secret of/);
    assert.equal(more.length, 0);
    const [kept] = server.app.recentErrors.list();
    assert.deepEqual([kept?.id, kept?.message], [error.id, 'secret of /etc']);
    healthy = true;
    assert.equal((await fetch(server.url)).status, 200);
  });

  it('answers a thrown string, null and a failing serializer alike', async () => {
    await using server = await open((app) => {
      app.get('/text', async () => Promise.reject('text'));
      app.get('/null', async () => Promise.reject(null));
      app.get('/json', async () => ({ big: 1n }));
      app.get('/own', async (_request, reply) => {
        reply.serializer(() => 'mine');
        throw new Error('x');
      });
    });
    for (const path of ['/text', '/null', '/json', '/own']) {
      const response = await fetch(`${server.url}${path}`);
      assert.equal(response.status, 500, path);
      assert.equal((await told(response)).error.code, 'UNEXPECTED', path);
    }
  });

  it('names what is wrong with a body', async () => {
    const body = {
      type: 'object',
      required: ['user'],
      additionalProperties: false,
      properties: {
        user: { type: 'object', properties: { 'a/b': { type: 'integer' } } },
        tags: { type: 'array', items: { type: 'string', maxLength: 3 } },
      },
    };
    const querystring = { type: 'object', properties: { page: { type: 'integer' } } };
    await using server = await open((app) => {
      app.post('/', { schema: { body, querystring }, bodyLimit: 100 }, async ({ query }) => query);
    });
    const cases: readonly [body: string, status: number, code: string, field?: string][] = [
      ['{"user":', 400, 'BODY_INVALID'],
      ['', 400, 'BODY_INVALID'],
      ['{"user":{"__proto__":1}}', 400, 'BODY_INVALID'],
      ['{}', 422, 'INPUT_INVALID', 'body.user'],
      ['{"user":{},"x":1}', 422, 'INPUT_INVALID', 'body.x'],
      ['{"user":{"a/b":"5"}}', 422, 'INPUT_INVALID', 'body.user.a/b'],
      ['{"user":{},"tags":["a","long"]}', 422, 'INPUT_INVALID', 'body.tags.1'],
      [`{"user":{},"tags":["${'x'.repeat(100)}"]}`, 413, 'BODY_TOO_LARGE'],
    ];
    for (const [text, status, code, field] of cases) {
      const response = await fetch(server.url, json(text));
      const { error } = await told(response);
      assert.deepEqual([response.status, error.code, error.field], [status, code, field], text);
    }
    const xml = { method: 'POST', body: '<a/>', headers: { 'content-type': 'application/xml' } };
    const wrongType = await fetch(server.url, xml);
    assert.equal(wrongType.status, 415);
    assert.match((await told(wrongType)).error.message, /application\/json/);
    const nowhere = await fetch(`${server.url}/nowhere`, xml);
    assert.equal(nowhere.status, 404, 'what is not there takes no type of body');
    // What is text by nature becomes the number that was asked for; nothing else does.
    const paged = await fetch(`${server.url}?page=2`, json('{"user":{}}'));
    assert.deepEqual(await paged.json(), { page: 2 });
    const wrong = await told(await fetch(`${server.url}?page=two`, json('{"user":{}}')));
    assert.equal(wrong.error.field, 'querystring.page');
    assert.equal(server.app.recentErrors.stats.total, 0);
  });

  it('refuses a body in a transfer coding that it would take for plain', async () => {
    await using server = await open((app) => {
      app.post('/', async ({ body }) => body);
    });
    const send = async (coding: string) => {
      const headers = `content-type: text/plain\r\ntransfer-encoding: ${coding}`;
      using wire = await Wire.open(server);
      wire.send(`POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${headers}\r\n\r\n`);
      await wire.send('1\r\nx\r\n0\r\n\r\n').closed;
      return wire.text;
    };
    assert.match(await send('gzip, chunked'), /^HTTP\/1.1 501 .*"BODY_CODING".*may be chunked/s);
    assert.match(await send('Chunked'), /^HTTP\/1.1 200 /);
  });

  it('refuses a body of undeclared length once it is too large', async () => {
    await using server = await open((app) => app.post('/', { bodyLimit: 50 }, async () => 'ok'));
    using wire = await Wire.open(server);
    wire.send(post('/', '').replace('content-length: 0', 'transfer-encoding: chunked'));
    for (let i = 0; i < 10; i += 1) wire.send(`a\r\n${'1'.repeat(10)}\r\n`);
    assert.match(await wire.until('50 bytes at most'), /^HTTP\/1.1 413 [\s\S]*BODY_TOO_LARGE/);
    wire.send('0\r\n\r\n');
    await wire.closed;
  });

  it('tries patterns in linear time, and refuses one that cannot be', async () => {
    const schema = (pattern: string) => ({ body: { type: 'string', pattern } });
    await using server = await open((app) => {
      app.post('/', { schema: schema('^(a+)+$') }, async () => 'ok');
    });
    const long = 'a'.repeat(20_000);
    assert.equal((await fetch(server.url, json(`"${long}"`))).status, 200);
    assert.equal((await fetch(server.url, json(`"${long}!"`))).status, 422);
    const unsafe = await createServer();
    unsafe.app.post('/', { schema: schema('^(a)\\1$') }, async () => 'ok');
    await assert.rejects(async () => await unsafe.app.ready(), /pattern/);
  });

  it('tries each text on the pattern of its own route', async () => {
    const schema = (pattern: string) => ({ body: { type: 'string', pattern } });
    await using server = await open((app) => {
      app.post('/a', { schema: schema('^a$') }, async () => 'ok');
      app.post('/b', { schema: schema('^b$') }, async () => 'ok');
    });
    const status = async (path: string, text: string) =>
      (await fetch(`${server.url}${path}`, json(`"${text}"`))).status;
    assert.deepEqual([await status('/a', 'a'), await status('/a', 'b')], [200, 422]);
    assert.deepEqual([await status('/b', 'a'), await status('/b', 'b')], [422, 200]);
  });

  it('answers with a page if the client asks for one, and escapes all in it', async () => {
    await using server = await open((app) => {
      app.get('/', async () => {
        throw new SpillwayError({ code: 'X', status: 409, retryable: false }, '<b onload="x">&');
      });
    });
    const accept = 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8';
    const page = await fetch(server.url, { headers: { accept } });
    assert.equal(page.status, 409);
    assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
    const text = await page.text();
    assert.match(text, /409 · in conflict/);
    assert.match(text, /&lt;b onload=&quot;x&quot;&gt;&amp;/);
    assert.doesNotMatch(text, /<b /);
  });

  it('answers with a page that tries again by itself, only if the request read', async () => {
    await using server = await open((app) => {
      const busy = { code: 'BUSY', status: 503, retryable: true };
      app.route({
        method: ['GET', 'POST'],
        url: '/',
        handler: async () => {
          throw new SpillwayError(busy, 'busy', { retryAfterMs: 7_000 });
        },
      });
    });
    const headers = { accept: 'text/html', 'x-request-id': 'mine' };
    const read = await (await fetch(server.url, { headers })).text();
    assert.match(read, /Busy for a moment/);
    assert.match(read, /data-again="7"/);
    assert.match(read, /<span class="mono">mine<\/span>/);
    const changed = await (await fetch(server.url, { headers, method: 'POST' })).text();
    assert.match(changed, /Busy for a moment/);
    assert.doesNotMatch(changed, /data-again|refresh/);
  });

  it('gives a page only to clients that name HTML and prefer nothing to it', () => {
    assert.equal(wantsPage(undefined), false);
    assert.equal(wantsPage('*/*'), false);
    assert.equal(wantsPage('application/json'), false);
    assert.equal(wantsPage('text/html;q=0'), false);
    assert.equal(wantsPage('application/json, text/html;q=0.5'), false);
    assert.equal(wantsPage('Text/HTML; level=1; q=0.9, application/json;q=0.8'), true);
    assert.equal(wantsPage('text/html, application/json'), true);
    assert.equal(wantsPage('text/html;q=x'), false);
  });

  it('says no more than one word of an address that cannot be decoded', async () => {
    await using server = await open((app) => app.get('/:name', async () => 'ok'));
    using wire = await Wire.open(server);
    wire.send(get('/%E0%A4%A'));
    assert.match(await wire.until('REQUEST_INVALID'), /^HTTP\/1.1 400 /);
  });
});
