import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { approversGroup } from '../src/users/users.ts';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import { ServedFleet } from './fixtures/fleet-command.ts';
import { FleetSite, temporaryFolder } from './fixtures/fleet-site.ts';
import { Visitor } from './fixtures/visitor.ts';

describe('the home page', () => {
  let site: FleetSite;
  let visitor: Visitor;

  before(async () => {
    site = await openBusyFleet();
    visitor = new Visitor(site);
  });

  after(() => site[Symbol.asyncDispose]());

  it('is where the address of the server leads', async () => {
    const { status, headers } = await visitor.get('/');
    assert.deepEqual([status, headers.location], [302, '/tests']);
  });

  it('shows figures, and runs by what must be done about them', async () => {
    const { status, text, headers } = await visitor.get('/tests');
    assert.equal(status, 200);
    assert.equal(headers['cache-control'], 'no-store');
    for (const word of ['Machines', 'Cores', 'Games a minute', 'Time left', 'Finished today']) {
      assert.ok(text.includes(`<dt>${word}`), word);
    }
    const places = ['id="waiting"', 'continuation-6ply', 'id="active"', 'cutnode-bonus'];
    const at = [...places, 'id="finished"', 'corrhist-minor'].map((one) => text.indexOf(one));
    assert.deepEqual(
      at,
      at.toSorted((a, b) => a - b),
    );
    assert.ok(at.every((one) => one > 0));
  });

  it('shows active runs of some kinds, and those again until others are chosen', async () => {
    const active = async (query = '') => {
      const { text } = await visitor.get(`/tests${query}`);
      return text.slice(text.indexOf('id="active"'), text.indexOf('id="finished"'));
    };
    const kinds = 'spsa,stc,ltc,st,smp';
    for (const query of [`?active_run_filters=${kinds}`, '', '?live=1']) {
      const shown = await active(query);
      assert.ok(shown.includes('tune-reductions'), query);
      assert.equal(shown.includes('cutnode-bonus'), false, query);
    }
    assert.equal(decodeURIComponent(visitor.cookies.get('active_run_filters') ?? ''), kinds);
    assert.ok((await active('?active_run_filters=none')).includes('No run of these kinds'));
    assert.ok((await active('?active_run_filters=')).includes('cutnode-bonus'));
    assert.equal(visitor.cookies.has('active_run_filters'), false);
    assert.ok((await active()).includes('cutnode-bonus'));
    const cut = encodeURIComponent(`${'a'.repeat(199)}😀`);
    assert.equal((await visitor.get(`/tests?active_run_filters=${cut}`)).status, 200);
    const { headers } = await visitor.get('/tests?page=2%0D%0A&active_run_filters=');
    assert.equal(headers.location, undefined, 'no page');
  });

  it('lists finished runs by result, words and person, a page at a time', async () => {
    const accepted = (await visitor.get('/tests/finished?success_only=1')).text;
    assert.ok(accepted.includes('corrhist-minor'));
    assert.equal(accepted.includes('aspiration-delta-9'), false);
    const search = await visitor.follow(await visitor.get('/tests/finished?text=WINDOW&user=BO'));
    assert.ok(search.text.includes('aspiration-delta-9'));
    assert.equal(search.text.includes('corrhist-minor'), false);
    const none = (await visitor.get('/tests/finished?mode=search&text=nosuch')).text;
    assert.ok(none.includes('No such run') && none.includes('Show all'));
    const beyond = await visitor.get('/tests/finished?page=99');
    assert.deepEqual([beyond.status, beyond.headers.location], [302, '/tests/finished?page=1']);
  });

  it('lists the runs of one person, and nobody else', async () => {
    const { text } = await visitor.get('/tests/user/carol');
    assert.ok(text.includes('cutnode-bonus') && text.includes('corrhist-minor'));
    assert.equal(text.includes('razoring-depth-4'), false);
    const { status, text: none } = await visitor.get('/tests/user/nobody');
    assert.equal(status, 404);
    assert.ok(none.includes('There is no user nobody'));
  });

  it('gives scripts the tables alone', async () => {
    const hx = { 'hx-request': 'true' };
    const { status, text } = await visitor.get('/tests?live=run_tables', hx);
    assert.equal(status, 200);
    assert.ok(text.includes('id="active"') && !text.includes('<html'));
    const plain = await visitor.get('/tests?live=run_tables');
    assert.deepEqual([plain.status, plain.headers.location], [302, '/tests']);
    assert.equal((await visitor.get('/tests/finished', hx)).text.includes('<html'), false);
  });

  it('says what there is not, and which methods there are', async () => {
    const missing = await visitor.get('/nowhere');
    assert.equal(missing.status, 404);
    assert.ok(missing.text.includes('There is nothing at this address'));
    const wrong = await visitor.post('/tests', {});
    assert.equal(wrong.status, 405);
    assert.match(String(wrong.headers.allow), /GET, HEAD/);
  });
});

