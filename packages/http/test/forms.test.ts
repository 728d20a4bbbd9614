import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createServer, formFields, type HttpServer } from 'spillway-http';
import { ask } from './fixtures/site.ts';

const type = { 'content-type': 'application/x-www-form-urlencoded' };

async function open(): Promise<HttpServer> {
  const server = await createServer({ sessions: { keys: ['a key of thirty-two bytes or more'] } });
  server.app.get('/', async (_request, reply) => reply.csrfToken());
  server.app.post('/', async (request) => request.body);
  await server.start();
  return server;
}

describe('forms', () => {
  it('are read as texts by name, with a token of the page that sends them', async () => {
    await using server = await open();
    const page = await ask(server.url);
    const cookie = String(page.headers['set-cookie']).replace(/;.*/, '');
    const send = (body: string) =>
      ask(server.url, { method: 'POST', headers: { ...type, cookie }, body });
    assert.equal((await send('name=ada')).status, 403);
    const { json } = await send(`name=ada+b%26&tag=1&tag=2&tag=3&bad=%zz&_csrf=${page.text}`);
    const tag = ['1', '2', '3'];
    assert.deepEqual(json, { name: 'ada b&', tag, bad: '%zz', _csrf: page.text });
  });

  it('give no name a meaning that it has on all objects', async () => {
    const fields = formFields('__proto__=a&constructor=b&toString=c&__proto__=d');
    assert.deepEqual(Object.keys(fields), ['__proto__', 'constructor', 'toString']);
    assert.equal(Object.getPrototypeOf(fields), null);
    assert.deepEqual(Object.values(fields)[0], ['a', 'd']);
  });

  it('have a thousand fields at most', async () => {
    await using server = await open();
    const send = (count: number) =>
      ask(server.url, { method: 'POST', headers: type, body: 'a&'.repeat(count) });
    assert.equal((await send(1_000)).status, 200);
    const refused = await send(1_001);
    assert.equal(refused.status, 400);
    assert.match(refused.text, /BODY_INVALID.*1000 fields/);
  });

  it('of half a million fields are refused without being read', () => {
    const text = 'a&'.repeat(524_288);
    const startedAt = process.cpuUsage();
    assert.throws(() => formFields(text), { code: 'BODY_INVALID' });
    const { user } = process.cpuUsage(startedAt);
    assert.ok(user < 500_000, `${user} us`);
  });
});
