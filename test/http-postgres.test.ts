import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Store } from 'spillway';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { createServer, namedRule, RateLimiter } from 'spillway-http';
import { Database } from 'spillway-sql';

describe('what instances share on Postgres', () => {
  const stack = new AsyncDisposableStack();
  /** The servers of two instances. */
  const stores: Store[] = [];

  before(async () => {
    const url = await postgresUrl(stack);
    for (let i = 0; i < 2; i += 1) {
      const database = stack.use(await Database.open<unknown>({ url }));
      stores.push(stack.use(await database.store()));
    }
  });

  after(() => stack.disposeAsync());

  it('is a rate that lets exactly its limit through', async () => {
    const nodes = stores.map((store) => new RateLimiter({ store, deadlineMs: 20_000 }));
    const rule = namedRule('day', { limit: 20, windowMs: 86_400_000 });
    const tries = Array.from({ length: 100 }, (_, at) => nodes[at % 2]?.take([{ rule, key: 'a' }]));
    const verdicts = await Promise.all(tries);
    assert.equal(verdicts.filter((verdict) => verdict?.admitted).length, 20);
  });

  it('is a key whose work is done once, and whose answer all give again', async () => {
    let done = 0;
    await using nodes = new AsyncDisposableStack();
    const urls: string[] = [];
    for (const store of stores) {
      const server = nodes.use(await createServer({ idempotency: { store, deadlineMs: 20_000 } }));
      server.app.post('/', async (_request, reply) => {
        done += 1;
        return reply.code(201).send({ done });
      });
      await server.start();
      urls.push(server.url);
    }
    const send = async (at: number): Promise<string> => {
      const headers = { 'idempotency-key': 'one' };
      const answer = await fetch(urls[at % 2] ?? '', { method: 'POST', headers });
      return `${answer.status} ${await answer.text()}`;
    };
    const answers = await Promise.all(Array.from({ length: 50 }, (_, at) => send(at)));
    const others = answers.filter((answer) => answer !== '201 {"done":1}');
    for (const answer of others) assert.match(answer, /^409 .*IDEMPOTENCY_RUNNING/);
    assert.ok(others.length < 50);
    for (const at of [0, 1]) assert.equal(await send(at), '201 {"done":1}');
    assert.equal(done, 1);
  });
});
