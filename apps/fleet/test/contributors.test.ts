// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Contributor } from '../src/contributors/contributors.ts';
import { purgeByUser } from '../src/world/manage.ts';
import { draws, uniqueKey } from './fixtures/fleet-scene.ts';
import { FleetSite, type TaskBody } from './fixtures/fleet-site.ts';
import { JumpingClock } from './fixtures/jumping-clock.ts';

/** A task of two games that takes eight cores 1,635 hours. */
const long = { tc: '200000+0', threads: 8, num_games: 2 };
const longHours = (2 * 8 * 200_000 * 1.84) / 3600;
/** Two games of one core. */
const short = { tc: '10+0.1', threads: 1, num_games: 2 };
const shortHours = (2 * 16.8 * 1.84) / 3600;
const dayMs = 24 * 60 * 60 * 1000;

describe('what users gave', () => {
  let site: FleetSite;
  const clock = new JumpingClock();

  before(async () => {
    site = await FleetSite.open({ clock });
    for (const username of ['veteran', 'novice']) {
      await site.fleet.users.add({ username, password: 'secret', pending: false });
    }
  });

  after(() => site[Symbol.asyncDispose]());

  async function play(username: string, args: object, crashes = 0): Promise<TaskBody> {
    await site.run({ ...args, username: 'author', priority: 1 });
    const task = await site.task({ username, unique_key: uniqueKey(username.length) });
    const { json } = await site.ask('update_task', { ...task, stats: draws(2, { crashes }) });
    assert.equal(json.task_alive, false);
    return task;
  }
  const given = async (table: 'contributors' | 'top_month' = 'contributors') => {
    const all = await site.fleet.contributors.list(table);
    return new Map(all.map((one) => [one.username, one]));
  };
  const assertHours = (one: Contributor | undefined, hours: number) =>
    assert.ok(Math.abs((one?.cpu_hours ?? 0) - hours) < 1e-9, `${one?.cpu_hours}, not ${hours}`);

  it('is counted by the clock, once, and for who played and who submitted', async () => {
    await play('veteran', long);
    await play('novice', short);
    assert.deepEqual(await given(), new Map());
    clock.jump(64_000);
    while ((await given('top_month')).size === 0) await new Promise(setImmediate);
    for (let again = 0; again < 3; again += 1) {
      const all = await given();
      assertHours(all.get('veteran'), longHours);
      assertHours(all.get('novice'), shortHours);
      assert.deepEqual([all.get('veteran')?.games, all.get('veteran')?.tests], [2, 0]);
      assert.deepEqual([all.get('author')?.games, all.get('author')?.tests], [0, 2]);
      await site.fleet.contributors.count();
    }
    assert.deepEqual([...(await given()).keys()], ['veteran', 'novice', 'author']);
  });

  it('lets a worker stop a run, or not', async () => {
    await site.run({ num_games: 20_000 });
    const novice = await site.task({ username: 'novice', unique_key: uniqueKey(50) });
    const veteran = await site.task({ username: 'veteran', unique_key: uniqueKey(51) });
    const refused = await site.ask('stop_run', { ...novice, message: 'wrong bench' });
    assert.equal(refused.status, 401);
    assert.match(refused.json.error, /^\/api\/stop_run: .*too few games/);
    assert.equal(typeof refused.json.duration, 'number');
    const over = await site.ask('beat', novice);
    assert.equal(over.json.task_alive, false, 'this task alone has ended');
    assert.equal((await site.ask('beat', veteran)).json.task_alive, true);
    const { json: log } = await site.ask('actions', { action: 'stop_run' });
    assert.equal(log[0].message, 'wrong bench (not authorized)');
    const { status, json } = await site.ask('stop_run', { ...veteran, message: 'wrong bench' });
    assert.deepEqual([status, Object.keys(json)], [200, ['duration']]);
    const again = await site.ask('stop_run', { ...veteran, message: 'wrong bench' });
    assert.equal(again.status, 401);
    assert.match(again.json.error, /already finished/);
    const stranger = await site.ask('stop_run', { ...novice, message: '' });
    assert.match(stranger.json.error, /already finished/, 'whoever asks');
  });

  it('changes by the difference when a counted run is purged, and when it goes on', async () => {
    const task = await play('novice', short, 4);
    await site.fleet.contributors.count();
    assertHours((await given()).get('novice'), 2 * shortHours);
    const { tests } = (await given()).get('author') as Contributor;
    const { primary } = site.fleet;
    const run = () => primary.world.run(task.run_id) as NonNullable<ReturnType<typeof find>>;
    const find = () => primary.world.run(task.run_id);
    await primary.change((fleet) => purgeByUser(fleet, run(), 'approver'));
    assert.equal(run().record.finished, false, 'its games are played again');
    await site.fleet.contributors.count();
    assertHours((await given()).get('novice'), 2 * shortHours);
    const again = await site.task({ username: 'veteran', unique_key: uniqueKey(7) });
    assert.equal(again.run_id, task.run_id);
    await site.ask('update_task', { ...again, stats: draws(2) });
    await site.fleet.contributors.count();
    const all = await given();
    assertHours(all.get('novice'), shortHours);
    assertHours(all.get('veteran'), longHours + shortHours);
    assert.equal(all.get('author')?.tests, tests, 'the run is still one');
  });

  it('is what the last month and the active workers show', async () => {
    await site.run({ num_games: 20_000 });
    const own = { username: 'novice', unique_key: uniqueKey(77), concurrency: 2, nps: 628_000 };
    const task = await site.task(own);
    await site.ask('update_task', { ...task, stats: draws(20) });
    const { contributors } = site.fleet;
    await contributors.count();
    const [total, month] = [await given(), await given('top_month')];
    assert.equal(month.get('novice')?.games, (total.get('novice')?.games ?? 0) + 20);
    const perHour = (2 * 3600) / (16.8 * 1.84);
    for (const one of [total, month]) {
      assert.ok(Math.abs((one.get('novice')?.games_per_hour ?? 0) - perHour) < 1e-9);
      assert.equal(one.get('veteran')?.games_per_hour, 0);
    }
    clock.jump(31 * dayMs);
    await contributors.count();
    const later = await given('top_month');
    assert.equal(later.get('novice')?.games, 20, 'an unfinished run counts, however old it is');
    assert.equal(later.get('veteran'), undefined);
    assertHours((await given()).get('veteran'), longHours + shortHours);
  });
});
