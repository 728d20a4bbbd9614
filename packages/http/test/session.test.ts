import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { type SessionOptions, sessionOf, sessions } from 'spillway-http';
import { type Reply, Site } from './fixtures/site.ts';

interface Data {
  readonly user: string;
  readonly cart: readonly number[];
}

const key = 'a key of thirty-two bytes or more';
const hourMs = 3_600_000;

/** Keeps cookies as a browser does, as far as these tests need it. */
class Browser {
  readonly jar = new Map<string, string>();
  /** The `Set-Cookie` lines of the last answer. */
  lines: readonly string[] = [];
  readonly #site: Site;
  readonly #headers: Record<string, string>;

  constructor(site: Site, headers: Record<string, string> = {}) {
    this.#site = site;
    this.#headers = headers;
  }

  async get(path: string): Promise<Reply> {
    const cookie = [...this.jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...this.#headers, ...(cookie === '' ? {} : { cookie }) };
    const reply = await this.#site.ask(path, { headers });
    this.lines = [reply.headers['set-cookie'] ?? []].flat();
    for (const line of this.lines) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/Max-Age=0/.test(line)) this.jar.delete(name);
      else this.jar.set(name, value);
    }
    return reply;
  }
}

function open(options: Partial<SessionOptions> = {}, trustProxy = false): Promise<Site> {
  const setup = async (app: Site['app']) => {
    await app.register(sessions, { keys: [key], clock: new VirtualClock(), ...options });
    app.get('/', (request) => {
      const session = sessionOf<Data>(request);
      const [user = null, cart = null] = [session.get('user'), session.get('cart')];
      return { id: session.id ?? null, user, cart, flash: session.takeFlash() };
    });
    app.get('/in/:user', (request) => {
      const session = sessionOf<Data>(request);
      session.set('user', (request.params as { user: string }).user);
      session.regenerate();
      return session.id;
    });
    app.get('/remember', (request) => {
      request.session.remember(true);
      return '';
    });
    app.get('/out', (request) => {
      request.session.clear();
      return '';
    });
    app.get('/flash', (request) => {
      request.session.flash({ kind: 'info', text: 'saved' });
      return '';
    });
    app.get('/full', (request) => {
      const session = sessionOf<Data>(request);
      session.set('cart', [1]);
      try {
        session.set('user', 'x'.repeat(9000));
      } catch (error) {
        return { code: (error as { code: string }).code, user: session.get('user') ?? null };
      }
      return {};
    });
    app.get('/too-large', (request) => {
      sessionOf<Data>(request).set('user', 'x'.repeat(9000));
      return '';
    });
    app.get('/plain', () => 'plain');
  };
  return Site.open(setup, { trustProxy });
}

