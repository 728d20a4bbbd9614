import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { type BlockedUsersOptions, blockedUsers } from 'spillway-http';
import { Site } from './fixtures/site.ts';

function open(options: BlockedUsersOptions): Promise<Site> {
  return Site.open(async (app) => {
    await app.register(blockedUsers, options);
    app.get('/', () => 'home');
    app.get('/blocked', () => 'ask the operator');
  });
}

const browser = { accept: 'text/html,application/xhtml+xml;q=0.9' };

describe('blockedUsers', () => {
  it('sends browsers to a page, which they may see, and answers 401 to others', async () => {
    await using site = await open({
      isBlocked: async ({ headers }) => headers['x-user'] === 'eve',
      redirectTo: '/blocked',
    });
    const eve = { 'x-user': 'eve' };
    assert.equal((await site.ask('/')).text, 'home');
    const refused = await site.ask('/', { headers: eve });
    assert.equal(refused.status, 401);
    assert.equal(refused.json.code, 'USER_BLOCKED');
    const sent = await site.ask('/', { headers: { ...eve, ...browser } });
    assert.equal(sent.status, 303);
    assert.equal(sent.headers.location, '/blocked');
    const shown = await site.ask('/blocked?why', { headers: { ...eve, ...browser } });
    assert.equal(shown.text, 'ask the operator');
  });

  it('answers 401 to all if there is no page', async () => {
    await using site = await open({ isBlocked: () => true });
    assert.equal((await site.ask('/', { headers: browser })).status, 401);
  });

  it('lets nobody in if it cannot be found out, or takes too long', async () => {
    const clock = new VirtualClock();
    let reason: unknown;
    const asked = Promise.withResolvers<void>();
    await using site = await open({
      clock,
      deadlineMs: 1000,
      isBlocked: ({ url }, signal) => {
        if (url !== '/') throw new Error('the list is lost');
        signal.addEventListener('abort', () => {
          reason = signal.reason;
        });
        asked.resolve();
        return new Promise<boolean>(() => {});
      },
    });
    assert.equal((await site.ask('/blocked')).status, 500);
    const late = site.ask('/');
    await asked.promise;
    await clock.advance(1000);
    assert.equal((await late).status, 504);
    assert.equal((reason as { code: string }).code, 'DEADLINE');
    assert.equal(clock.pending, 0);
  });

  it('stops asking when the client leaves', async () => {
    const clock = new VirtualClock();
    const asked = Promise.withResolvers<AbortSignal>();
    await using site = await open({
      clock,
      isBlocked: (_request, signal) => {
        asked.resolve(signal);
        return new Promise<boolean>(() => {});
      },
    });
    const { port, hostname } = new URL(site.origin);
    const socket = connect(Number(port), hostname);
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    const signal = await asked.promise;
    const aborted = once(signal, 'abort');
    socket.destroy();
    await aborted;
    assert.equal(clock.pending, 0);
  });

  it('refuses wrong options, naming them', async () => {
    const isBlocked = () => false;
    for (const redirectTo of ['//evil.example', 'https://evil.example', '/\\evil.example', '']) {
      await assert.rejects(open({ isBlocked, redirectTo }), /redirectTo: must be a path/);
    }
    await assert.rejects(open({ isBlocked, deadlineMs: 0 }), /deadlineMs: must be/);
  });
});
