import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { csrf, idempotency, primaryOnly, rateGuard, sessionOf, sessions } from 'spillway-http';
import { Site } from './fixtures/site.ts';

interface Data {
  readonly user: string;
}

const keys = ['a key of thirty-two bytes or more'];

/** All guards in the order of a server, with users that their sessions name. */
function open(limit: number): Promise<Site> {
  const clock = new VirtualClock();
  let done = 0;
  return Site.open(async (app) => {
    const user = (request: Parameters<typeof sessionOf>[0]) => sessionOf<Data>(request).get('user');
    await app.register(rateGuard, { clock, user, limits: [{ limit, windowMs: 60_000 }] });
    await app.register(primaryOnly, { primary: () => true });
    await app.register(sessions, { keys, clock });
    await app.register(idempotency, { clock, user });
    await app.register(csrf, { keys, clock });
    app.get('/in/:user', (request, reply) => {
      const session = sessionOf<Data>(request);
      session.set('user', (request.params as Data).user);
      session.regenerate();
      return reply.csrfToken();
    });
    app.post('/pay', { config: { primaryOnly: true } }, () => ({ done: ++done }));
  });
}

async function logIn(site: Site, user: string) {
  const reply = await site.ask(`/in/${user}`);
  const lines = [reply.headers['set-cookie'] ?? []].flat();
  const cookie = lines.map((line) => line.replace(/;.*/, '')).join('; ');
  return { cookie, 'x-csrf-token': reply.text, 'idempotency-key': 'k' };
}

describe('all guards together', () => {
  it('know the user of a session: a limit, keys and a token of its own', async () => {
    await using site = await open(3);
    const [ann, bob] = [await logIn(site, 'ann'), await logIn(site, 'bob')];
    const pay = async (headers: Record<string, string>) => {
      const { status, text } = await site.ask('/pay', { method: 'POST', headers });
      return [status, status === 200 ? JSON.parse(text).done : undefined];
    };
    const { 'x-csrf-token': _, ...without } = ann;
    // The key of what was refused for want of a token is free.
    assert.deepEqual(await pay(without), [403, undefined]);
    assert.deepEqual(await pay(ann), [200, 1]);
    assert.deepEqual(await pay(ann), [200, 1]);
    assert.deepEqual(await pay(ann), [429, undefined]);
    assert.deepEqual(await pay(bob), [200, 2]);
    // One that is given its answer again does nothing, and so is answered before tokens are asked.
    assert.deepEqual(await pay({ ...bob, 'x-csrf-token': ann['x-csrf-token'] }), [200, 2]);
  });
});
