import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';
import type { FleetSchema } from '../src/storage/fleet-schema.ts';
import { importFishtest } from '../src/transfer/import-fishtest.ts';
import { actionDocument, runDocument, writeDump } from './fixtures/fishtest-dump.ts';
import { fleet, ServedFleet } from './fixtures/fleet-command.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

const size = { runs: 7, tasks: 5, actions: 100, users: 4 };
const lines = (...documents: readonly object[]) =>
  documents.map((one) => `${JSON.stringify(one)}\n`).join('');

describe('fleet import --fishtest', () => {
  it('takes all that a fishtest server had, and is played on from there', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const dump = join(data, 'dump');
    await writeDump(dump, size);
    await appendFile(join(dump, 'runs.json'), lines(runDocument(7, 5, true)));
    const done = await fleet(['import', '--fishtest', dump], { data });
    assert.equal(done.code, 0, done.stderr);
    assert.equal(
      done.stdout,
      [
        'users: 4 read, 4 taken, 0 here already, 0 refused',
        'nns: 3 read, 3 taken, 0 here already, 0 refused',
        'workers: 2 read, 1 taken, 0 here already, 1 refused',
        '  refused 1: it is not blocked, and only blocked ones are kept; ' +
          'line 2 (666666650000000000000001)',
        'actions: 100 read, 100 taken, 0 here already, 0 refused',
        'runs: 8 read, 8 taken, 0 here already, 0 refused\n',
      ].join('\n'),
    );
    await using server = await ServedFleet.start(data);
    // biome-ignore lint/suspicious/noExplicitAny: an answer may be anything.
    const get = async (path: string): Promise<any> => (await fetch(`${server.url}${path}`)).json();
    const finished = await get('/api/get_run/666666620000000000000003');
    assert.equal(finished.start_time, '2026-01-01 00:00:00+00:00');
    assert.equal(finished.results.wins, 10);
    assert.deepEqual(finished.results.pentanomial, [0, 5, 5, 0, 5]);
    const active = Object.values(await get('/api/active_runs')) as { _id: string }[];
    assert.deepEqual(
      active.map(({ _id }) => _id),
      ['666666620000000000000007'],
    );
    const task = await get('/api/get_task/666666620000000000000007/0');
    assert.deepEqual([task.active, task.worker_info.username], [true, 'user0']);
    const { value: users } = await server.ask('user-list', {});
    assert.deepEqual(
      users.map((one: { username: string; status: string; approver: boolean }) => [
        one.username,
        one.status,
        one.approver,
      ]),
      [
        ['old-name', 'active', false],
        ['user0', 'active', true],
        ['user2', 'blocked', false],
        ['user3', 'active', false],
      ],
    );
    const again = await fleet(['import', '--fishtest', dump], { data });
    assert.equal(again.code, 1);
    assert.match(again.stderr, /a server has it open; stop that first/);
  });

  it('takes nothing twice, and what has changed since', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const dump = join(data, 'dump');
    await writeDump(dump, size);
    const words = ['import', '--fishtest', dump, '--json'];
    await fleet(words, { data });
    const before = contentOf(data);
    const twice = JSON.parse((await fleet(words, { data })).stdout);
    assert.deepEqual(
      twice.map((one: { taken: number; kept: number }) => [one.taken, one.kept]),
      [
        [0, 4],
        [0, 3],
        [0, 1],
        [0, 100],
        [0, 7],
      ],
    );
    assert.deepEqual(contentOf(data), before);
    const older = { ...runDocument(0, 2), last_updated: { $date: '2025-01-01T00:00:00Z' } };
    const newer = { ...runDocument(1, 2), last_updated: { $date: '2027-01-01T00:00:00Z' } };
    const twiceIn = actionDocument(100, 7);
    await writeFile(join(dump, 'runs.json'), lines(older, newer, newer));
    await writeFile(join(dump, 'actions.json'), lines(twiceIn, twiceIn));
    const [, , , actions, runs] = JSON.parse((await fleet(words, { data })).stdout);
    assert.deepEqual([runs.taken, runs.kept], [1, 2]);
    assert.deepEqual([actions.taken, actions.kept], [1, 1]);
    const { runs: runCount, tasks, actions: actionCount } = contentOf(data);
    assert.deepEqual([runCount, tasks, actionCount], [7, 32, 101]);
  });

  it('says what it could not take, why, and where the first of them is', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const good = runDocument(0, 1) as { args: object; tasks: object[] };
    const bad = [
      { ...good, args: { ...good.args, tc: 'soon' } },
      { ...good, args: { ...good.args, tc: 'later' } },
      { ...good, finished: undefined },
      { ...good, tasks: [{ ...good.tasks[0], stats: { wins: 1, losses: 0, draws: 0 } }] },
      [good],
    ];
    await writeFile(
      join(data, 'runs.json'),
      `${lines(...bad)}{"_id": \n\n${lines({ ...good, mood: 'high' })}`,
    );
    const done = await fleet(['import', '--fishtest', data], { data });
    const id = '(666666620000000000000000)';
    assert.equal(
      done.stdout,
      [
        'runs: 7 read, 1 taken, 0 here already, 6 refused',
        `  refused 2: args.tc is not a time control; line 1 ${id}, line 2 ${id}`,
        `  refused 1: finished is missing; line 3 ${id}`,
        `  refused 1: tasks.stats.pentanomial is missing; line 4 ${id}`,
        '  refused 1: it is a list of documents: export without --jsonArray, ' +
          'one document a line; line 5',
        '  refused 1: the line is not JSON; line 6',
        '  left out of 1: mood\n',
      ].join('\n'),
    );
    const both = await fleet(['import', 'file', '--fishtest', data], { data });
    assert.equal(both.code, 2);
    const json = await fleet(['import', 'file', '--json'], { data });
    assert.deepEqual([json.code, /--json: goes with --fishtest only/.test(json.stderr)], [2, true]);
  });

  it('refuses times that no page could show', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const good = runDocument(0, 1) as { tasks: object[] };
    const tasks = [{ ...good.tasks[0], last_updated: -1 }];
    await writeFile(join(data, 'actions.json'), lines({ ...actionDocument(1, 1), time: 1e300 }));
    await writeFile(
      join(data, 'runs.json'),
      lines({ ...good, start_time: { $numberLong: '9000000000000000' } }, { ...good, tasks }),
    );
    const { stdout } = await fleet(['import', '--fishtest', data], { data });
    for (const field of ['time', 'start_time', 'tasks.last_updated']) {
      assert.match(stdout, new RegExp(`refused 1: ${field} is not a time; line`));
    }
  });

  it('fails where there is nothing to take, and makes no database for it', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const data = join(folder, 'data');
    const empty = join(folder, 'empty');
    await mkdir(empty);
    const dump = join(folder, 'dump');
    await mkdir(dump);
    await writeFile(join(dump, 'runs.json'), `${JSON.stringify([runDocument(0, 1)])}\n`);
    const cases = [
      [join(folder, 'nowhere'), /nowhere: there is no such folder/],
      [empty, /empty: has none of users\.json, nns\.json/],
      [join(dump, 'runs.json'), /runs\.json: is a file; name the folder that it is in/],
      [dump, /dump: nothing was taken; the reasons are listed above/],
    ] as const;
    for (const [from, message] of cases) {
      const { code, stderr } = await fleet(['import', '--fishtest', from], { data });
      assert.match(stderr, message);
      assert.equal(code, 1);
    }
    const told = await fleet(['import', '--fishtest', dump], { data });
    assert.match(told.stdout, /refused 1: it is a list of documents: export without --jsonArray/);
    assert.equal(existsSync(data), false);
  });

  it('reads into Postgres as well', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const database = await postgresUrl(stack);
    await writeDump(folder, size);
    for (const taken of [7, 0]) {
      const done = await importFishtest({ database, folder, onProgress: () => {} });
      assert.equal(done.at(-1)?.taken, taken);
    }
    await using opened = await Database.open<FleetSchema>({ url: database });
    const tasks = await opened.kysely.selectFrom('tasks').selectAll().execute();
    assert.equal(tasks.length, 35);
    const names = await opened.kysely.selectFrom('documents').selectAll().execute();
    assert.deepEqual(names, [{ name: 'legacy_usernames', value: '["old-name"]' }]);
  });
});

