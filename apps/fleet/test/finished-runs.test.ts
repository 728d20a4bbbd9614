import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { wallClock } from 'spillway';
import { deleteRun, stopByUser } from '../src/world/manage.ts';

import { ask, FleetSite } from './fixtures/fleet-site.ts';

describe('the list of finished runs', () => {
  let site: FleetSite;
  const ids: string[] = [];

  const list = (query: string) =>
    ask(`${site.fleet.server.url}/api/finished_runs?${query}`, '', { method: 'GET', headers: {} });
  const listed = async (query: string) => Object.keys((await list(query)).json);

  before(async () => {
    site = await FleetSite.open();
    const { primary } = site.fleet;
    for (let at = 0; at < 53; at += 1) {
      const id = await site.run({
        username: at === 3 ? 'somebody' : 'tester',
        tc: at === 4 ? '60+0.6' : '10+0.1',
      });
      ids.unshift(id);
      await primary.change((fleet) => {
        const run = fleet.run(id) as NonNullable<ReturnType<typeof fleet.run>>;
        run.record.is_green = at === 5;
        const changes = stopByUser(fleet, run, 'tester', 'enough');
        run.record.is_green = at === 5;
        run.record.is_yellow = at === 6;
        return changes;
      });
      if (at === 7) {
        await primary.change((fleet) => {
          const run = fleet.run(id) as NonNullable<ReturnType<typeof fleet.run>>;
          return deleteRun(fleet, run, 'tester');
        });
      }
    }
    await site.run();
  });

  after(() => site[Symbol.asyncDispose]());

  it('gives fifty a page, the newest first, without deleted ones', async () => {
    const wanted = ids.filter((id) => id !== ids.at(-8));
    assert.deepEqual(await listed('page=1'), wanted.slice(0, 50));
    assert.deepEqual(await listed('page=2'), wanted.slice(50));
    assert.deepEqual((await list('page=3')).json, {});
    assert.deepEqual(await listed('page=02'), wanted.slice(50));
    const [first] = wanted as [string];
    const run = (await list('page=1')).json[first];
    assert.deepEqual([run.finished, 'tasks' in run], [true, false]);
  });

  it('filters by user, colour, time control and time', async () => {
    const at = (place: number) => [ids.at(-1 - place)];
    assert.deepEqual(await listed('page=1&username=somebody'), at(3));
    assert.deepEqual(await listed('page=1&ltc_only=1'), at(4));
    assert.deepEqual(await listed('page=1&success_only=x'), at(5));
    assert.deepEqual(await listed('page=1&yellow_only=1'), at(6));
    assert.equal((await listed('page=1&yellow_only=')).length, 50);
    const now = Math.floor(wallClock.now() / 1000);
    assert.equal((await listed(`page=1&timestamp=${now - 3600}.5`)).length, 50);
    assert.deepEqual(await listed(`page=1&timestamp=${now + 3600}`), []);
  });

  it('refuses a page or a time that is none', async () => {
    const bad = ['', 'page=', 'page=0', 'page=x', 'page=-1', 'page=1.5', 'page=99999999999'];
    const times = ['page=1&timestamp=1', 'page=1&timestamp=99999999999', 'page=1&timestamp=x'];
    for (const query of [...bad, ...times]) {
      const { status, json } = await list(query);
      assert.equal(status, 400, query);
      assert.match(json.error, /^\/api\/finished_runs: /);
    }
  });

  it('is on pages, each of which leads to the next one', async () => {
    const { url } = site.fleet.server;
    const page = async (path: string) => (await fetch(`${url}${path}`)).text();
    assert.match(await page('/tests/finished'), /href="\/tests\/finished\?page=2"/);
    assert.match(await page('/tests'), /href="\/tests\/finished\?page=1"/, 'which shows more');
  });

  it('tells of a fixed number of games what its page tells', async () => {
    const [id = ''] = ids;
    const { results } = site.fleet.primary.world.run(id)?.record ?? {};
    Object.assign(results ?? {}, { losses: 200, pentanomial: [100, 0, 0, 0, 0] });
    const text = await (await fetch(`${site.fleet.server.url}/tests/view/${id}`)).text();
    assert.match(text, /Rejected\.<.*The change failed after 200 games\./s);
    assert.equal(text.includes('Without a verdict'), false);
  });
});
