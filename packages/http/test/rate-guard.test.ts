import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { addressKey, namedRule, type RateGuardOptions, rateGuard } from 'spillway-http';
import { type Ask, Site, tally } from './fixtures/site.ts';

const spoofs = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-client-ip', 'cf-connecting-ip'];

/** A server with a clock that stands still and a few routes. */
function open(options: RateGuardOptions, trustProxy = false): Promise<Site> {
  return Site.open(
    async (app) => {
      await app.register(rateGuard, { clock: new VirtualClock(), ...options });
      const slow = { limit: 2, windowMs: 30_000 };
      app.get('/', () => 'home');
      app.get('/item/:id', () => 'item');
      app.get('/narrow', { config: { rate: slow } }, () => 'narrow');
      app.get('/free', { config: { rate: false } }, () => 'free');
      app.post('/body', () => 'body');
    },
    { trustProxy },
  );
}

async function statuses(site: Site, paths: readonly string[], options?: Ask): Promise<number[]> {
  const all: number[] = [];
  for (const path of paths) all.push((await site.ask(path, options)).status);
  return all;
}

const times = (n: number, path: string) => Array<string>(n).fill(path);

describe('rateGuard', () => {
  it('sends headers with what is left, and when to come back', async () => {
    const clock = new VirtualClock();
    await using site = await open({ clock, limits: [{ limit: 2, windowMs: 16_000 }] });
    const first = await site.ask('/');
    assert.equal(first.status, 200);
    assert.equal(first.headers['ratelimit-limit'], '2');
    assert.equal(first.headers['ratelimit-remaining'], '1');
    assert.equal(first.headers['ratelimit-policy'], '2;w=16');
    assert.equal((await site.ask('/')).headers['ratelimit-remaining'], '0');
    await clock.advance(2000);
    const third = await site.ask('/');
    assert.equal(third.status, 429);
    assert.equal(third.json.code, 'RATE_EXCEEDED');
    assert.equal(third.headers['ratelimit-remaining'], '0');
    assert.equal(third.headers['ratelimit-reset'], '15');
    assert.equal(third.headers['retry-after'], '15');
    await clock.advance(15_000);
    assert.equal((await site.ask('/')).status, 200);
  });

  it('lets five of twenty in whatever address their headers claim', async () => {
    await using site = await open({ limits: [{ limit: 5, windowMs: 60_000 }] });
    const all: number[] = [];
    for (let i = 0; i < 20; i += 1) {
      const headers = Object.fromEntries(spoofs.map((name) => [name, `10.0.0.${i}`]));
      all.push((await site.ask('/', { headers })).status);
    }
    assert.deepEqual(tally(all), { 200: 5, 429: 15 });
  });

  it('counts by the address that a trusted proxy tells', async () => {
    await using site = await open({ limits: [{ limit: 1, windowMs: 60_000 }] }, true);
    const from = (ip: string) => statuses(site, ['/'], { headers: { 'x-forwarded-for': ip } });
    assert.deepEqual(await from('10.0.0.1'), [200]);
    assert.deepEqual(await from('10.0.0.2'), [200]);
    assert.deepEqual(await from('10.0.0.1'), [429]);
    assert.deepEqual(await from('2001:db8:0:1::5'), [200]);
    assert.deepEqual(await from('2001:db8:0:1:ffff::6'), [429]);
    assert.deepEqual(await from('2001:db8:0:2::5'), [200]);
    assert.deepEqual(await from('::ffff:10.0.0.2'), [429]);
  });

  it('adds the limit of a route to that for all', async () => {
    await using site = await open({ limits: [{ limit: 4, windowMs: 60_000 }] });
    assert.deepEqual(await statuses(site, times(4, '/narrow')), [200, 200, 429, 429]);
    // What the route refused was not charged to all.
    assert.deepEqual(await statuses(site, times(3, '/')), [200, 200, 429]);
    const narrow = await site.ask('/narrow');
    assert.equal(narrow.headers['ratelimit-limit'], '2');
    assert.deepEqual(
      await statuses(site, times(9, '/free')),
      times(9, '').map(() => 200),
    );
  });

  it('refuses a route within its own limit once that for all is used up', async () => {
    await using site = await open({ limits: [{ limit: 3, windowMs: 60_000 }] });
    assert.deepEqual(await statuses(site, times(3, '/')), [200, 200, 200]);
    const refused = await site.ask('/narrow');
    assert.equal(refused.status, 429);
    assert.equal(refused.headers['ratelimit-limit'], '3');
  });

  it('limits a route that was there before it', async () => {
    await using site = await Site.open(async (app) => {
      app.get('/early', { config: { rate: { limit: 1, windowMs: 60_000 } } }, () => 'early');
      await app.register(rateGuard, { clock: new VirtualClock() });
    });
    assert.deepEqual(await statuses(site, times(2, '/early')), [200, 429]);
  });

  it('counts by the pattern of the route, and all unknown paths as one', async () => {
    await using site = await open({
      limits: [{ limit: 2, windowMs: 60_000, by: ['client', 'route'] }],
    });
    assert.deepEqual(await statuses(site, ['/item/1', '/item/2', '/item/3']), [200, 200, 429]);
    assert.deepEqual(
      await statuses(site, ['/', '/none/1', '/none/2', '/none/3']),
      [200, 404, 404, 429],
    );
    const head = await site.ask('/item/4', { method: 'HEAD' });
    assert.equal(head.status, 429);
  });

  it('counts a known user at any address, and others by address', async () => {
    await using site = await open({
      limits: [{ limit: 1, windowMs: 60_000 }],
      user: (request) => request.headers.authorization,
    });
    const as = (authorization: string) => statuses(site, ['/'], { headers: { authorization } });
    assert.deepEqual(await as('ann'), [200]);
    assert.deepEqual(await as('bob'), [200]);
    assert.deepEqual(await as('ann'), [429]);
    assert.deepEqual(await statuses(site, times(2, '/')), [200, 429]);
    // A user cannot be mistaken for an address, however it is named.
    assert.deepEqual(await as('@127.0.0.1'), [200]);
    assert.deepEqual(await as('127.0.0.1'), [200]);
    assert.deepEqual(await as('x'.repeat(5000)), [200]);
  });

  it('refuses before the body is read', async () => {
    await using site = await open({ limits: [{ limit: 1, windowMs: 60_000 }] });
    await site.ask('/');
    const refused = await site.ask('/body', {
      method: 'POST',
      body: '{"broken',
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(refused.status, 429);
  });

  it('gives handlers its counts, for keys that only they know', async () => {
    const tries = namedRule('log-in', { limit: 1, windowMs: 60_000 });
    await using site = await Site.open(async (app) => {
      await app.register(rateGuard, {});
      app.get('/:name', async (request) => {
        const { name: key } = request.params as { name: string };
        return await app.rateLimiter.take([{ rule: tries, key }]);
      });
    });
    assert.equal((await site.ask('/ann')).json.admitted, true);
    assert.equal((await site.ask('/ann')).json.admitted, false);
    assert.equal((await site.ask('/bob')).json.admitted, true);
  });

  it('answers 503 with Retry-After, or counts alone, while its store is down', async () => {
    const network = new VirtualClock();
    const store = new FaultyStore(new MemoryStore(), { clock: network });
    store.down = true;
    const rule = { limit: 1, windowMs: 60_000 };
    await using site = await Site.open(async (app) => {
      await app.register(rateGuard, { limits: [], store, deadlineMs: 10 });
      app.get('/closed', { config: { rate: rule } }, () => 'closed');
      app.get('/open', { config: { rate: { ...rule, whenDown: 'open' } } }, () => 'open');
    });
    const refused = await site.ask('/closed');
    assert.equal(refused.status, 503);
    assert.equal(refused.json.code, 'STORE_UNREACHABLE');
    assert.equal(refused.headers['retry-after'], '1');
    assert.deepEqual(await statuses(site, times(2, '/open')), [200, 429]);
  });

  it('refuses a wrong limit when it is given', async () => {
    const wrong = { limit: 0, windowMs: 1000 };
    await assert.rejects(open({ limits: [wrong] }), /limit: must be an integer/);
    const route = Site.open(async (app) => {
      await app.register(rateGuard, {});
      app.get('/', { config: { rate: [wrong] } }, () => '');
    });
    await assert.rejects(route, /limit: must be an integer/);
  });
});

describe('addressKey', () => {
  it('is one for a /64 of IPv6 and one for each IPv4 address, however written', () => {
    const keys: readonly (readonly [string | undefined, string])[] = [
      ['10.1.2.3', '10.1.2.3'],
      ['::ffff:10.1.2.3', '10.1.2.3'],
      ['::FFFF:0a01:0203', '10.1.2.3'],
      ['0:0:0:0:0:ffff:10.1.2.3', '10.1.2.3'],
      ['2001:db8::1', '2001:db8:0:0::/64'],
      ['2001:0db8:0000:0000:ffff::', '2001:db8:0:0::/64'],
      ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
      ['fe80::1%eth0', 'fe80:0:0:0::/64'],
      ['::1', '0:0:0:0::/64'],
      ['::1.2.3.4', '0:0:0:0::/64'],
      ['1::2::3', '1::2::3'],
      ['1:2:3', '1:2:3'],
      ['::x', '::x'],
      [undefined, ''],
    ];
    for (const [ip, key] of keys) assert.equal(addressKey(ip), key, ip);
  });
});
