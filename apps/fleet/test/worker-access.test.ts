// Slow: hashes many passwords.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { hashPassword, impossibleHash, matchesPassword } from '../src/users/password.ts';
import { type Answer, FleetSite, info, until } from './fixtures/fleet-site.ts';

const endpoints = [
  ...['request_version', 'request_task', 'update_task', 'beat', 'request_spsa'],
  ...['failed_task', 'stop_run', 'upload_pgn', 'worker_log'],
];

function assertRefused({ status, json }: Answer, wanted: number, error: string | RegExp): void {
  assert.equal(status, wanted, JSON.stringify(json));
  assert.deepEqual(Object.keys(json), ['error', 'duration']);
  assert.equal(typeof json.duration, 'number');
  if (typeof error === 'string') assert.equal(json.error, error);
  else assert.match(json.error, error);
}

describe('the worker API, at its door', () => {
  let site: FleetSite;
  const access = { password: 'secret', worker_info: info() };

  before(async () => {
    site = await FleetSite.open();
    const { users } = site.fleet;
    await users.add({ username: 'blocked', password: 'secret', pending: false });
    await users.change('blocked', { blocked: true });
    await users.add({ username: 'pending', password: 'secret' });
  });

  after(() => site[Symbol.asyncDispose]());

  it('tells its version to who has the right password, whatever else they send', async () => {
    const recorded = { worker_info: { username: 'tester' }, password: 'secret' };
    for (const body of [recorded, access, { ...access, more: { x: [] } }]) {
      const { status, json, headers } = await site.ask('request_version', body);
      assert.equal(status, 200);
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      assert.deepEqual(Object.keys(json), ['version', 'duration']);
      assert.equal(json.version, 325);
      assert.ok(json.duration > 0 && json.duration < 60);
    }
  });

  it('takes a body for JSON whatever type it claims to be of', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'who/knows']) {
      const headers = { 'content-type': type };
      assert.equal((await site.ask('request_version', access, { headers })).status, 200, type);
    }
    assert.equal((await site.ask('request_version', access, { headers: {} })).status, 200);
  });

  for (const name of endpoints) {
    it(`${name}: refuses what is no JSON, no object, or lacks name or password`, async () => {
      const path = `/api/${name}`;
      const notJson = `${path}: request is not json encoded`;
      assertRefused(await site.ask(name, '{'), 400, notJson);
      assertRefused(await site.ask(name, ''), 400, notJson);
      assertRefused(await site.ask(name, '[]'), 400, /request \(value:\[\]\) is not a dict$/);
      assertRefused(await site.ask(name, '"x"'), 400, /request .* is not a dict$/);
      assertRefused(await site.ask(name, 'null'), 400, /request .* is not a dict$/);
      const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
      assertRefused(await site.ask(name, deep), 400, /is not a dict$/);
      assertRefused(await site.ask(name, '{}'), 400, `${path}: request['password'] is missing`);
      const nobody = { password: 'secret', worker_info: {} };
      assertRefused(await site.ask(name, nobody), 400, /\['username'\] is missing$/);
      assertRefused(await site.ask(name, { ...access, password: 1 }), 400, /password.* a string/);
    });

    it(`${name}: refuses a wrong password, and users that are blocked or pending`, async () => {
      const as = (username: string, password = 'secret') =>
        site.ask(name, { password, worker_info: { ...info(), username } });
      assertRefused(await as('tester', 'x'), 401, `/api/${name}: Invalid username or password.`);
      assertRefused(await as('blocked'), 401, `/api/${name}: Your account is blocked.`);
      assertRefused(await as('pending'), 401, `/api/${name}: Your account is pending approval.`);
    });

    it(`${name}: takes no other method`, async () => {
      for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const body = method === 'GET' || method === 'HEAD' ? '' : '{';
        const answer = await site.ask(name, body, { method });
        assert.equal(answer.status, 405, method);
        assert.equal(answer.headers.allow, 'POST');
        if (method !== 'HEAD') assert.equal(answer.text, '{"detail":"Method Not Allowed"}');
      }
    });
  }

  it('tells nobody whether the name or the password is wrong', async () => {
    const wrong = '/api/beat: Invalid username or password.';
    const as = (username: string, password = 'secret') =>
      site.ask('beat', { password, worker_info: { ...info(), username } });
    for (const name of ['nobody', 'Tester', 'a\0b']) assertRefused(await as(name), 401, wrong);
    assertRefused(await as('blocked', 'x'), 401, wrong);
    assertRefused(await as('tester', 'x'.repeat(10_000)), 401, wrong);
  });

  it('looks at the password before it looks at the rest', async () => {
    const broken = { password: 'wrong', worker_info: { username: 'tester', nps: 'x' } };
    assertRefused(await site.ask('beat', broken), 401, /Invalid username or password\.$/);
    assertRefused(await site.ask('beat', { ...broken, password: 'secret' }), 400, /worker_info/);
  });

  it('refuses a body that is too long, before it is read', async () => {
    const answer = await site.ask('beat', ' '.repeat(2 ** 18 + 1));
    assertRefused(answer, 413, '/api/beat: the body may have 262144 bytes at most');
    const headers = { 'content-length': String(300 * 2 ** 20) };
    const { hostname, port } = new URL(site.fleet.server.url);
    const socket = connect(Number(port), hostname);
    socket.write(`POST /api/upload_pgn HTTP/1.1\r\nhost: x\r\ncontent-length: `);
    socket.write(`${headers['content-length']}\r\n\r\n{`);
    const [said] = await once(socket, 'data');
    assert.match(String(said), /^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it('hashes a password once, and each new one anew', async () => {
    const { users } = site.fleet;
    await users.add({ username: 'changing', password: 'first', pending: false });
    const as = async (password: string) => {
      const worker_info = { username: 'changing' };
      return (await site.ask('request_version', { password, worker_info })).status;
    };
    const { hashed } = users.stats.passwords;
    const all = await Promise.all(Array.from({ length: 20 }, () => as('first')));
    assert.deepEqual(new Set(all), new Set([200]));
    assert.equal(users.stats.passwords.hashed - hashed, 1);
    assert.equal((await users.setPassword('changing', 'second'))?.username, 'changing');
    assert.equal(await as('first'), 401);
    assert.equal(await as('second'), 200);
    await users.change('changing', { blocked: true });
    assert.equal(await as('second'), 401);
    assert.equal(await users.setPassword('nobody', 'x'), undefined);
    assert.equal(await users.change('nobody', { blocked: true }), undefined);
    await assert.rejects(users.add({ username: 'changing', password: 'x' }), {
      code: 'USER_EXISTS',
    });
  });

  it('checks on when nobody waits any more, and knows the answer then', async () => {
    const { users } = site.fleet;
    await users.add({ username: 'impatient', password: 'right', pending: false });
    const { hashed } = users.stats.passwords;
    const leaver = new AbortController();
    const access = { username: 'impatient', password: 'right' };
    const left = assert.rejects(users.admit(access, leaver), { name: 'AbortError' });
    await until(() => users.stats.passwords.lane.inside > 0);
    leaver.abort();
    await left;
    assert.equal((await users.admit(access)).username, 'impatient');
    assert.equal(users.stats.passwords.hashed - hashed, 1);
  });

  it('lets who tries many passwords keep nobody else out, and says busy in words', async () => {
    const { users } = site.fleet;
    await users.find('tester');
    await users.add({ username: 'owner', password: 'their own', pending: false });
    const tries = (username: string, count: number) =>
      Array.from({ length: count }, (_, at) =>
        users.admit({ username, password: `try ${at}`, address: '127.0.0.1' }),
      );
    // These keep the threads busy while the rest is asked.
    const strangers = Promise.allSettled(tries('stranger', 20));
    const told = Promise.allSettled(tries('tester', 10));
    await until(() => users.stats.passwords.lane.waiting >= 20);
    const body = { password: 'one more', worker_info: info() };
    const [task, beat] = await Promise.all([
      site.ask('request_task', body),
      site.ask('beat', { ...body, password: 'another' }),
    ]);
    assert.equal(task.status, 200);
    assert.deepEqual(Object.keys(task.json), ['task_waiting', 'info', 'duration']);
    assert.match(task.json.info, /too busy/);
    assert.deepEqual([beat.status, beat.text], [503, ''], 'a bad line, to a worker');
    assert.equal((await site.ask('request_version', access)).status, 200, 'who is known comes in');
    const owner = { username: 'owner', password: 'their own' };
    const guesses = Array.from({ length: 12 }, (_, at) =>
      users.admit({ username: 'owner', password: `guess ${at}`, address: '10.0.0.66' }),
    );
    const guessed = Promise.allSettled(guesses);
    const came = await users.admit({ ...owner, address: '10.0.0.1' });
    assert.equal(came.username, 'owner', 'wrong passwords do not keep the owner out');
    await guessed;
    const codes = (await told).map((one) => one.status === 'rejected' && one.reason.code);
    assert.equal(codes.filter((code) => code === 'ACCESS_REFUSED').length, 4);
    assert.equal(codes.filter((code) => code === 'GATE_FULL').length, 6);
    await strangers;
  });

  it('does as much work for a name that nobody has as for a wrong password', async () => {
    const { passwords } = site.fleet.users.stats;
    const worker_info = { username: 'whoever' };
    for (let again = 0; again < 3; again += 1) {
      await site.ask('request_version', { password: 'y', worker_info });
      await site.ask('request_version', { password: 'y', worker_info: { username: 'tester' } });
    }
    // A worker that is set up wrongly asks again and again, and costs one hash.
    assert.equal(site.fleet.users.stats.passwords.hashed - passwords.hashed, 2);
    const costOf = (hash: string) => hash.split('$').slice(0, 4);
    assert.deepEqual(costOf(impossibleHash), costOf(await hashPassword('x')));
    assert.equal(await matchesPassword('', impossibleHash), false);
    assert.equal(await matchesPassword('x', 'x'), false);
  });
});