describe('a server without runs', () => {
  it('offers approvers the sample runs, once', async () => {
    await using site = await FleetSite.open();
    const groups = [approversGroup];
    await site.fleet.users.add({ username: 'ada', password: 'secret one', pending: false, groups });
    const ada = await Visitor.loggedIn(site, 'ada', 'secret one');
    const tester = await Visitor.loggedIn(site, 'tester', 'secret');
    assert.ok((await ada.get('/tests')).text.includes('action="/tests/seed"'));
    assert.ok(!(await tester.get('/tests')).text.includes('action="/tests/seed"'));
    await tester.post('/tests/seed', {});
    assert.equal(site.fleet.primary.world.unfinished.size, 0);
    await ada.get('/tests');
    const shown = await ada.follow(await ada.post('/tests/seed', {}));
    assert.ok(shown.text.includes('sf_17') && !shown.text.includes('action="/tests/seed"'));
    await ada.follow(await ada.post('/tests/seed', {}));
    assert.equal(site.fleet.primary.world.unfinished.size, 2);
    const [run] = site.fleet.primary.world.unfinished;
    const refused = await tester.get(`/tests/modify?id=${run?.id}`);
    assert.equal(refused.status, 403, 'a form that would be refused is not shown');
    assert.equal((await ada.get(`/tests/modify?id=${run?.id}`)).status, 200);
  });
});

