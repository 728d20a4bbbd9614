import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createServer } from 'spillway-http';
import { ask } from './ask.ts';

const own = /^[\da-f]{12}-\d+$/;

describe('the id of a request', () => {
  it('takes an id that can stand in a log and makes one for any other', async () => {
    await using server = await createServer();
    server.app.get('/', async (request) => request.id);
    await server.start();
    const url = `${server.url}/`;
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
  });
});
