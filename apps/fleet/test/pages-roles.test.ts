// Slow: asks for every page in every role.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import type { FleetSite } from './fixtures/fleet-site.ts';
import { Visitor } from './fixtures/visitor.ts';

type Role = 'anonymous' | 'user' | 'owner' | 'approver' | 'blocked';
const roles: readonly Role[] = ['anonymous', 'user', 'owner', 'approver', 'blocked'];

/** Pages to which visitors without the right are sent. */
const login = 'login';
const home = '/tests';

type Wanted = number | string;

/** A blocked user is sent home once, and is a stranger from then on. */
const everybody: readonly Wanted[] = [200, 200, 200, 200, home];
const users: readonly Wanted[] = [login, 200, 200, 200, home];
const approvers: readonly Wanted[] = [login, home, home, 200, home];

describe('pages by role', () => {
  let site: FleetSite;
  let visitors: Readonly<Record<Role, Visitor>>;
  let id = '';

  before(async () => {
    site = await openBusyFleet();
    const unfinished = [...site.fleet.primary.world.unfinished];
    id = unfinished.find(({ args }) => args.new_tag === 'razoring-depth-4')?.id ?? '';
    await site.fleet.users.add({ username: 'mallory', password, pending: false });
    const named = (name: string) => Visitor.loggedIn(site, name, password);
    visitors = {
      anonymous: new Visitor(site),
      user: await named('carol'),
      owner: await named('bob'),
      approver: await named('ada'),
      blocked: await named('mallory'),
    };
    await site.fleet.users.change('mallory', { blocked: true });
  });

  after(() => site[Symbol.asyncDispose]());

  const outcome = (status: number, location: string | undefined): Wanted => {
    if (status !== 302) return status;
    return location?.startsWith('/login?next=') ? login : String(location);
  };

  /** Logs the blocked user in before the block, with a page open whose form can be sent. */
  const blockAnew = async () => {
    await site.fleet.users.change('mallory', { blocked: false });
    visitors = { ...visitors, blocked: await Visitor.loggedIn(site, 'mallory', password) };
    await visitors.blocked.get('/tests');
    await site.fleet.users.change('mallory', { blocked: true });
  };

  it('answer GET and HEAD as the table says', async () => {
    const table: readonly (readonly [path: string, wanted: readonly Wanted[]])[] = [
      ['/', [home, home, home, home, home]],
      // The home page is what a blocked user is shown.
      ['/tests', [200, 200, 200, 200, 200]],
      ['/tests/finished', everybody],
      ['/tests/user/bob', everybody],
      ['/tests/user/nobody', [404, 404, 404, 404, home]],
      ['/tests/machines', everybody],
      [`/tests/view/${id}`, everybody],
      [`/tests/tasks/${id}`, everybody],
      [`/tests/stats/${id}`, everybody],
      [`/tests/live_elo/${id}`, everybody],
      [`/tests/live_elo_update/${id}`, everybody],
      ['/tests/run', users],
      [`/tests/run?id=${id}`, users],
      [`/tests/modify?id=${id}`, [login, 403, 200, 200, home]],
      ['/actions', everybody],
      ['/contributors', everybody],
      ['/contributors/monthly', everybody],
      ['/nns', everybody],
      ['/upload', users],
      ['/user', users],
      ['/user/carol', [login, 200, home, 200, home]],
      ['/user/nobody', [login, 404, 404, 404, home]],
      ['/user_management', approvers],
      ['/user_management/pending_count', everybody],
      ['/workers/show', everybody],
      ['/workers/bob-8cores-000000', [login, home, 200, 200, home]],
      ['/workers/nonsense', [login, 404, 404, 404, home]],
      ['/sprt_calc', everybody],
      ['/rate_limits', everybody],
      ['/rate_limits/server', everybody],
      ['/login', [200, home, home, home, home]],
      ['/signup', [200, home, home, home, home]],
      ['/nowhere', [404, 404, 404, 404, 404]],
    ];
    for (const [path, wanted] of table) {
      for (const [at, role] of roles.entries()) {
        if (role === 'blocked') await blockAnew();
        const { status, headers } = await visitors[role].get(path);
        assert.equal(outcome(status, headers.location), wanted[at], `GET ${path} as ${role}`);
        if (status === 200) assert.match(String(headers['content-security-policy']), /'self'/);
      }
      const head = await site.fleet.server.app.inject({ method: 'HEAD', url: path });
      const got = outcome(head.statusCode, head.headers.location as string | undefined);
      assert.equal(got, wanted[0], `HEAD ${path}`);
      if (head.statusCode === 200) assert.equal(head.body, '');
    }
  });

  it('answer forms as the table says, and change nothing for others', async () => {
    const run = { 'run-id': id };
    const missing = { 'run-id': '0'.repeat(24) };
    const none = { '': '' };
    const table: readonly (readonly [
      path: string,
      fields: Record<string, string>,
      wanted: readonly Wanted[],
    ])[] = [
      ['/tests/approve', run, [login, 403, 403, `/tests/view/${id}`, home]],
      ['/tests/pause', run, [login, 403, `/tests/view/${id}`, `/tests/view/${id}`, home]],
      ['/tests/purge', run, [login, 403, `/tests/view/${id}`, `/tests/view/${id}`, home]],
      ['/tests/modify', { run: id }, [login, 403, `/tests/view/${id}`, `/tests/view/${id}`, home]],
      ['/tests/seed', none, [login, home, home, home, home]],
      ['/password/bob/x-y', none, [404, 404, 404, 404, home]],
      ['/tests/stop', missing, [login, 404, 404, 404, home]],
      ['/tests/delete', missing, [login, 404, 404, 404, home]],
      ['/tests/run', none, [login, 422, 422, 422, home]],
      ['/user', none, [login, 422, 422, 422, home]],
      ['/user/mallory', { pending: '0' }, [login, home, home, '/user_management', home]],
      ['/upload', none, [login, 415, 415, 415, home]],
      ['/user/dave', { pending: '0' }, [login, home, home, '/user_management', home]],
      [
        '/workers/bob-8cores-000000',
        { message: 'x', blocked: 'on' },
        [login, home, '/workers/show', '/workers/show', home],
      ],
      ['/tests', none, [405, 405, 405, 405, 405]],
      ['/actions', none, [405, 405, 405, 405, 405]],
    ];
    for (const [path, fields, wanted] of table) {
      for (const [at, role] of roles.entries()) {
        if (role === 'blocked') await blockAnew();
        else await visitors[role].get('/tests');
        const { status, headers } = await visitors[role].post(path, fields);
        assert.equal(outcome(status, headers.location), wanted[at], `POST ${path} as ${role}`);
      }
    }
    const forged = await visitors.approver.post('/tests/stop', run, { token: false });
    assert.equal(forged.status, 403);
    assert.ok(forged.text.includes('href="/user">ada<'), 'in the frame of who has sent it');
    assert.ok(forged.text.includes('Nothing was changed') && !forged.text.includes(id));
    const typed = { message: 'typed words', password: 'secret words' };
    const from = '/workers/bob-8cores-000000?x=1';
    const old = await visitors.approver.post('/workers/x', typed, { token: false, from });
    assert.ok(old.text.includes(`${from}">Back<`) && old.text.includes('typed words'));
    assert.equal(old.text.includes('secret words'), false);
    assert.equal(site.fleet.primary.world.run(id)?.record.finished, false);
  });

  it('keep what was typed while a session ended until its owner has logged in again', async () => {
    const carol = await Visitor.loggedIn(site, 'carol', password);
    await carol.get('/tests/run');
    carol.forget('fishtest_session');
    const typed = { 'test-branch': 'typed-branch', 'run-info': 'one\r\ntwo <b>', password: 'x' };
    const late = await carol.post('/tests/run', typed, { from: '/tests/run' });
    assert.equal(late.status, 403);
    assert.ok(late.text.includes('your form is shown again'), late.text);
    const kept = fieldsOf(late.text);
    const wrong = await carol.post('/login', { ...kept, username: 'carol', password: 'wrong' });
    const access = { username: 'carol', password };
    const shown = await carol.post('/login', { ...fieldsOf(wrong.text), ...access });
    assert.equal(shown.status, 200);
    assert.ok(shown.text.includes('action="/tests/run"') && shown.text.includes('href="/user"'));
    assert.ok(shown.text.includes('value="typed-branch"') && shown.text.includes('two &lt;b'));
    assert.equal(shown.text.includes('name="password"'), false);
    const sent = await carol.post('/tests/run', { 'test-branch': 'typed-branch' });
    assert.equal(sent.status, 422, 'its token is that of the new session');
    assert.ok(sent.text.includes('value="typed-branch"'));
    carol.forget('fishtest_session');
    const other = await carol.post('/tests/run', typed, { from: '.evil.example/x' });
    assert.equal(other.text.includes('typed-branch'), false, 'another site chooses nothing');
    const again = await Visitor.loggedIn(site, 'carol', password);
    await again.get('/tests/run');
    await site.fleet.users.setPassword('carol', 'another password');
    const ended = await again.post('/tests/run', typed, { from: '/tests/run' });
    assert.equal(ended.status, 401, 'the session ended with the password');
    assert.ok(ended.text.includes('your form is shown again'), ended.text);
    const access2 = { username: 'carol', password: 'another password' };
    const back = await again.post('/login', { ...fieldsOf(ended.text), ...access2 });
    assert.ok(back.text.includes('value="typed-branch"'));
  });
});

/** The hidden fields of a page but its token, which the visitor adds itself. */
function fieldsOf(text: string): Record<string, string> {
  const found = text.matchAll(/<input type="hidden" name="(kept_\w+)" value="([^"]*)"/g);
  const plain = (value: string) =>
    value.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&amp;', '&');
  return Object.fromEntries([...found].map(([, name = '', value = '']) => [name, plain(value)]));
}