describe('accounts', () => {
  let site: FleetSite;

  before(async () => {
    site = await openBusyFleet();
  });

  after(() => site[Symbol.asyncDispose]());

  it('are logged in with the right password, and led to where they wanted to go', async () => {
    const visitor = new Visitor(site);
    await visitor.get('/login');
    const wrong = await visitor.post('/login', { username: 'bob', password: 'no' });
    assert.equal(wrong.status, 200);
    assert.ok(wrong.text.includes('Invalid username or password.'));
    assert.ok(wrong.text.includes('value="bob"'), 'the name that was typed stays');
    const to = encodeURIComponent('/tests/finished?page=1');
    const right = await visitor.post(`/login?next=${to}`, {
      username: 'bob',
      password,
      stay_logged_in: 'on',
    });
    assert.deepEqual([right.status, right.headers.location], [302, '/tests/finished?page=1']);
    const cookie = right.headers['set-cookie']?.find((one) => one.startsWith('fishtest_session'));
    assert.match(String(cookie), /Max-Age=345\d{5}.*HttpOnly.*SameSite=Lax/i);
    assert.equal(visitor.cookies.get('login_remember_me'), '1');
    assert.ok((await visitor.get('/tests')).text.includes('<a href="/user">bob</a>'));
    const again = await visitor.get('/login');
    assert.deepEqual([again.status, again.headers.location], [302, '/tests']);
  });

  it('are never led to another site', async () => {
    for (const next of [
      '//example.org',
      'https://example.org',
      '/\\example.org',
      '/\t/evil.example',
      '/\t\\evil.example',
      '/\n/evil.example',
      '/\r\n/x',
      '/.//evil.example',
      '/tests/..//evil.example/x',
    ]) {
      const visitor = new Visitor(site);
      await visitor.get('/login');
      const url = `/login?next=${encodeURIComponent(next)}`;
      const { headers } = await visitor.post(url, { username: 'bob', password });
      assert.equal(headers.location, '/tests');
    }
  });

  it('are logged out by a form, not by a link', async () => {
    const visitor = await Visitor.loggedIn(site, 'bob', password);
    assert.equal((await visitor.get('/logout')).status, 405);
    await visitor.follow(await visitor.post('/logout', {}));
    assert.ok((await visitor.get('/tests')).text.includes('Log in'));
  });

  it('keep their session only while they are neither blocked nor gone', async () => {
    const visitor = await Visitor.loggedIn(site, 'carol', password);
    await site.fleet.users.change('carol', { blocked: true });
    const { status, headers } = await visitor.get('/tests/finished');
    assert.deepEqual([status, headers.location], [302, '/tests']);
    assert.ok((await visitor.get('/tests')).text.includes('Log in'));
    await site.fleet.users.change('carol', { blocked: false });
  });

  it('are refused changes without the token of their page, and stay logged in', async () => {
    const visitor = await Visitor.loggedIn(site, 'bob', password);
    const { status, text } = await visitor.post('/logout', {}, { token: false });
    assert.equal(status, 403);
    assert.ok(text.includes('Nothing was changed') && text.includes('>bob</a>'));
    const stranger = new Visitor(site);
    await stranger.get('/login');
    const asked = await stranger.post('/tests/stop', {}, { token: false });
    assert.ok(asked.status === 403 && asked.text.includes('name="password"'));
    assert.ok((await visitor.get('/tests')).text.includes('>bob</a>'));
  });

  it('are made by signing up, and wait for an approver', async () => {
    const visitor = new Visitor(site);
    await visitor.get('/signup');
    const wrong = await visitor.post('/signup', {
      username: 'e!',
      password: 'short',
      password2: 'other',
      email: 'nobody',
      tests_repo: 'ftp://x',
    });
    assert.equal(wrong.status, 422);
    for (const name of ['username', 'password', 'email', 'tests_repo']) {
      assert.ok(wrong.text.includes(`id="${name}-error"`), name);
    }
    assert.ok(wrong.text.includes('value="ftp://x"'), 'what was typed stays');
    assert.equal(wrong.text.includes('short'), false, 'a password is never shown');
    for (const email of ['a@.com', 'a@b', 'a@b.', 'a@b@c.org', 'a b@c.org']) {
      const { text } = await visitor.post('/signup', { email });
      assert.ok(text.includes('id="email-error"'), email);
    }
    const right = {
      username: 'erin',
      password: 'quiet river stones',
      password2: 'quiet river stones',
      email: 'erin@example.org',
      tests_repo: '',
    };
    const { text } = await visitor.follow(await visitor.post('/signup', right));
    assert.ok(text.includes('erin waits for an approver'));
    assert.equal((await site.fleet.users.find('erin'))?.pending, true);
    const early = await visitor.post('/login', { username: 'erin', password: right.password });
    assert.ok(early.text.includes('pending approval'));
    const taken = await visitor.post('/signup', right);
    assert.equal(taken.status, 422);
    assert.ok(taken.text.includes('This name is taken'));
    const spaced = { ...right, username: ' erin\n', tests_repo: ' https://github.com/a/b ' };
    assert.equal((await visitor.post('/signup', spaced)).status, 422, 'blanks make no other name');
    await visitor.follow(await visitor.post('/signup', { ...spaced, username: ' fay ' }));
    assert.equal((await site.fleet.users.find('fay'))?.tests_repo, 'https://github.com/a/b');
  });
});

describe('a page that leads elsewhere', () => {
  it('leaves no error in the log of the server', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    await using server = await ServedFleet.start(data, ['--log', 'true']);
    for (const path of ['/', '/tests/run']) {
      assert.equal((await fetch(`${server.url}${path}`, { redirect: 'manual' })).status, 302);
    }
    await server.stop();
    assert.doesNotMatch(server.complaints, /Error/);
  });
});
