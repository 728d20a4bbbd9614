import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, MemoryStore } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, type HttpServer, WebSocketHub } from 'spillway-http';
import { ask, type Reply } from './fixtures/site.ts';
import { get, until, Wire } from './fixtures/wire.ts';

const windowMs = 60_000;
const careful = {
  'content-security-policy': "default-src 'self'",
  'referrer-policy': 'strict-origin-when-cross-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/** The answers that guards get when they ask whether a request may pass. */
class Scene {
  readonly clock = new VirtualClock();
  readonly lane: Lane = new Lane({ name: 'l', limit: 1, queueMax: 0, deadlineMs: 10_000 });
  isPrimary = false;

  /** A server with every guard there is, and one route that they all stand before. */
  async open(): Promise<HttpServer> {
    const server = await createServer({
      lane: this.lane,
      bodyBytesMax: 1_000,
      rate: { clock: this.clock, limits: [{ limit: 1, windowMs }] },
      primaryOnly: { primary: () => this.isPrimary },
      sessions: { keys: ['a key of thirty-two bytes or more'] },
      idempotency: {},
      hub: new WebSocketHub(),
    });
    const body = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } };
    const config = { primaryOnly: true, idempotency: true };
    server.app.get('/', async (_request, reply) => reply.csrfToken());
    server.app.post('/', { config, schema: { body } }, async (request) => request.body);
    await server.start();
    return server;
  }
}

function assertRefusal(reply: Reply, status: number, code: string): void {
  assert.deepEqual([reply.status, (reply.json.error as { code: string }).code], [status, code]);
  assert.equal(reply.headers['x-request-id'], 'mine');
  assert.equal(reply.headers['cache-control'], 'no-store');
  for (const [name, value] of Object.entries(careful)) assert.equal(reply.headers[name], value);
}

describe('a request to a server with every guard', () => {
  it('is refused by the first that it offends, with all that the client should know', async () => {
    const scene = new Scene();
    await using server = await scene.open();
    const headers: Record<string, string> = {
      'x-request-id': 'mine',
      'content-type': 'text/xml',
      'idempotency-key': 'two words',
      cookie: 'a=b',
    };
    let body = 'x'.repeat(2_000);
    const send = () => ask(server.url, { method: 'POST', headers, body });
    const refused = async (status: number, code: string): Promise<Reply> => {
      const reply = await send();
      assertRefusal(reply, status, code);
      await until(() => scene.lane.stats.inside === 0);
      return reply;
    };
    using place = await scene.lane.enter();
    const full = await send();
    assertRefusal(full, 503, 'LANE_FULL');
    assert.equal(full.headers['retry-after'], '10', 'by the deadline, since nothing has ended yet');
    place[Symbol.dispose]();
    assert.equal(full.headers['ratelimit-remaining'], '0');
    using held = await scene.lane.enter();
    const second = await send();
    assertRefusal(second, 429, 'RATE_EXCEEDED');
    assert.ok(Number(second.headers['retry-after']) > 0);
    held[Symbol.dispose]();

    const next = async (status: number, code: string): Promise<void> => {
      await scene.clock.advance(2 * windowMs);
      const reply = await refused(status, code);
      assert.equal(reply.headers['ratelimit-limit'], '1');
    };
    await next(413, 'BODY_TOO_LARGE');
    body = '{';
    await next(415, 'BODY_TYPE');
    headers['content-type'] = 'application/json';
    await next(503, 'NOT_PRIMARY');
    scene.isPrimary = true;
    await next(400, 'BODY_INVALID');
    body = '{}';
    await next(400, 'IDEMPOTENCY_INVALID');
    headers['idempotency-key'] = 'one';
    await next(403, 'CSRF_REFUSED');
    await scene.clock.advance(2 * windowMs);
    const page = await ask(server.url);
    headers.cookie = String(page.headers['set-cookie']).replace(/;.*/, '');
    headers['x-csrf-token'] = page.text;
    await next(422, 'INPUT_INVALID');
    body = '{"name":"ada"}';
    await scene.clock.advance(2 * windowMs);
    const done = await send();
    assert.deepEqual([done.status, done.json], [200, { name: 'ada' }]);
    assert.equal(done.headers['x-request-id'], 'mine');
  });

  it('is not given the answer to the same key in another session', async () => {
    const keys = ['a key of thirty-two bytes or more'];
    const store = new MemoryStore();
    await using server = await createServer({
      sessions: { keys },
      csrf: false,
      idempotency: { store },
    });
    server.app.get('/:user', async ({ params, session }) => {
      session.set('user', (params as { readonly user: string }).user);
    });
    server.app.post('/', async ({ session }) => ({ user: session.get('user') }));
    await server.start();
    const users = ['ada', 'bob', 'ada'];
    const cookies = new Map<string, string>();
    for (const user of users) {
      const page = await ask(`${server.url}/${user}`);
      const cookie = cookies.get(user) ?? String(page.headers['set-cookie']).replace(/;.*/, '');
      cookies.set(user, cookie);
      const headers = { cookie, 'idempotency-key': 'k' };
      const reply = await ask(server.url, { method: 'POST', headers });
      assert.deepEqual(reply.json, { user });
    }
    assert.equal(store.stats.records, 2);
  });

  it('is answered past all guards if it is a probe or comes from the operator', async () => {
    const scene = new Scene();
    await using server = await scene.open();
    using _place = await scene.lane.enter();
    for (const probe of ['live', 'ready']) {
      for (let i = 0; i < 3; i += 1) {
        const reply = await ask(`${server.url}/-/${probe}`);
        assert.deepEqual([reply.status, reply.json], [200, { [probe]: true }]);
        assert.equal(reply.headers['x-frame-options'], 'DENY');
      }
    }
    for (const path of ['metrics', 'stats', 'errors', 'routes', 'config', '']) {
      assert.equal((await server.operator.app.inject(`/-/${path}`)).statusCode, 200, path);
    }
  });

  it('has its headers also if its address cannot be read', async () => {
    const scene = new Scene();
    await using server = await scene.open();
    const headers = { 'x-request-id': 'mine' };
    for (const path of ['/%zz', `/${'%61'.repeat(2)}%`]) {
      using wire = await Wire.open(server);
      wire.send(get(path, 'x-request-id: mine\r\n'));
      const text = await wire.until('REQUEST_INVALID');
      for (const [name, value] of Object.entries({ ...careful, ...headers })) {
        assert.ok(text.includes(`\r\n${name}: ${value}\r\n`), `${name} in ${text}`);
      }
    }
  });
});
