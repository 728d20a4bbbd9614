import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Clock } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { type CsrfOptions, csrf, sessions } from 'spillway-http';
import { type Ask, Site } from './fixtures/site.ts';

const keys = ['a key of thirty-two bytes or more'];

function open(options: Partial<CsrfOptions> = {}, trustProxy = false): Promise<Site> {
  const clock = options.clock ?? new VirtualClock();
  const setup = async (app: Site['app']) => {
    await app.register(sessions, { keys, clock });
    await app.register(csrf, { keys, clock, ...options });
    app.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => {
        done(null, Object.fromEntries(new URLSearchParams(String(body))));
      },
    );
    app.get('/form', (_request, reply) => [reply.csrfToken(), reply.csrfToken()]);
    app.get('/in', (request) => {
      request.session.set('user', 'ann');
      request.session.regenerate();
      return '';
    });
    app.post('/change', () => 'changed');
    app.post('/hook', { config: { csrf: false } }, () => 'changed');
  };
  return Site.open(setup, { trustProxy });
}

const cookieOf = (line: unknown) => /^[^;]*/.exec(String(line))?.[0] ?? '';

/** Gets a form, with the cookies given; the token and all cookies to send it with. */
async function form(site: Site, cookie = '', headers: Record<string, string> = {}) {
  const sent = cookie === '' ? headers : { ...headers, cookie };
  const reply = await site.ask('/form', { headers: sent });
  const [token, same] = JSON.parse(reply.text) as [string, string];
  assert.equal(token, same);
  const set = reply.headers['set-cookie'];
  const all = [cookie, set === undefined ? '' : cookieOf(set)].filter((part) => part !== '');
  return { token, cookie: all.join('; '), line: String(set) };
}

async function change(site: Site, headers: Record<string, string>, rest: Ask = {}) {
  return (await site.ask('/change', { method: 'POST', headers, ...rest })).status;
}

