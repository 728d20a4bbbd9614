import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { freePort } from 'spillway-fixtures/free-port';
import { askOperator } from 'spillway-http';
import { operations } from '../src/operations/operations.ts';
import { ServedFleet } from './fixtures/fleet-command.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

const stack = new AsyncDisposableStack();
let site: ServedFleet;
const token = 'a-token-that-is-long-enough';
const run = {
  ...{ new_tag: 'new', base_tag: 'base', tc: '10+0.1', book: 'b.epd', num_games: 2000 },
  ...{ resolved_new: 'a'.repeat(40), resolved_base: 'b'.repeat(40) },
  ...{ new_signature: '123456', base_signature: '654321' },
};
const book = { total: 3, white: 2, black: 1, min_depth: null, max_depth: null };
const books = { 'b.epd': { ...book, sri: 'A'.repeat(64) } };

before(async () => {
  const data = await temporaryFolder(stack);
  site = stack.use(await ServedFleet.start(data));
  await site.ask('user-add', { username: 'ada', password: 'secret', approver: true });
  await site.ask('user-add', { username: 'bob', password: 'secret' });
  await site.ask('book-add', { books });
});
after(() => stack.disposeAsync());

const ask = async (name: string, input: unknown) => {
  const { status, value, error } = await site.ask(name, input);
  return status === 200 ? value : `${status} ${error?.code}: ${error?.message}`;
};

/** Status of the answer to a worker that asks for the version. */
async function version(username: string, password: string): Promise<number> {
  const response = await fetch(`${site.url}/api/request_version`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ password, worker_info: { username } }),
  });
  return response.status;
}

