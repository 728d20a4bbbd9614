// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { dateText } from '../src/read/answers.ts';
import { taskAnswer } from '../src/read/stored-runs.ts';
import { newSprt } from '../src/statistics/sprt.ts';
import { newSpsa } from '../src/statistics/spsa.ts';
import { worker } from './fixtures/fleet-scene.ts';
import { type Answer, ask, FleetSite, type TaskBody } from './fixtures/fleet-site.ts';

const nobody = '0'.repeat(24);
const stats = {
  wins: 1,
  losses: 2,
  draws: 5,
  crashes: 0,
  time_losses: 0,
  pentanomial: [0, 1, 3, 0, 0],
};
const date = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?\+00:00$/;

describe('the read API', () => {
  let site: FleetSite;
  let fixed: string;
  let sprt: string;
  let spsa: string;
  let body: TaskBody;

  const get = (path: string, method = 'GET') =>
    ask(`${site.fleet.server.url}/api/${path}`, '', { method, headers: {} });
  const actions = (query: unknown) => site.ask('actions', query);
  const assertFailed = ({ status, json }: Answer, wanted: number, path: string) => {
    assert.equal(status, wanted, JSON.stringify(json));
    assert.deepEqual(Object.keys(json), ['error', 'duration']);
    assert.ok(json.error.startsWith(`/api/${path}: `), json.error);
    assert.ok(json.duration > 0 && json.duration < 60, `${json.duration}`);
  };

  before(async () => {
    site = await FleetSite.open();
    fixed = await site.run();
    body = await site.task();
    await site.ask('update_task', { ...body, stats });
    const { world: fleet } = site.fleet.primary;
    const options = { elo0: 0, elo1: 2, elo_model: 'normalized', batch_size: 2 } as const;
    sprt = await site.run({ sprt: newSprt(options) });
    const rawParams = 'a,1,0,2,0.5,0.02';
    const tuning = newSpsa({ rawParams, numGames: 1000 });
    spsa = await site.run({ spsa: { ...tuning, param_history: [[{ theta: 1, R: 1, c: 1 }]] } });
    assert.equal(fleet.unfinished.size, 3);
  });

  after(() => site[Symbol.asyncDispose]());

  it('lists active runs by id, without tasks and histories, with dates as texts', async () => {
    const { status, json, headers } = await get('active_runs');
    assert.equal(status, 200);
    assert.match(headers['content-type'] ?? '', /^application\/json/);
    assert.deepEqual(new Set(Object.keys(json)), new Set([fixed, sprt, spsa]));
    for (const id of [fixed, sprt, spsa]) {
      assert.equal(json[id]._id, id);
      assert.match(json[id].start_time, date);
      assert.match(json[id].last_updated, date);
      assert.equal('tasks' in json[id] || 'bad_tasks' in json[id], false);
    }
    assert.equal('param_history' in json[spsa].args.spsa, false);
    assert.equal(json[spsa].args.spsa.params[0].name, 'a');
    assert.deepEqual(json[fixed].results, stats);
  });

  it('shows a run with empty lists where it has long ones, to any site', async () => {
    const { json, headers } = await get(`get_run/${spsa.toUpperCase()}`);
    assert.deepEqual([json.tasks, json.bad_tasks, json.args.spsa.param_history], [[], [], []]);
    assert.equal(headers['access-control-allow-origin'], '*');
    assert.equal(headers['access-control-allow-headers'], 'content-type');
    const plain = (await get(`get_run/${fixed}`)).json;
    assert.deepEqual([plain._id, plain.workers, plain.version], [fixed, 1, 24]);
    assert.equal('spsa' in plain.args, false);
    for (const id of [nobody, 'x', `${fixed}0`]) {
      assertFailed(await get(`get_run/${id}`), 404, `get_run/${id}`);
    }
  });

  it('shows a task without what tells who its worker is', async () => {
    const { json } = await get(`get_task/${fixed}/${body.task_id}`);
    assert.equal(json.worker_info.unique_key, `${body.worker_info.unique_key.slice(0, 8)}...`);
    assert.equal(json.worker_info.remote_addr, '?.?.?.?');
    assert.match(json.last_updated, date);
    assert.deepEqual(json.stats, stats);
    for (const task of ['1', '0bad', '-1', 'x', '1e1', '00']) {
      const path = `get_task/${fixed}/${task}`;
      assertFailed(await get(path), 404, path);
    }
    assertFailed(await get(`get_task/${nobody}/0`), 404, `get_task/${nobody}/0`);
  });

  it('tells the strength of a sequential test, and nothing of other runs', async () => {
    assert.deepEqual((await get(`get_elo/${fixed}`)).json, {});
    const { json } = await get(`get_elo/${sprt}`);
    assert.deepEqual(Object.keys(json.elo), ['a', 'b', 'elo', 'ci', 'LOS', 'LLR']);
    assert.equal(json.args.sprt.elo_model, 'normalized');
    assert.deepEqual(json.tasks, []);
    assertFailed(await get(`get_elo/${nobody}`), 404, `get_elo/${nobody}`);
  });

  it('calculates what results say, and refuses what says nothing', async () => {
    const { json } = await get('calc_elo?W=10&D=20&L=5');
    assert.ok(Math.abs(json.elo - 49.975495) < 1e-5);
    assert.deepEqual(Object.keys(json), ['elo', 'ci', 'LOS']);
    const pairs = 'LL=39&LD=2226&DDWL=31451&WD=2412&WW=40';
    const bounded = (await get(`calc_elo?${pairs}&elo0=0.764&elo1=3.439`)).json;
    assert.ok(Math.abs(bounded.LLR - 2.162941) < 1e-5);
    const last = (await get('calc_elo?W=1&W=10&D=20&L=5')).json;
    assert.equal(last.elo, json.elo);
    for (const wrong of [
      'LL=-1&LD=1&DDWL=1&WD=1&WW=1',
      'LL=1&LD=1',
      'LL=x&LD=1&DDWL=1&WD=1&WW=1',
    ]) {
      const { json: games } = await get(`calc_elo?W=10&D=20&L=5&${wrong}`);
      assert.equal(games.elo, json.elo, 'pairs that cannot be give way to games');
    }
    for (const bound of ['elo0=0', 'elo1=2', 'elo0=x']) {
      const { json: plain } = await get(`calc_elo?W=10&D=20&L=5&${bound}`);
      assert.deepEqual(plain, json, 'one bound alone is no test');
    }
    const bad = [
      '',
      '?W=1&D=1',
      '?W=x&D=1&L=1',
      '?W=%2B1&D=1&L=1',
      '?W=0&D=0&L=0',
      '?W=-1&D=1&L=1',
    ];
    const tooMany = `?W=${2 ** 32}&D=1&L=1`;
    const bounds = ['elo0=0&elo1=0.4', 'elo0=0&elo1=11', 'elo0=0&elo1=2&elo_model=x'];
    for (const query of [...bad, tooMany, ...bounds.map((one) => `?W=1&D=1&L=1&${one}`)]) {
      assertFailed(await get(`calc_elo${query}`), 400, 'calc_elo');
    }
  });

  it('tells the budget at GitHub, also where GitHub is not used', async () => {
    const { json } = await get('rate_limit');
    const keys = ['limit', 'remaining', 'used', 'resource', 'reset', '_uninitialized'];
    assert.deepEqual(new Set(Object.keys(json)), new Set(keys));
    assert.deepEqual([json.resource, json._uninitialized], ['core', true]);
  });

  it('answers what it does not have, and other methods, as scripts expect', async () => {
    const unknown = await get('who_knows');
    assert.deepEqual([unknown.status, unknown.json], [404, { detail: 'Not Found' }]);
    for (const headers of [{}, { 'content-type': 'odd/type' }, { 'content-type': 'text/json' }]) {
      const url = `${site.fleet.server.url}/api/beat/`;
      const { status, json } = await ask(url, '{"x":', { headers });
      assert.deepEqual([status, json], [404, { detail: 'Not Found' }]);
    }
    for (const path of ['active_runs', `get_run/${fixed}`, 'calc_elo', 'nn/x', 'pgn/x']) {
      const { status, json, headers } = await get(path, 'DELETE');
      assert.deepEqual([status, json], [405, { detail: 'Method Not Allowed' }], path);
      assert.equal(headers.allow, 'GET, HEAD');
    }
    assert.equal((await get('actions')).status, 405);
    const head = await get(`get_run/${fixed}`, 'HEAD');
    assert.deepEqual([head.status, head.text], [200, '']);
  });

  it('finds entries of the log by queries of many kinds, the newest first', async () => {
    const all = (await actions({})).json;
    assert.ok(all.length >= 6);
    assert.deepEqual(
      all,
      all.toSorted((a: { time: number }, b: { time: number }) => b.time - a.time),
    );
    const names = async (query: unknown) =>
      (await actions(query)).json.map(({ action }: { action: string }) => action);
    const ofRun = { run_id: fixed };
    assert.deepEqual(await names(ofRun), ['approve_run', 'new_run']);
    assert.deepEqual(await names({ ...ofRun, action: 'new_run' }), ['new_run']);
    assert.deepEqual(await names({ ...ofRun, action: { $ne: 'new_run' } }), ['approve_run']);
    assert.deepEqual(await names({ ...ofRun, action: { $in: ['new_run', 'x', 3] } }), ['new_run']);
    const either = { $or: [{ action: 'new_run' }, { username: 'approver' }] };
    assert.equal((await names({ $and: [ofRun, either] })).length, 2);
    assert.deepEqual(await names({ ...ofRun, $nor: [either] }), []);
    assert.deepEqual(await names({ ...ofRun, time: { $gt: 1e12 } }), []);
    assert.equal((await names({ ...ofRun, time: { $gt: 0, $lt: 1e12 } })).length, 2);
    assert.deepEqual(await names({ action: 'system_event' }), ['system_event']);
    assert.deepEqual(await names({ run_id: null, action: { $not: { $eq: 'x' } } }), [
      'system_event',
    ]);
    assert.deepEqual(await names({ run_id: { $exists: false } }), ['system_event']);
    assert.equal((await names({ worker: { $ne: 'x' } })).length, all.length);
    assert.equal((await names({ nobody: { $exists: false } })).length, all.length);
    assert.deepEqual(await names({ time: 'noon' }), []);
    const [newest] = all;
    assert.match(newest._id, /^[0-9a-f]{24}$/);
    assert.deepEqual((await actions({ _id: newest._id })).json, [newest]);
    assert.equal(Object.values(newest).includes(null), false);
  });

  it('gives an empty list for a query that it cannot do, to any site', async () => {
    const deep = JSON.parse(`${'{"$and":['.repeat(50)}{}${']}'.repeat(50)}`);
    const odd = ['{', '[]', '"x"', '', '{"$where":"1"}', '{"action":{"$regex":"("}}'];
    const long = JSON.stringify({ action: { $in: Array(201).fill('x') } });
    const endless = JSON.stringify({ action: 'x'.repeat(100_000) });
    for (const query of [
      ...odd,
      deep,
      long,
      endless,
      { $or: [] },
      { action: ['x'] },
      { action: {} },
    ]) {
      const { status, json, headers } = await actions(query);
      assert.deepEqual([status, json], [200, []], JSON.stringify(query));
      assert.equal(headers['access-control-allow-origin'], '*');
    }
  });
});

