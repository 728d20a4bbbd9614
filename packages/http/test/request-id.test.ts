import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Fastify from 'fastify';
import { requestIds } from 'spillway-http';
import { ask, portOf } from './ask.ts';

const own = /^[\da-f]{12}-\d+$/;

describe('requestIds', () => {
  it('takes an id that can stand in a log and makes one for any other', async () => {
    const app = Fastify();
    await app.register(requestIds);
    app.get('/', async (request) => request.id);
    await app.listen({ port: 0, host: '127.0.0.1' });
    const url = `http://127.0.0.1:${portOf(app)}/`;
    for (const id of ['a', 'Az09._-', 'x'.repeat(64)]) {
      const answer = await ask(url, { 'x-request-id': id });
      assert.deepEqual([answer.text, answer.headers['x-request-id']], [id, id]);
    }
    for (const id of ['', 'x'.repeat(65), 'a b', 'a,b', '<script>', 'é', "';--"]) {
      const answer = await ask(url, { 'x-request-id': id });
      assert.match(answer.text, own, id);
      assert.equal(answer.headers['x-request-id'], answer.text);
    }
    const missing = await ask(`${url}missing`);
    assert.equal(missing.status, 404);
    assert.match(String(missing.headers['x-request-id']), own);
    await app.close();
  });

  it('refuses a server that would take any header as the id', async () => {
    const app = Fastify({ requestIdHeader: 'x-request-id' });
    await assert.rejects(async () => app.register(requestIds), /requestIdHeader: must be left/);
  });
});