/** Entries of the log that a query finds, the newest first. */
async function logged(query: object): Promise<Record<string, string>[]> {
  const response = await fetch(`${site.url}/api/actions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(query),
  });
  return (await response.json()) as Record<string, string>[];
}

describe('the operator of a running server', () => {
  it('adds users that can be used at once', async () => {
    const { username, status, approver, machine_limit } = await ask('user-add', {
      ...{ username: 'carol', password: ' with blanks ', machines: '4' },
    });
    assert.deepEqual([username, status, approver, machine_limit], ['carol', 'active', false, 4]);
    assert.equal(await version('carol', ' with blanks '), 200);
    assert.equal(await version('carol', 'with blanks'), 401);
    assert.match(await ask('user-add', { username: 'carol', password: 'x' }), /^409 USER_EXISTS/);
  });

  it('lets users in and out, from one request to the next', async () => {
    await ask('user-add', { username: 'dave', password: 'one', pending: true });
    assert.equal(await version('dave', 'one'), 401);
    assert.equal((await ask('user-approve', { username: 'dave', by: 'ada' })).status, 'active');
    assert.equal(await version('dave', 'one'), 200);
    assert.equal((await ask('user-block', { username: 'dave' })).status, 'blocked');
    assert.equal(await version('dave', 'one'), 401);
    await ask('user-block', { username: 'dave', blocked: false });
    await ask('user-password', { username: 'dave', password: 'two' });
    assert.deepEqual([await version('dave', 'one'), await version('dave', 'two')], [401, 200]);
    assert.equal((await ask('user-limit', { username: 'dave', machines: 99 })).machine_limit, 99);
  });

  it('takes runs through their life', async () => {
    const { id, status } = await ask('run-add', { username: 'bob', run });
    assert.equal(status, 'pending');
    assert.equal((await ask('run-approve', { id, by: 'ada' })).status, 'waiting');
    const shown = await ask('run-show', { id });
    assert.deepEqual(
      [shown.approver, shown.args.username, shown.args.tc, shown.tasks.all],
      ['ada', 'bob', '10+0.1', 0],
    );
    assert.equal((await ask('run-pause', { id })).status, 'pending');
    const open = await ask('run-list', {});
    assert.ok(open.some((one: { id: string }) => one.id === id));
    assert.equal((await ask('run-stop', { id, message: 'enough' })).status, 'finished');
    const finished = await ask('run-list', { finished: true });
    assert.deepEqual(
      finished.map((one: { id: string }) => one.id),
      [id],
    );
    assert.match(await ask('run-purge', { id }), /^400 REQUEST_REFUSED: Not purged/);
    const ended =
      /^400 REQUEST_REFUSED: id: must be a run that goes on, and [0-9a-f]{24} has ended$/;
    assert.match(await ask('run-stop', { id }), ended);
    assert.match(await ask('run-pause', { id }), ended);
    // A page that was open all the time still has its button.
    assert.match(await ask('run-approve', { id }), ended);
  });

  it('gives workers what was approved, and not what was not', async () => {
    const { id } = await ask('run-add', { username: 'bob', run, approve: true });
    const active = await fetch(`${site.url}/api/active_runs`).then((one) => one.json());
    assert.equal((active as Record<string, { approved: boolean }>)[id]?.approved, true);
    await ask('run-stop', { id });
  });

  it('modifies and deletes runs, and each change is in the log with its approver', async () => {
    const { id } = await ask('run-add', { username: 'bob', run, by: 'ada' });
    const changed = await ask('run-modify', { id, priority: '3', info: 'Look.', by: 'ada' });
    assert.deepEqual([changed.priority, changed.games, changed.changed], [3, '0/2000', true]);
    for (const given of [{}, { priority: 3 }]) {
      const same = await ask('run-modify', { id, ...given, by: 'ada' });
      assert.equal(same.changed, false, 'and nothing is logged');
    }
    const { args } = await ask('run-show', { id });
    assert.deepEqual([args.info, args.num_games, args.throughput], ['Look.', 2000, 100]);
    assert.match(
      await ask('run-modify', { id, num_games: 3000 }),
      /^400 REQUEST_REFUSED: A fixed number of games cannot be increased/,
    );
    assert.match(await ask('run-modify', { id, priority: 101 }), /priority: must be an integer/);
    await ask('run-stop', { id, by: 'ada' });
    const stopped = await ask('run-modify', { id, by: 'ada' });
    assert.deepEqual([stopped.changed, stopped.status], [false, 'finished'], 'nothing was given');
    assert.equal((await ask('run-delete', { id, by: 'ada' })).status, 'finished');
    assert.deepEqual(
      (await ask('run-list', { finished: true })).filter((one: { id: string }) => one.id === id),
      [],
    );
    assert.deepEqual(
      (await logged({ run_id: id })).map(({ action, username }) => [action, username]),
      [
        ['delete_run', 'ada'],
        ['stop_run', 'ada'],
        ['modify_run', 'ada'],
        ['new_run', 'bob'],
      ],
    );
  });

  it('blocks workers and lets them work again', async () => {
    const name = 'bob-4cores-1a2b3c4d';
    const message = 'Its clock is wrong.';
    assert.match(
      await ask('worker-block', { name, blocked: false }),
      /^404 RECORD_UNKNOWN: no wor/,
    );
    assert.match(await ask('worker-block', { name: 'bob' }), /name: must be the short name/);
    await ask('worker-block', { name, message, by: 'ada' });
    const [blocked, ...others] = await ask('worker-list', {});
    assert.deepEqual([blocked.name, blocked.message, others], [name, message, []]);
    await ask('worker-block', { name, blocked: false });
    assert.deepEqual(await ask('worker-list', {}), []);
    assert.deepEqual(
      (await logged({ worker: name })).map(({ message: text, username }) => [text, username]),
      [
        ['unblocked', 'fishtest.system'],
        ['blocked', 'ada'],
      ],
    );
  });

  it('leaves a trace of every change of an account', async () => {
    const username = 'grace';
    await ask('user-add', { username, password: 'one', pending: true, by: 'ada' });
    await ask('user-approve', { username, by: 'ada' });
    await ask('user-limit', { username, machines: 7, by: 'ada' });
    await ask('user-password', { username, password: 'two', by: 'ada' });
    await ask('user-block', { username, by: 'ada' });
    const nothing = await ask('user-change', { username, by: 'ada' });
    assert.match(nothing, /^400 REQUEST_REFUSED: nothing to change: give --email or --tests-repo/);
    const entries = await logged({ user: username });
    assert.deepEqual(entries.map(({ action, message }) => `${action}: ${message}`).reverse(), [
      'new_user: added',
      'accept_user: accepted',
      'modify_user: machine limit changed to 7',
      'modify_user: password changed',
      'block_user: blocked',
    ]);
    assert.ok(entries.every((entry) => entry.username === 'ada'));
    const books = await logged({ action: 'new_book' });
    assert.deepEqual([books[0]?.message, books[0]?.username], ['added b.epd', 'fishtest.system']);
  });

  const refused: readonly (readonly [string, object, RegExp])[] = [
    ['user-add', { username: 'x', password: 'y' }, /^422 INPUT_INVALID: username: must be 2 to 64/],
    ['user-add', { username: 'eve' }, /^422 INPUT_INVALID: password: must be a password of 1/],
    ['user-add', { username: 'eve', password: 'y'.repeat(73) }, /password: must be/],
    [
      'user-add',
      { username: 'eve', passwort: 'y' },
      /passwort: is not known; did you mean password/,
    ],
    ['user-add', { username: 'eve', password: 'y', email: 'no' }, /email: must be/],
    ['user-limit', { username: 'ada', machines: -1 }, /machines: must be an integer from 0/],
    ['user-limit', { username: 'nobody', machines: 1 }, /^404 RECORD_UNKNOWN: there is no user/],
    ['user-password', { username: 'nobody', password: 'x' }, /^404 RECORD_UNKNOWN/],
    ['user-approve', { username: 'ada', by: 'bob' }, /by: must be an approver, and bob is not one/],
    ['run-add', { username: 'nobody', run }, /username: must be a user, and nobody is none/],
    ['run-add', { username: 'bob' }, /^422 INPUT_INVALID: input: must be an object/],
    ['run-add', { username: 'bob', run: { ...run, tc: 'x' } }, /^422 INPUT_INVALID: tc: must be/],
    [
      'run-add',
      { username: 'bob', run: { ...run, new_nets: ['nn-000000000000.nnue'] } },
      /new_nets: must be different names/,
    ],
    ['run-approve', { id: 'x' }, /^422 INPUT_INVALID: id: must be the 24/],
    ['run-stop', { id: '0'.repeat(24) }, /^404 RECORD_UNKNOWN: there is no run 0000/],
    ['run-list', { limit: 5000 }, /limit: must be an integer from 1 to 1000/],
    ['book-add', { books: { 'x.txt': {} } }, /^400 REQUEST_REFUSED: x\.txt/],
    ['run-stopp', {}, /^404 NOT_FOUND: there is no operation run-stopp; did you mean run-stop\?/],
  ];
  for (const [name, input, words] of refused) {
    it(`is told what is wrong with ${name} ${JSON.stringify(input).slice(0, 60)}`, async () => {
      assert.match(await ask(name, input), words);
    });
  }

  it('does not approve a run as the one who submitted it', async () => {
    const { id } = await ask('run-add', { username: 'ada', run });
    assert.match(await ask('run-approve', { id, by: 'ada' }), /nobody approves their own run/);
    assert.equal((await ask('run-show', { id })).approved, false);
  });

  it('is nobody who comes by the public port, with or without the token', async () => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    for (const name of operations.keys()) {
      const sent = { method: 'POST', headers, body: '{}' };
      const response = await fetch(`${site.url}/-/fleet/${name}`, sent);
      assert.equal(response.status, 404, name);
    }
  });

  it('may use a second port with the token', async () => {
    const port = await freePort();
    const words = ['--operator-port', String(port), '--operator-token', token];
    await using other = await ServedFleet.start(await temporaryFolder(stack), words);
    const ask = async (url: string, sent: string) => {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${sent}` };
      return (await fetch(`${url}/-/fleet/user-list`, { method: 'POST', headers, body: '{}' }))
        .status;
    };
    const url = `http://127.0.0.1:${port}`;
    assert.equal(await ask(url, token), 200);
    assert.equal(await ask(url, `${token}x`), 403);
    assert.equal(await ask(other.url, token), 404);
  });

  it('sees the settings, but neither the address of the database nor tokens', async () => {
    const { text } = await askOperator({ socket: site.socket, path: '/-/config' });
    const { host, database, databaseConnections, githubToken } = JSON.parse(text);
    assert.deepEqual([host, database, databaseConnections], ['127.0.0.1', '(set)', 10]);
    assert.equal(githubToken, null);
  });

  it('sends JSON, and changes things by POST only', async () => {
    const path = '/-/fleet/user-list';
    assert.equal((await askOperator({ socket: site.socket, path })).status, 404);
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const sent = request({
      socketPath: site.socket,
      path,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    sent.on('response', (answer) => resolve(answer.resume().statusCode)).end('{');
    assert.equal(await promise, 400);
  });
});