describe('an instance that is not the primary', () => {
  it('answers the same from what is stored', async () => {
    await using site = await FleetSite.open();
    const id = await site.run();
    const { task_id } = await site.task();
    await using second = await FleetSite.open({ database: site.database, leaseMs: 100 });
    assert.equal(second.fleet.primary.isPrimary, false);
    const paths = ['active_runs', `get_run/${id}`, `get_task/${id}/${task_id}`];
    for (const path of [...paths, `get_task/${id}/9`, `get_task/${id}/0bad`]) {
      const [here, there] = await Promise.all(
        [site, second].map(({ fleet }) =>
          ask(`${fleet.server.url}/api/${path}`, '', { method: 'GET', headers: {} }),
        ),
      );
      assert.equal(there?.status, here?.status);
      assert.deepEqual({ ...there?.json, duration: 0 }, { ...here?.json, duration: 0 }, path);
    }
  });
});

describe('shown records', () => {
  it('write dates as the original does', () => {
    const ms = Date.UTC(2026, 10, 15, 20, 54, 1, 533);
    assert.equal(dateText(ms + 0.7), '2026-11-15 20:54:01.533000+00:00');
    assert.equal(dateText(ms - 533), '2026-11-15 20:54:01+00:00');
  });

  it('write an infinite residual as a word', () => {
    const task = {
      num_games: 2,
      active: false,
      last_updated: 0,
      start: 0,
      stats,
      worker_info: worker(),
      task_id: 0,
      bad: true,
      residual: Infinity,
      residual_color: 'red',
    } as const;
    assert.deepEqual(JSON.parse(JSON.stringify(taskAnswer(task))).residual, 'inf');
    assert.deepEqual(JSON.parse(JSON.stringify(taskAnswer({ ...task, residual: 3 }))).residual, 3);
  });
});
