import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { createServer, type HttpServer } from 'spillway-http';
import { until } from './fixtures/wire.ts';

const lane = new Lane({ name: 'odd', limit: 4, queueMax: 0, deadlineMs: 10_000 });

async function open(declare: (app: HttpServer['app']) => void): Promise<HttpServer> {
  const server = await createServer({ lane });
  declare(server.app);
  await server.start();
  return server;
}

/** Told by an id only, with the headers of every answer, and with its place given back. */
async function assertUnexpected(server: HttpServer, path: string): Promise<void> {
  const answer = await fetch(`${server.url}${path}`);
  const text = await answer.text();
  assert.equal(answer.status, 500, text);
  assert.match(
    text,
    /^\{"ok":false,"error":\{"code":"UNEXPECTED",[^}]*"id":"[0-9a-f]{12}-\d+"\}\}$/,
  );
  assert.equal(answer.headers.get('x-frame-options'), 'DENY');
  assert.match(answer.headers.get('x-request-id') ?? '', /^[0-9a-f]{12}-\d+$/);
  await until(() => lane.stats.inside === 0);
}

describe('what nobody would expect to fail', () => {
  const thrown: Readonly<Record<string, unknown>> = {
    nothing: undefined,
    null: null,
    symbol: Symbol('secret'),
    text: 'secret',
    'an object without a prototype': Object.create(null),
    'a code that is a name of all objects': Object.assign(new Error('secret'), {
      code: 'constructor',
    }),
    'a message that is no text': { message: { secret: 1 } },
    'a list of broken rules that is none': { validation: 'secret' },
  };
  for (const [name, value] of Object.entries(thrown)) {
    it(`is told by an id when ${name} is thrown`, async () => {
      await using server = await open((app) => {
        app.get('/soon', async () => Promise.reject(value));
        app.get('/now', () => {
          throw value;
        });
      });
      await assertUnexpected(server, '/soon');
      await assertUnexpected(server, '/now');
    });
  }

  it('is answered with an id when a hook of the answer throws', async () => {
    await using server = await open((app) => {
      const onSend = async () => Promise.reject(new Error('secret'));
      app.get('/good', { onSend }, async () => 'fine');
      app.get('/bad', { onSend }, async () => Promise.reject(new Error('secret')));
    });
    await assertUnexpected(server, '/good');
    await assertUnexpected(server, '/bad');
  });

  it('is answered with an id when a header would begin a line of its own', async () => {
    await using server = await open((app) => {
      app.get('/', async (request, reply) => {
        return reply.redirect((request.query as { readonly to: string }).to);
      });
    });
    await assertUnexpected(server, '/?to=%0d%0aset-cookie:%20a=b');
  });
});
