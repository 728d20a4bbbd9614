import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import Fastify, { type FastifyInstance } from 'fastify';
import { html, page, pages } from 'spillway-http';

async function site(): Promise<FastifyInstance> {
  const app = Fastify();
  await app.register(pages);
  return app;
}

describe('a page', () => {
  it('has a head and a body, all escaped', () => {
    const text = String(
      page({
        title: 'A & B',
        lang: 'de',
        meta: { description: '"x"' },
        links: [{ rel: 'icon', href: '/icon.svg' }],
        styles: ['/a.css'],
        scripts: ['/a.js'],
        data: { 'a"b': { text: '</script><!--', list: [1, null] } },
        body: html`<main>${'<'}</main>`,
      }),
    );
    const lines = text.split('\n').filter((line) => line !== '');
    assert.deepEqual(lines, [
      '<!doctype html>',
      '<html lang="de">',
      '<head>',
      '<meta charset="utf-8">',
      '<title>A &amp; B</title>',
      '<meta name="viewport" content="width=device-width, initial-scale=1">' +
        '<meta name="description" content="&quot;x&quot;">',
      '<link rel="icon" href="/icon.svg">',
      '<link rel="stylesheet" href="/a.css">',
      '<script type="application/json" id="a&quot;b">' +
        '{"text":"\\u003c/script>\\u003c!--","list":[1,null]}</script>',
      '<script type="module" src="/a.js"></script>',
      '</head>',
      '<body>',
      '<main>&lt;</main>',
      '</body>',
      '</html>',
    ]);
  });

  it('refuses a script from an address that is code', () => {
    assert.throws(() => page({ title: '', body: '', scripts: ['data:,alert(1)'] }), /must be/);
  });
});

describe('pages', () => {
  it('answers with HTML where a route returns or sends it, and to HEAD with its head', async () => {
    await using app = await site();
    app.get('/', async () => html`<p>${'<é'}</p>`);
    app.get('/sent', (_request, reply) => reply.code(418).send(html`<p>sent</p>`));
    app.get('/typed', async (_request, reply) => {
      void reply.type('text/html');
      return html`<p>typed</p>`;
    });
    const answer = await app.inject('/');
    assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
    assert.equal(answer.body, '<p>&lt;é</p>');
    const head = await app.inject({ method: 'HEAD', url: '/' });
    assert.equal(head.body, '');
    assert.equal(head.headers['content-type'], 'text/html; charset=utf-8');
    assert.equal(head.headers['content-length'], answer.headers['content-length']);
    const sent = await app.inject('/sent');
    assert.deepEqual([sent.statusCode, sent.body], [418, '<p>sent</p>']);
    assert.equal((await app.inject('/typed')).body, '<p>typed</p>');
  });

  it('is compressed for clients that accept gzip, if it is long', async () => {
    const app = await site();
    const body = html`<p>${'long '.repeat(1_000)}</p>`;
    app.get('/long', async (_request, reply) => {
      reply.header('vary', 'cookie');
      return body;
    });
    app.get('/short', async () => html`<p>short</p>`);
    app.get('/text', async () => 'text '.repeat(1_000));
    const get = (url: string, encoding?: string) =>
      app.inject({ url, headers: encoding === undefined ? {} : { 'accept-encoding': encoding } });
    const long = await get('/long', 'deflate, gzip;q=0.5');
    assert.equal(long.headers['content-encoding'], 'gzip');
    assert.equal(long.headers.vary, 'cookie, accept-encoding');
    assert.equal(Number(long.headers['content-length']), long.rawPayload.length);
    assert.equal(String(gunzipSync(long.rawPayload)), String(body));
    for (const encoding of [undefined, 'br', 'gzip;q=0', 'gzip; q=0.00, br']) {
      const plain = await get('/long', encoding);
      assert.equal(plain.headers['content-encoding'], undefined, encoding);
      assert.equal(plain.payload, String(body));
    }
    for (const url of ['/short', '/text']) {
      assert.equal((await get(url, 'gzip')).headers['content-encoding'], undefined, url);
    }
  });

  it('answers with HTML from an error handler, and leaves all else as it is', async () => {
    await using app = await site();
    app.setErrorHandler((_error, _request, reply) => reply.code(500).send(html`<h1>Sorry</h1>`));
    app.get('/bad', () => {
      throw new Error('bad');
    });
    app.get('/json', async () => ({ a: 1 }));
    app.get('/text', async () => '<p>');
    const bad = await app.inject('/bad');
    assert.deepEqual([bad.statusCode, bad.body], [500, '<h1>Sorry</h1>']);
    assert.equal(bad.headers['content-type'], 'text/html; charset=utf-8');
    const json = await app.inject('/json');
    assert.equal(json.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(json.json(), { a: 1 });
    const text = await app.inject('/text');
    assert.equal(text.headers['content-type'], 'text/plain; charset=utf-8');
  });
});