describe('csrf', () => {
  it('takes a change with the token of its cookie, in a header or in a form', async () => {
    await using site = await open();
    const { token, cookie, line } = await form(site);
    assert.match(line, /^csrf=.*; Max-Age=7200; Path=\/; HttpOnly; SameSite=Lax$/);
    assert.equal(await change(site, { cookie, 'x-csrf-token': token }), 200);
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    assert.equal(await change(site, { cookie, ...type }, { body: `_csrf=${token}` }), 200);
    assert.equal(await change(site, { cookie }, { body: { _csrf: token } }), 200);
  });

  it('refuses with 403 without the token, the cookie, or with those of another', async () => {
    await using site = await open();
    const mine = await form(site);
    const yours = await form(site);
    const refused: Record<string, string>[] = [
      { cookie: mine.cookie },
      { cookie: 'other=1', 'x-csrf-token': mine.token },
      { cookie: mine.cookie, 'x-csrf-token': yours.token },
      { cookie: mine.cookie, 'x-csrf-token': `${mine.token}x` },
      { cookie: mine.cookie, 'x-csrf-token': '' },
      { cookie: 'csrf=a.b.c', 'x-csrf-token': 'a.b.c' },
      { cookie: 'csrf=', 'x-csrf-token': '' },
    ];
    for (const headers of refused) {
      assert.equal(await change(site, headers), 403, JSON.stringify(headers));
    }
    const reply = await site.ask('/change', { method: 'POST', headers: { cookie: mine.cookie } });
    assert.equal(reply.json.code, 'CSRF_REFUSED');
    assert.equal((await site.ask('/hook', { method: 'POST', headers: mine })).status, 200);
  });

  it('shows the token differently on each page: no size of a page tells it', async () => {
    await using site = await open();
    const first = await form(site);
    const second = await form(site, first.cookie);
    assert.equal(second.line, 'undefined', 'the cookie stays');
    assert.notEqual(second.token, first.token);
    const secret = /csrf=([^;]+)/.exec(first.cookie)?.[1] ?? '';
    assert.ok(secret.length > 40 && !first.token.includes(secret.slice(0, 8)));
    for (const { token } of [first, second]) {
      assert.equal(await change(site, { cookie: first.cookie, 'x-csrf-token': token }), 200);
    }
    assert.equal(await change(site, { cookie: first.cookie, 'x-csrf-token': secret }), 403);
  });

  it('refuses a token that is too old, and gives a new one before that', async () => {
    const clock = new VirtualClock();
    await using site = await open({ clock, ageMs: 10_000 });
    const first = await form(site);
    await clock.advance(4000);
    assert.equal((await form(site, first.cookie)).line, 'undefined', 'the cookie stays');
    await clock.advance(2000);
    assert.notEqual((await form(site, first.cookie)).line, 'undefined');
    const sent = { cookie: first.cookie, 'x-csrf-token': first.token };
    await clock.advance(3999);
    assert.equal(await change(site, sent), 200);
    await clock.advance(1);
    assert.equal(await change(site, sent), 403);
  });

  it('takes the token of a page that was open when the clock was set back', async () => {
    const clock = new VirtualClock();
    let aheadMs = 3_600_000;
    const corrected: Clock = {
      now: () => clock.now() + aheadMs,
      after: (ms, callback) => clock.after(ms, callback),
    };
    await using site = await open({ clock: corrected });
    const { token, cookie } = await form(site);
    aheadMs = 0;
    assert.equal(await change(site, { cookie, 'x-csrf-token': token }), 200);
    assert.equal((await form(site, cookie)).line, 'undefined', 'the cookie stays');
  });

  it('binds a token to the session and to the host', async () => {
    await using site = await open();
    const before = await form(site);
    const session = cookieOf((await site.ask('/in')).headers['set-cookie']);
    const other = cookieOf((await site.ask('/in')).headers['set-cookie']);
    const within = await form(site, session);
    const token = { 'x-csrf-token': within.token };
    assert.equal(await change(site, { cookie: within.cookie, ...token }), 200);
    const stolen = within.cookie.replace(session, other);
    assert.equal(await change(site, { cookie: stolen, ...token }), 403);
    const early = { cookie: `${session}; ${before.cookie}`, 'x-csrf-token': before.token };
    assert.equal(await change(site, early), 403);
    const host = { host: `localhost:${new URL(site.origin).port}` };
    assert.equal(await change(site, { cookie: within.cookie, ...token, ...host }), 403);
  });

  it('trusts the headers in which browsers name the origin of a change', async () => {
    await using site = await open({ origins: ['https://friend.example'] });
    const { token, cookie } = await form(site);
    const sent = { cookie, 'x-csrf-token': token };
    const cases: readonly (readonly [Record<string, string>, number])[] = [
      [{ origin: site.origin }, 200],
      [{ 'sec-fetch-site': 'same-origin', origin: site.origin }, 200],
      [{ 'sec-fetch-site': 'none' }, 200],
      [{ origin: 'https://evil.example' }, 403],
      [{ origin: 'null' }, 403],
      [{ origin: `${site.origin}0` }, 403],
      [{ 'sec-fetch-site': 'cross-site' }, 403],
      [{ 'sec-fetch-site': 'same-site', origin: 'http://sub.127.0.0.1' }, 403],
      [{ 'sec-fetch-site': 'cross-site', origin: 'https://friend.example' }, 200],
    ];
    for (const [headers, status] of cases) {
      assert.equal(await change(site, { ...sent, ...headers }), status, JSON.stringify(headers));
    }
  });

  it('needs no token without a cookie, but still refuses another site', async () => {
    await using site = await open();
    const bearer = { authorization: 'Bearer x' };
    const evil = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    assert.equal(await change(site, {}), 200);
    assert.equal(await change(site, bearer), 200);
    assert.equal(await change(site, { ...bearer, ...evil }), 200);
    assert.equal(await change(site, evil), 403);
    assert.equal(await change(site, { authorization: 'Basic x', ...evil }), 403);
    assert.equal(await change(site, { ...bearer, cookie: 'session=x' }), 403);
  });

  it('names its cookie __Host- over https', async () => {
    await using site = await open({}, true);
    const https = { 'x-forwarded-proto': 'https' };
    const { token, cookie, line } = await form(site, '', https);
    assert.match(line, /^__Host-csrf=.*; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
    assert.equal(await change(site, { ...https, cookie, 'x-csrf-token': token }), 200);
    const bare = cookie.replace('__Host-', '');
    assert.equal(await change(site, { ...https, cookie: bare, 'x-csrf-token': token }), 403);
  });

  it('refuses wrong options, naming them', async () => {
    await assert.rejects(open({ keys: ['x'] }), /keys: must be/);
    await assert.rejects(open({ ageMs: 1 }), /ageMs: must be/);
    await assert.rejects(open({ origins: ['friend.example'] }), /origins: must be/);
  });
});