describe('sessions', () => {
  it('keep what was set, in a cookie that scripts cannot read', async () => {
    await using site = await open();
    const browser = new Browser(site);
    assert.equal((await browser.get('/')).json.user, null);
    assert.deepEqual(browser.lines, []);
    await browser.get('/in/ann');
    assert.equal(browser.lines.length, 1);
    assert.match(
      browser.lines[0] ?? '',
      /^session=[\w-]+\.[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/,
    );
    assert.equal((await browser.get('/')).json.user, 'ann');
    assert.deepEqual(browser.lines, []);
    await browser.get('/out');
    assert.match(browser.lines[0] ?? '', /^session=; Max-Age=0; Path=\//);
    assert.equal((await browser.get('/')).json.user, null);
  });

  it('are __Host- cookies over https, and everywhere but on this machine', async () => {
    await using site = await open({}, true);
    const pattern = /^__Host-session=.*; Path=\/; HttpOnly; Secure; SameSite=Lax$/;
    const browser = new Browser(site, { 'x-forwarded-proto': 'https' });
    await browser.get('/in/ann');
    assert.match(browser.lines[0] ?? '', pattern);
    assert.equal((await browser.get('/')).json.user, 'ann');
    const behindProxy = new Browser(site, { host: 'example.org' });
    await behindProxy.get('/in/ann');
    assert.match(behindProxy.lines[0] ?? '', pattern);
    // A neighbour on plain http can set a cookie without the prefix: it counts for nothing.
    const tossed = new Browser(site, { 'x-forwarded-proto': 'https' });
    tossed.jar.set('session', browser.jar.get('__Host-session') ?? '');
    assert.equal((await tossed.get('/')).json.user, null);
  });

  it('last as long as they are used, but no longer than their age', async () => {
    const clock = new VirtualClock();
    await using site = await open({ clock, idleMs: hourMs, ageMs: 3 * hourMs });
    const browser = new Browser(site);
    await browser.get('/in/ann');
    for (let i = 0; i < 3; i += 1) {
      await clock.advance(0.9 * hourMs);
      assert.equal((await browser.get('/')).json.user, 'ann');
      assert.equal(browser.lines.length, 1);
      await clock.advance(0.05 * hourMs);
      await browser.get('/');
      assert.equal(browser.lines.length, 0);
    }
    const stale = new Browser(site);
    stale.jar.set('session', browser.jar.get('session') ?? '');
    await clock.advance(0.2 * hourMs);
    assert.equal((await stale.get('/')).json.user, null);
    assert.match(stale.lines[0] ?? '', /^session=; Max-Age=0/);
    await browser.get('/in/bob');
    await clock.advance(hourMs);
    assert.equal((await browser.get('/')).json.user, null);
  });

  it('outlive the browser if they are remembered, until their age', async () => {
    const clock = new VirtualClock();
    await using site = await open({ clock, idleMs: hourMs, rememberMs: 48 * hourMs });
    const browser = new Browser(site);
    await browser.get('/in/ann');
    assert.doesNotMatch(browser.lines[0] ?? '', /Max-Age|Expires/);
    await browser.get('/remember');
    assert.match(browser.lines[0] ?? '', /; Max-Age=172800;/);
    await clock.advance(47 * hourMs);
    assert.equal((await browser.get('/')).json.user, 'ann');
    await clock.advance(hourMs);
    assert.equal((await browser.get('/')).json.user, null);
  });

  it('show a flash message once', async () => {
    await using site = await open();
    const browser = new Browser(site);
    await browser.get('/flash');
    await browser.get('/flash');
    await browser.get('/plain');
    const message = { kind: 'info', text: 'saved' };
    assert.deepEqual((await browser.get('/')).json.flash, [message, message]);
    assert.deepEqual((await browser.get('/')).json.flash, []);
    for (let sent = 0; sent < 100; sent += 1) await browser.get('/flash');
    const five = Array.from({ length: 5 }, () => message);
    assert.deepEqual((await browser.get('/')).json.flash, five, 'who looks at no page goes on');
  });

  it('get a new id at log-in', async () => {
    await using site = await open();
    const browser = new Browser(site);
    const first = (await browser.get('/in/ann')).text;
    const second = (await browser.get('/in/ann')).text;
    assert.notEqual(first, second);
    assert.equal((await browser.get('/')).json.id, second);
  });

  it('ignore and clear whatever was tampered with, and never fail', async () => {
    await using site = await open();
    const browser = new Browser(site);
    await browser.get('/in/ann');
    const good = browser.jar.get('session') ?? '';
    const [text = '', signature = ''] = good.split('.');
    const forged = Buffer.from(
      Buffer.from(text, 'base64url').toString().replace('ann', 'bob'),
    ).toString('base64url');
    const bad = ['', '.', 'x', good.slice(1), `${good}.x`, `${good}=`, `${forged}.${signature}`];
    bad.push(`${text}.`, `.${signature}`, `${text}.${'A'.repeat(43)}`, '%', '%00', '"', '{}.[]');
    for (const value of bad) {
      const other = new Browser(site);
      other.jar.set('session', value);
      const reply = await other.get('/');
      assert.equal(reply.status, 200, value);
      assert.equal(reply.json.user, null, value);
      assert.match(other.lines[0] ?? '', /^session=; Max-Age=0/, value);
      // Even a page that does not ask for the session clears it.
      other.jar.set('session', value);
      await other.get('/plain');
      assert.match(other.lines[0] ?? '', /^session=; Max-Age=0/, value);
    }
  });

  it('are signed by the first key and read by all', async () => {
    const newer = 'another key of at least 32 bytes.';
    await using before = await open();
    await using during = await open({ keys: [newer, key] });
    await using after = await open({ keys: [newer] });
    const browser = new Browser(before);
    await browser.get('/in/ann');
    const old = browser.jar.get('session') ?? '';
    const moved = new Browser(during);
    moved.jar.set('session', old);
    assert.equal((await moved.get('/')).json.user, 'ann');
    await moved.get('/in/ann');
    const late = new Browser(after);
    late.jar.set('session', moved.jar.get('session') ?? '');
    assert.equal((await late.get('/')).json.user, 'ann');
    late.jar.set('session', old);
    assert.equal((await late.get('/')).json.user, null);
  });

  it('refuse what does not fit into the cookie, and keep what they had', async () => {
    await using site = await open();
    const browser = new Browser(site);
    assert.deepEqual((await browser.get('/full')).json, { code: 'SESSION_TOO_LARGE', user: null });
    assert.deepEqual((await browser.get('/')).json.cart, [1]);
    const failed = await browser.get('/too-large');
    assert.equal(failed.status, 500);
    assert.equal(failed.json.code, 'SESSION_TOO_LARGE');
    assert.deepEqual((await browser.get('/')).json.cart, [1]);
  });

  it('take exactly as many bytes as they may', async () => {
    let longest = 0;
    await using site = await Site.open(async (app) => {
      await app.register(sessions, { keys: [key], secure: true });
      app.get('/', (request) => {
        for (let n = 1; ; n += 1) {
          try {
            request.session.set('x', 'y'.repeat(n));
          } catch {
            longest = n;
            return '';
          }
        }
      });
    });
    const line = [(await site.ask('/')).headers['set-cookie']].flat()[0] ?? '';
    const bytes = line.indexOf(';');
    assert.ok(bytes <= 4096 && bytes > 4080, `${bytes} bytes, refused at ${longest}`);
  });

  it('cannot be changed once the answer is on its way', async () => {
    const failed = Promise.withResolvers<unknown>();
    await using site = await Site.open(async (app) => {
      await app.register(sessions, { keys: [key] });
      app.get('/', async (request, reply) => {
        await reply.send('sent');
        try {
          failed.resolve(request.session.set('x', 1));
        } catch (error) {
          failed.resolve(error);
        }
        return reply;
      });
    });
    assert.equal((await site.ask('/')).text, 'sent');
    const message = /session: must be changed before the answer is sent/;
    assert.match(String(await failed.promise), message);
  });

  it('can be read by what comes before them', async () => {
    await using site = await Site.open(async (app) => {
      app.addHook('onRequest', async (request) => {
        request.headers['x-user'] = String(request.session.get('user'));
      });
      await app.register(sessions, { keys: [key] });
      app.get('/in', (request) => {
        request.session.set('user', 'ann');
        return '';
      });
      app.get('/', ({ headers }) => headers['x-user']);
    });
    const browser = new Browser(site);
    await browser.get('/in');
    assert.equal((await browser.get('/')).text, 'ann');
  });

  it('refuse wrong options, and do not print keys', async () => {
    await assert.rejects(open({ keys: [] }), /keys: must be a list of keys/);
    const secret = open({ keys: ['short secret'] });
    await assert.rejects(secret, (error: Error) => !error.message.includes('short'));
    await assert.rejects(open({ idleMs: 0 }), /idleMs: must be/);
    await assert.rejects(open({ name: 'a b' }), /name: must be/);
  });
});