/** Number of rows by table. */
function contentOf(data: string): Record<string, number> {
  using file = new DatabaseSync(join(data, 'fleet.db'));
  const tables = ['users', 'nns', 'blocked_workers', 'actions', 'runs', 'tasks', 'documents'];
  return Object.fromEntries(
    tables.map((table) => [
      table,
      Number(file.prepare(`select count(*) as count from ${table}`).get()?.count),
    ]),
  );
}

describe('the guide from fishtest', () => {
  const path = join(import.meta.dirname, '..', '..', '..', 'docs', 'guides', 'from-fishtest.md');
  const guide = readFileSync(path, 'utf8');
  const blocks = [...guide.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, text = '']) => text);
  const commands = blocks.flatMap((text) => text.trim().split('\n'));

  it('has commands that do what it says', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    await writeDump(join(data, 'dump'), size);
    const told = new Map<string, string>();
    for (const command of commands.filter((one) => one !== 'npx fleet serve')) {
      const words = command.replace('<you>', 'user0').replace('<somebody>', 'user3').split(' ');
      assert.deepEqual(words.slice(0, 2), ['npx', 'fleet']);
      const inDump = words.slice(2).map((word) => (word === 'dump' ? join(data, word) : word));
      const { code, stdout, stderr } = await fleet(inDump, { data });
      assert.equal(code, 0, `${command}: ${stderr}`);
      told.set(command, stdout);
    }
    await using server = await ServedFleet.start(data);
    const { link } = JSON.parse([...told.values()].at(-1) ?? '');
    const page = await fetch(`${server.url}${link}`, { headers: { accept: 'text/html' } });
    assert.equal(page.status, 200);
    assert.match(await page.text(), /A password for user3/);
    const password = /\S+$/.exec(told.get(commands[1] ?? '')?.trim() ?? '')?.[0];
    const access = { password, worker_info: { username: 'user0' } };
    const version = await fetch(`${server.url}/api/request_version`, {
      method: 'POST',
      body: JSON.stringify(access),
    });
    assert.equal(version.status, 200, 'the account works');
  });

  it('reads the collections that it exports', () => {
    const exported = [...guide.matchAll(/--collection (\w+) +--out dump\/(\w+)\.json/g)];
    assert.deepEqual(
      exported.map(([, name, file]) => [name, file]),
      ['runs', 'users', 'actions', 'nns', 'workers'].map((name) => [name, name]),
    );
  });
});
