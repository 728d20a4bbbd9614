import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { stopByUser } from '../src/world/manage.ts';
import { ask, FleetSite, temporaryFolder } from './fixtures/fleet-site.ts';

describe('reading, with Postgres', () => {
  const stack = new AsyncDisposableStack();
  let site: FleetSite;
  let folder: string;
  let run: string;

  const get = (path: string) =>
    ask(`${site.fleet.server.url}${path}`, '', { method: 'GET', headers: {} });

  before(async () => {
    folder = await temporaryFolder(stack);
    const database = await postgresUrl(stack);
    site = stack.use(await FleetSite.open({ database, folder }));
    run = await site.run({ username: 'tester' });
  });

  after(() => stack.disposeAsync());

  it('keeps games, replaces them and forgets them', async () => {
    const task = await site.task();
    const pgn = gzipSync('1. e4 *').toString('base64');
    for (let time = 0; time < 2; time += 1) {
      assert.equal((await site.ask('upload_pgn', { ...task, message: '', pgn })).status, 200);
    }
    assert.equal((await get(`/api/pgn/${run}-0.pgn`)).status, 200);
    assert.equal((await get(`/api/run_pgns/${run}.pgn.gz`)).status, 200);
    assert.deepEqual(await site.fleet.files.pgns.prune(), []);
    await site.fleet.files.pgns.remove(run);
    assert.equal((await get(`/api/pgn/${run}-0.pgn`)).status, 404);
  });

  it('counts nets and lists books', async () => {
    const { nets, books } = site.fleet.files;
    const path = join(folder, 'a.epd');
    await writeFile(path, 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1\n');
    for (let time = 0; time < 2; time += 1) {
      const { name } = await nets.add(path, 'tester');
      assert.equal((await get(`/api/nn/${name}`)).status, 302);
      await nets.noteTest(name, { id: run, date: 5 });
      assert.equal((await books.add(path)).total, 1);
    }
    const [net] = await nets.list();
    assert.deepEqual([net?.downloads, net?.first_date, net?.last_id], [2, 5, run]);
    await books.reload();
    assert.equal(books.books.size, 1);
  });

  it('finds finished runs and entries of the log', async () => {
    await site.fleet.primary.change((fleet) => {
      return stopByUser(
        fleet,
        fleet.run(run) as NonNullable<ReturnType<typeof fleet.run>>,
        'tester',
        '',
      );
    });
    const { json } = await get('/api/finished_runs?page=1&username=tester&timestamp=1000000000.5');
    assert.deepEqual(Object.keys(json), [run]);
    const query = {
      run_id: run,
      time: { $gt: 1.5 },
      worker: { $exists: false },
      task_id: { $ne: 1 },
      $or: [{ action: { $in: ['new_run', 'stop_run'] } }, { nn: { $not: { $eq: null } } }],
      $nor: [{ message: 'nothing' }],
      unknown: null,
    };
    const found = (await site.ask('actions', query)).json;
    assert.deepEqual(
      found.map(({ action }: { action: string }) => action),
      ['stop_run', 'new_run'],
    );
    const expression = { action: { $regex: '^(new|stop)_' }, run_id: run };
    assert.equal((await site.ask('actions', expression)).json.length, 2);
    const { contributors } = site.fleet;
    await contributors.count();
    await contributors.count();
    const [submitter] = await contributors.list('contributors');
    assert.deepEqual([submitter?.username, submitter?.tests, submitter?.games], ['tester', 1, 0]);
    assert.equal((await contributors.list('top_month')).length, 1);
    for (const odd of [{ task_id: 1.5 }, { run: 'a\0b' }, { run: '\ud800' }]) {
      assert.deepEqual((await site.ask('actions', odd)).json, []);
    }
    assert.equal((await get('/api/finished_runs?page=1&username=a%00b')).status, 400);
    assert.equal((await get('/api/finished_runs?page=1000000')).status, 200);
  });
});
