// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { wallClock } from 'spillway';
import { operate } from '../src/operations/operations.ts';
import { objectId } from '../src/storage/rows.ts';
import { blockWorker, newRunRecord } from '../src/world/manage.ts';
import { Run } from '../src/world/run.ts';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import { runArgs, stats, uniqueKey, worker } from './fixtures/fleet-scene.ts';
import { ask, FleetSite, info } from './fixtures/fleet-site.ts';
import { Visitor } from './fixtures/visitor.ts';

describe('pages about people, machines and nets', () => {
  let site: FleetSite;
  let ada: Visitor;
  let bob: Visitor;
  let stranger: Visitor;

  before(async () => {
    site = await openBusyFleet();
    stranger = new Visitor(site);
    ada = await Visitor.loggedIn(site, 'ada', password);
    bob = await Visitor.loggedIn(site, 'bob', password);
  });

  after(() => site[Symbol.asyncDispose]());

  it('find events by kind, person, words and run', async () => {
    const events = async (query: string) => (await stranger.get(`/actions?${query}`)).text;
    const approvals = await events('action=approve_run');
    assert.ok(approvals.includes('cutnode-bonus') && !approvals.includes('bob-16cores'));
    assert.equal((await events('')).includes('fishtest.system'), false, 'routine is left out');
    assert.ok((await events('action=system_event')).includes('fishtest.system'));
    const byPart = await events('user=AD&text=bob-16');
    assert.ok(byPart.includes('bob-16cores-00000f') && byPart.includes('1 to 1 of 1'));
    assert.ok((await events('text=100%25')).includes('No such event'), 'words are literal');
    const run = [...site.fleet.primary.world.unfinished][0];
    assert.ok((await events(`run_id=${run?.id}`)).includes('1 to '));
    const oldest = await events('order=asc&max_count=3');
    assert.ok(oldest.includes('1 to 3 of 3 or more'));
    assert.equal((await stranger.get('/actions?page=99')).status, 302);
    assert.equal((await stranger.get('/actions?sort=constructor')).status, 200);
  });

  it('rank contributors, and find one of them', async () => {
    const all = (await bob.get('/contributors')).text;
    const names = [...all.matchAll(/\/tests\/user\/(\w+)"/g)].map(([, name]) => name);
    assert.deepEqual(new Set(names), new Set(['ada', 'bob', 'carol', 'tester']));
    assert.match((await bob.get('/contributors?findme=1')).text, /class="here".*?\/user\/bob"/s);
    assert.match((await bob.get('/contributors/monthly')).text, /class="here".*?\/user\/bob"/s);
    assert.equal((await bob.get('/contributors?findme=')).text.includes('class="here"'), false);
    const byName = (await bob.get('/contributors?sort=username&order=asc')).text;
    assert.ok(byName.indexOf('/tests/user/ada') < byName.indexOf('/tests/user/tester'));
    assert.equal((await bob.get('/contributors/monthly')).status, 200);
    const listed = (input: object) => operate(site.fleet, 'contributors', input);
    const rows = (await listed({})) as { username: string; cpu_hours: number; games: number }[];
    assert.deepEqual(new Set(rows.map(({ username }) => username)), new Set(names));
    assert.deepEqual(
      rows,
      rows.toSorted((a, b) => b.cpu_hours - a.cpu_hours),
    );
    assert.ok(rows.some(({ games }) => games > 0));
    assert.equal(((await listed({ month: true, limit: 1 })) as object[]).length, 1);
  });

  it('let users change their profile with their password, and nothing without', async () => {
    const fields = { user: 'bob', email: 'bob@example.net', tests_repo: '', old_password: 'no' };
    const wrong = await bob.post('/user', fields);
    assert.equal(wrong.status, 422);
    assert.ok(wrong.text.includes('id="old_password-error"'));
    assert.ok(wrong.text.includes('value="bob@example.net"'));
    const odd = { ...fields, old_password: password, tests_repo: 'ftp://x' };
    assert.ok((await bob.post('/user', odd)).text.includes('id="tests_repo-error"'));
    const weak = { ...fields, old_password: password, password: 'bobbobbob', password2: 'x' };
    assert.ok((await bob.post('/user', weak)).text.includes('id="password-error"'));
    const same = await bob.post('/user', { user: 'bob', old_password: password });
    assert.equal(same.status, 302, 'nothing is changed');
    const next = 'another good one';
    const right = { ...fields, old_password: password, password: next, password2: next };
    const elsewhere = await Visitor.loggedIn(site, 'bob', password);
    assert.equal((await elsewhere.get('/user')).status, 200);
    assert.equal((await bob.follow(await bob.post('/user', right))).status, 200);
    const over = await elsewhere.get('/user');
    assert.equal(over.headers.location, '/tests', 'a new password ends other sessions');
    assert.ok((await elsewhere.get('/tests')).text.includes('href="/login"'));
    assert.equal((await site.fleet.users.find('bob'))?.email, 'bob@example.net');
    await Visitor.loggedIn(site, 'bob', next);
  });

  it('let approvers accept, reject and block users', async () => {
    const pending = (await ada.get('/user_management')).text;
    assert.ok(pending.includes('/user/dave') && !pending.includes('/user/carol"'));
    await ada.follow(await ada.post('/user/dave', { user: 'dave', pending: '0' }));
    assert.equal((await site.fleet.users.find('dave'))?.pending, false);
    await ada.follow(await ada.post('/user/dave', { user: 'dave', blocked: '1' }));
    await ada.post('/user/dave', { user: 'dave' });
    assert.equal(
      (await site.fleet.users.find('dave'))?.blocked,
      true,
      'an empty form asks nothing',
    );
    assert.ok((await ada.get('/user_management?group=blocked')).text.includes('/user/dave'));
    assert.equal((await ada.get('/user_management?group=__proto__')).status, 200);
    await site.fleet.users.add({ username: 'eve', password });
    await ada.follow(await ada.post('/user/eve', { user: 'eve', pending: '1' }));
    assert.equal(await site.fleet.users.find('eve'), undefined);
    const log = await site.ask('actions', { username: 'ada', user: { $in: ['dave', 'eve'] } });
    const done = log.json.map(({ message }: { message: string }) => message);
    assert.deepEqual(done, ['rejected', 'blocked', 'accepted']);
  });

  it('accept or reject a user, whichever of two approvers was first', async () => {
    const both = ['user-approve', 'user-reject'];
    for (const [at, asked] of [both, both.toReversed()].entries()) {
      const username = `between${at}`;
      await site.fleet.users.add({ username, password });
      const all = asked.map((name) => operate(site.fleet, name, { username }));
      const done = await Promise.allSettled(all);
      const kept = done.filter(({ status }) => status === 'fulfilled');
      assert.equal(kept.length, 1, 'the other is told that it came too late');
      const log = (await site.ask('actions', { user: username })).json;
      const user = await site.fleet.users.find(username);
      assert.deepEqual(
        log.map(({ message }: { message: string }) => message),
        [user === undefined ? 'rejected' : 'accepted'],
      );
    }
  });

  it('let approvers make a link with which a user chooses a password once', async () => {
    await site.fleet.users.add({ username: 'hal', password: 'forgotten one', pending: false });
    const shown = await ada.post('/user/hal', { user: 'hal', link: '1' });
    const link = /<pre id="password-link"[^>]*>([^<]+)</.exec(shown.text)?.[1] ?? '';
    const { origin, pathname } = new URL(link);
    assert.equal(origin, site.fleet.server.url);
    const hal = new Visitor(site);
    const page = await hal.get(pathname);
    assert.equal(page.status, 200);
    assert.equal(page.headers['cache-control'], 'no-store');
    const next = 'entirely new one';
    const send = (password: string, password2: string) =>
      hal.post(pathname, { password, password2 });
    assert.ok((await send('short', 'short')).text.includes('id="password-error"'));
    assert.ok((await send(next, 'other')).text.includes('id="password2-error"'));
    assert.equal((await stranger.get(pathname.replace('/hal/', '/bob/'))).status, 404);
    assert.equal((await stranger.get(`${pathname}x`)).status, 404);
    assert.equal((await stranger.post(pathname, {}, { token: false })).status, 403);
    const elsewhere = await Visitor.loggedIn(site, 'hal', 'forgotten one');
    await hal.follow(await send(next, next));
    assert.equal((await elsewhere.get('/user')).headers.location, '/tests');
    assert.equal((await send(next, next)).status, 404, 'it works once');
    await Visitor.loggedIn(site, 'hal', next);
    const refused = await bob.post('/user/hal', { user: 'hal', link: '1' });
    assert.equal(refused.headers.location, '/tests', 'only approvers make links');
    const log = await site.ask('actions', { user: 'hal' });
    const done = log.json.map((one: { username: string; message: string }) => [
      one.username,
      one.message,
    ]);
    assert.deepEqual(done, [
      ['hal', 'password changed'],
      ['ada', 'password link made'],
    ]);
  });

  it('refuse a link that is too old', async () => {
    await using stack = new AsyncDisposableStack();
    let lateMs = 0;
    const now = () => wallClock.now() + lateMs;
    const aged = stack.use(await FleetSite.open({ clock: { ...wallClock, now } }));
    const made = await operate(aged.fleet, 'user-link', { username: 'tester' });
    const { link } = made as { link: string };
    const visitor = new Visitor(aged);
    assert.equal((await visitor.get(link)).status, 200);
    lateMs = 7 * 86_400_000;
    assert.equal((await visitor.get(link)).status, 404);
  });

  it('refuse a name that differs from another in capitals only', async () => {
    await stranger.get('/signup');
    const fields = { password, password2: password, email: 'a@example.org', tests_repo: '' };
    const taken = await stranger.post('/signup', { ...fields, username: 'ADA' });
    assert.equal(taken.status, 422);
    assert.ok(taken.text.includes('This name is taken'));
    const both = ['newcomer', 'NewComer'].map((username) =>
      site.fleet.users.add({ username, password }),
    );
    const [first, second] = await Promise.allSettled(both);
    assert.deepEqual([first?.status, second?.status].sort(), ['fulfilled', 'rejected']);
  });

  it('list machines by any column, and those of one person', async () => {
    const all = (await ada.get('/tests/machines?sort=cores&order=desc')).text;
    const cores = [...all.matchAll(/data-name="Cores"><span>([\d,]+)/g)].map(([, n]) => Number(n));
    assert.deepEqual(
      cores,
      cores.toSorted((a, b) => b - a),
    );
    assert.ok(cores.length > 50);
    const mine = (await ada.get('/tests/machines?my_workers=1')).text;
    assert.ok(mine.includes('/workers/ada-') && !mine.includes('/workers/carol-'));
    const again = (await ada.get('/tests/machines')).text;
    assert.ok(!again.includes('/workers/carol-'), 'the last choice is kept');
    assert.equal(ada.cookies.get('machines_my_workers'), '1');
    assert.ok((await ada.get('/tests/machines?q=')).text.includes('/workers/carol-'));
    assert.equal(ada.cookies.has('machines_my_workers'), false);
  });

  it('list 10,000 machines a page at a time', async () => {
    await using large = await FleetSite.open();
    const { world } = large.fleet.primary;
    const record = newRunRecord({ id: objectId(1), args: runArgs(), now: wallClock.now() });
    const tasks = Array.from({ length: 10_000 }, (_, at) => ({
      num_games: 200,
      active: true,
      last_updated: wallClock.now() - at,
      start: 200 * at,
      stats: stats([0, 0, 0, 0, 0]),
      worker_info: worker({ unique_key: uniqueKey(at), concurrency: 1 + (at % 64) }),
    }));
    const run = new Run(record, tasks);
    world.place(run);
    for (const task of run.tasks) world.admit(task);
    const visitor = new Visitor(large);
    const page = (await visitor.get('/tests/machines?sort=cores&order=desc&q=linux')).text;
    assert.ok(page.length < 100_000, `${page.length} bytes`);
    assert.ok(page.includes('1 to 100 of 10,000'), 'one page of all');
    const all = await visitor.get('/tests/machines?q=linux&view=all');
    assert.ok(all.text.includes('1 to 100 of 10,000'), 'all at once are not offered here');
    assert.equal(all.headers['cache-control'], 'no-cache, private');
    const next = '/tests/machines?sort=cores&amp;order=desc&amp;q=linux&amp;page=2';
    assert.ok(page.includes(next), 'the order and the filter are kept');
    const last = await visitor.get('/tests/machines?sort=cores&order=desc&q=linux&page=100');
    assert.ok(last.text.includes('9,901 to 10,000 of 10,000'));
    assert.match(last.text, /data-name="Cores"><span>1</);
  });

  it('block a worker with a message, which it is told, and let it work again', async () => {
    const name = 'tester-8cores-000000';
    const long = await ada.post(`/workers/${name}`, { message: 'x'.repeat(501), blocked: 'on' });
    assert.equal(long.status, 422);
    assert.ok(long.text.includes('id="message-error"') && long.text.includes('x'.repeat(501)));
    assert.equal(site.fleet.primary.world.blocked.has(name), false);
    const blocked = await ada.post(`/workers/${name}`, { message: 'Too slow', blocked: 'on' });
    const { text } = await ada.follow(blocked);
    assert.ok(text.includes(name) && text.includes('Too slow'));
    await site.fleet.users.change('tester', { email: 'tester@example.org' });
    assert.ok((await ada.get('/workers/show')).text.includes('mailto:tester@example.org?'));
    assert.equal((await stranger.get('/workers/show')).text.includes('mailto:'), false);
    const access = { password: 'secret', worker_info: info() };
    const refused = (await site.ask('request_task', access)).json;
    assert.match(refused.error, /Too slow/);
    for (let at = 10; at < 36; at += 1) {
      await site.fleet.primary.change((world) =>
        blockWorker(world, `many-1cores-${at}`, 'ada', ''),
      );
    }
    const page = (await ada.get('/workers/show?q=many')).text;
    assert.ok(page.includes('1 to 25 of 26') && page.includes('view=all'));
    assert.ok((await ada.get('/workers/show?q=many&view=all')).text.includes('1 to 26 of 26'));
    await ada.follow(await ada.post(`/workers/${name}`, { message: '' }));
    assert.equal(site.fleet.primary.world.blocked.has(name), false);
  });

  it('take nets whose name fits, and list them', async () => {
    const content = 'a net';
    const digest = createHash('sha256').update(content).digest('hex').slice(0, 12);
    const page = await ada.get('/upload');
    const token = /name="csrf_token" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const send = (filename: string, csrf: string) => {
      const part = (head: string, body: string) =>
        `--x\r\ncontent-disposition: ${head}\r\n\r\n${body}\r\n`;
      const body =
        part('form-data; name="csrf_token"', csrf) +
        part(`form-data; name="network"; filename="${filename}"`, content) +
        '--x--\r\n';
      const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const headers = {
        accept: 'text/html',
        cookie,
        'content-type': 'multipart/form-data; boundary=x',
      };
      return ask(`${site.fleet.server.url}/upload`, body, { headers });
    };
    assert.equal((await send(`nn-${digest}.nnue`, 'forged')).status, 403);
    const wrong = await send('nn-000000000000.nnue', token);
    assert.equal(wrong.status, 422);
    assert.ok(wrong.text.includes(`should be called nn-${digest}.nnue`));
    assert.equal((await send('net.bin', token)).status, 422);
    const right = await send(`nn-${digest}.nnue`, token);
    assert.deepEqual([right.status, right.headers.location], [302, '/nns']);
    const nets = (await stranger.get('/nns?network_name=NN-')).text;
    assert.ok(nets.includes(`nn-${digest}.nnue`));
    assert.ok((await stranger.get('/nns?network_name=zz')).text.includes('Show all'));
  });

  it('calculate sequential tests, and name what is wrong', async () => {
    const usual = (await stranger.get('/sprt_calc')).text;
    assert.ok(usual.includes('Chance to pass') && usual.includes('50.0 %'));
    const wrong = (await stranger.get('/sprt_calc?elo-0=1&elo-1=1.2&draw-ratio=2')).text;
    assert.ok(wrong.includes('id="elo-1-error"') && wrong.includes('id="draw-ratio-error"'));
    assert.ok((await stranger.get('/rate_limits')).text.includes('60 of 60 requests'));
  });
});
