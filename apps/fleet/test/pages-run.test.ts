// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import type { FleetSite } from './fixtures/fleet-site.ts';
import { Visitor } from './fixtures/visitor.ts';

describe('the page of a run', () => {
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

  const idOf = (tag: string): string => {
    const run = [...site.fleet.primary.world.unfinished].find(({ args }) => args.new_tag === tag);
    assert.ok(run !== undefined, tag);
    return run.id;
  };
  const recordOf = (id: string) => {
    const run = site.fleet.primary.world.run(id);
    assert.ok(run !== undefined);
    return run.record;
  };

  it('shows verdict, charts, result, settings and tasks', async () => {
    const { status, text } = await stranger.get(`/tests/view/${idOf('history-pawn-key')}`);
    assert.equal(status, 200);
    for (const word of [
      'history-pawn-key',
      'The LLR is',
      'Likelihood ratio',
      'accept</text>',
      'Chance to be stronger',
      'Ptnml(0-2)',
      'Pawn history with a second key',
      'Tasks',
      'Worth knowing',
    ]) {
      assert.ok(text.includes(word), word);
    }
    assert.equal(text.match(/Show as a table/g)?.length, 2, 'both charts can be read aloud');
    assert.equal(text.includes('Stop…'), false, 'strangers have no buttons');
  });

  it('shows how the parameters of a tuning moved', async () => {
    const { text } = await stranger.get(`/tests/view/${idOf('tune-reductions')}`);
    assert.ok(text.includes('Parameters') && text.includes('The way of history'));
  });

  it('sorts, filters and pages tasks, and finds one', async () => {
    const id = idOf('cutnode-bonus');
    const tasks = async (query: string) => {
      const { text } = await stranger.get(`/tests/tasks/${id}?${query}`);
      return [...text.matchAll(/<th role="rowheader"[^>]*>(?:<a[^>]*>)?(\d+)/g)].map(numberIn);
    };
    assert.equal((await tasks(''))[0], 179);
    assert.deepEqual((await tasks('order=asc')).slice(0, 2), [0, 1]);
    assert.equal((await tasks('order=asc&page=2'))[0], 25);
    assert.ok((await tasks('show_task=3')).includes(3));
    const running = await tasks('view=active');
    assert.ok(running.every((task) => task >= 180 - 42));
    const { text } = await stranger.get(`/tests/tasks/${id}?q=nosuchworker`);
    assert.ok(text.includes('No such task') && text.includes('Show all'));
    await stranger.get(`/tests/tasks/${id}?order=asc&view=active`);
    const kept = await tasks('');
    assert.ok(
      kept.every((task) => task >= 180 - 42),
      'the last choice is kept',
    );
    assert.ok((kept[0] ?? 0) < (kept[1] ?? 0));
    const one = await stranger.get(`/tests/tasks/${id}?show_task=3`);
    assert.ok(one.text.includes('class="here"'), 'a task that is looked for is shown');
    assert.equal((await tasks('view='))[0], 179);
    const games = (await bob.get(`/tests/tasks/${id}`)).text;
    assert.ok(games.includes(`/api/pgn/${id}-`), 'users can have the games');
    assert.equal((await stranger.get(`/tests/tasks/${id}`)).text.includes('/api/pgn/'), false);
  });

  it('shows raw statistics and live gauges, and no gauges of what has none', async () => {
    const id = idOf('history-pawn-key');
    assert.ok((await stranger.get(`/tests/stats/${id}`)).text.includes('Excess kurtosis'));
    assert.ok((await stranger.get(`/tests/live_elo/${id}`)).text.includes('class="gauge"'));
    assert.equal((await stranger.get(`/tests/live_elo/${idOf('tune-reductions')}`)).status, 404);
  });

  it('answers scripts as they know it', async () => {
    const hx = { 'hx-request': 'true' };
    const pending = idOf('continuation-6ply');
    const of = (id: string, query = '') => stranger.get(`/tests/view/${id}/detail${query}`, hx);
    assert.equal((await of(pending, '?expected=pending')).status, 204);
    assert.equal((await of(pending, '?expected=active')).status, 200);
    assert.equal((await stranger.get(`/tests/view/${pending}/detail`)).status, 302);
  });

  it('says so where there is no run', async () => {
    for (const path of ['view', 'tasks', 'stats', 'live_elo']) {
      for (const id of ['0'.repeat(24), 'x']) {
        const { status, text } = await stranger.get(`/tests/${path}/${id}`);
        assert.equal(status, 404, path);
        assert.ok(text.includes('There is no run at this address'));
      }
    }
  });

  it('lets approvers approve the runs of others, and nobody else', async () => {
    const id = idOf('continuation-6ply');
    const sent = { 'run-id': id };
    const login = await stranger.post('/tests/approve', sent);
    assert.match(String(login.headers.location), /^\/login\?next=/);
    const own = await bob.post('/tests/approve', sent);
    assert.equal(own.status, 403);
    assert.ok(own.text.includes('Only an approver can do this'));
    assert.equal(recordOf(id).approved, false);
    const { text } = await ada.follow(await ada.post('/tests/approve', sent));
    assert.ok(text.includes('continuation-6ply is approved.'));
    assert.deepEqual([recordOf(id).approved, recordOf(id).approver], [true, 'ada']);
  });

  it('lets owners stop, purge and delete their runs, and no others', async () => {
    const id = idOf('razoring-depth-4');
    const others = await bob.post('/tests/stop', { 'run-id': idOf('history-pawn-key') });
    assert.equal(others.status, 403);
    const early = await bob.follow(await bob.post('/tests/purge', { 'run-id': id }));
    assert.ok(early.text.includes('Not purged'));
    await bob.follow(await bob.post('/tests/stop', { 'run-id': id }));
    assert.equal(recordOf(id).finished, true);
    const { text } = await bob.get(`/tests/view/${id}`);
    assert.ok(text.includes('Delete…') && /<strong>(Ended|Rejected)/.test(text));
    await bob.follow(await bob.post('/tests/delete', { 'run-id': id }));
    assert.equal(recordOf(id).deleted, true);
    const log = await site.ask('actions', { run_id: id, username: 'bob' });
    const done = log.json.map(({ action }: { action: string }) => action);
    assert.deepEqual(done.slice(0, 2), ['delete_run', 'stop_run']);
  });

  it('lets owners modify their runs, with errors beside the fields', async () => {
    const id = idOf('tt-aging-bits');
    const fields = { run: id, 'num-games': '1500', priority: 'x', throughput: '50', info: 'New' };
    const wrong = await bob.post('/tests/modify', fields);
    assert.equal(wrong.status, 422);
    assert.ok(wrong.text.includes('id="priority-error"') && wrong.text.includes('value="1500"'));
    assert.ok(wrong.text.includes('<a href="#priority">Priority</a>'), 'by its label');
    const odd = await bob.post('/tests/modify', { ...fields, priority: '-2' });
    assert.ok(odd.text.includes('id="num-games-error"'));
    const right = { ...fields, priority: '-2', 'num-games': '40000', auto_purge: 'on' };
    await bob.follow(await bob.post('/tests/modify', right));
    const { args, approved } = recordOf(id);
    assert.deepEqual(
      [args.num_games, args.priority, args.throughput, args.auto_purge, args.info, approved],
      [40_000, -2, 50, true, 'New', true],
    );
    await bob.follow(await bob.post('/tests/modify', { ...right, priority: '3' }));
    assert.equal(recordOf(id).approved, false, 'more needs a new approval');
  });
});

function numberIn([, text]: RegExpMatchArray): number {
  return Number(text);
}
