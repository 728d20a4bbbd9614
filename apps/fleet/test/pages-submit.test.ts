// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import type { FleetSite } from './fixtures/fleet-site.ts';
import { Visitor } from './fixtures/visitor.ts';

const sri = 'A'.repeat(64);
const book = { total: 9, white: 9, black: 0, min_depth: 8, max_depth: 8, sri };

describe('the form for a new run', () => {
  let site: FleetSite;
  let bob: Visitor;
  const right = {
    'tests-repo': 'https://github.com/bob/Stockfish',
    'test-branch': 'faster',
    'base-branch': 'master',
    'test-signature': '1234567',
    'base-signature': '7654321',
    resolved_new: '1'.repeat(40),
    resolved_base: '2'.repeat(40),
    'new-options': 'Hash=16',
    'base-options': 'Hash=16',
    'run-info': 'Does it faster',
    stop_rule: 'sprt',
    'num-games': '60000',
    elo_model: 'normalized',
    bounds: '0.5,2.5',
    threads: '1',
    tc: '10+0.1',
    priority: '0',
    throughput: '50',
    book: 'book.epd',
    'book-depth': '8',
  };
  const submitted = async (fields: Record<string, string>) => {
    const answer = await bob.post('/tests/run', fields);
    assert.equal(answer.status, 302, answer.text.slice(-3_000));
    const [, id = ''] = /view\/(\w+)\?follow=1$/.exec(String(answer.headers.location)) ?? [];
    const run = site.fleet.primary.world.run(id);
    assert.ok(run !== undefined);
    return run;
  };

  before(async () => {
    site = await openBusyFleet();
    await site.fleet.files.books.store(new Map([['book.epd', book]]));
    bob = await Visitor.loggedIn(site, 'bob', password);
  });

  after(() => site[Symbol.asyncDispose]());

  it('is for users who have logged in', async () => {
    const { status, headers } = await new Visitor(site).get('/tests/run?preset=LTC');
    assert.equal(status, 302);
    assert.equal(headers.location, '/login?next=%2Ftests%2Frun%3Fpreset%3DLTC');
  });

  it('begins with a preset', async () => {
    const { text } = await bob.get('/tests/run?preset=LTC-SMP');
    for (const value of ['value="20+0.2"', 'value="8"', 'value="Hash=256"']) {
      assert.ok(text.includes(value), value);
    }
    assert.match(text, /value="0.5,2.5" selected/);
  });

  it('submits a sequential test, which waits for an approver', async () => {
    const { args, record, status } = await submitted(right);
    assert.equal(status, 'pending');
    assert.deepEqual(
      [args.username, args.new_tag, args.sprt?.elo0, args.sprt?.elo1, args.num_games],
      ['bob', 'faster', 0.5, 2.5, 800_000],
    );
    assert.deepEqual([args.adjudication, args.auto_purge, args.throughput], [true, false, 50]);
    assert.equal(record.approved, false);
    assert.equal((await site.fleet.users.find('bob'))?.tests_repo, right['tests-repo']);
  });

  it('submits games, tunings, time odds and filters', async () => {
    const games = await submitted({ ...right, stop_rule: 'games', adjudication: 'on' });
    assert.deepEqual([games.args.num_games, games.args.adjudication], [60_000, false]);
    assert.equal(games.args.sprt, undefined);
    const tuning = await submitted({
      ...right,
      stop_rule: 'spsa',
      spsa_A: '0.1',
      spsa_alpha: '0.602',
      spsa_gamma: '0.101',
      spsa_raw_params: 'a,1,0,2,0.5,0.02\r\nb,10,0,20,1,0.02',
    });
    assert.deepEqual(
      tuning.args.spsa?.params.map(({ name }) => name),
      ['a', 'b'],
    );
    const odds = await submitted({
      ...right,
      odds: 'on',
      new_tc: '8+0.08',
      'checkbox-arch-filter': 'on',
      'arch-filter': 'avx2|bmi2',
      'checkbox-compiler': 'on',
      compiler: 'clang++',
      'auto-purge': 'on',
    });
    const { new_tc, arch_filter, compiler, auto_purge } = odds.args;
    assert.deepEqual(
      [new_tc, arch_filter, compiler, auto_purge],
      ['8+0.08', 'avx2|bmi2', 'clang++', true],
    );
  });

  it('keeps what was typed, with each error beside its field', async () => {
    const wrong = await bob.post('/tests/run', {
      ...right,
      tc: 'soon',
      threads: '0',
      book: 'nosuch.epd',
      'test-signature': '',
      resolved_new: 'abc',
      bounds: 'custom',
      sprt_elo0: '1',
      sprt_elo1: '1.2',
      'run-info': 'Typed <with> care',
    });
    assert.equal(wrong.status, 422);
    for (const name of ['tc', 'threads', 'book', 'test-signature', 'resolved_new', 'sprt_elo1']) {
      assert.ok(wrong.text.includes(`id="${name}-error"`), name);
    }
    assert.ok(wrong.text.includes('<a href="#test-signature">Bench of the branch</a>'));
    assert.ok(wrong.text.includes('Typed &lt;with&gt; care'));
    assert.ok(wrong.text.includes('value="soon"'));
    const unknown = await bob.post('/tests/run', {
      ...right,
      'test-branch': '',
      stop_rule: '__proto__',
    });
    assert.equal(unknown.status, 422);
    const games = await bob.post('/tests/run', { ...right, stop_rule: 'games', 'num-games': '7' });
    assert.ok(games.text.includes('id="num-games-error"'));
    const filter = { 'checkbox-arch-filter': 'on', 'arch-filter': 'nosuch' };
    const odd = await bob.post('/tests/run', { ...right, ...filter });
    assert.ok(odd.text.includes('id="arch-filter-error"'));
  });

  it('repeats a run with all its values', async () => {
    const run = await submitted({ ...right, 'auto-purge': 'on' });
    const { text } = await bob.get(`/tests/run?id=${run.id}`);
    assert.ok(text.includes('Repeat faster') && text.includes(`value="${run.id}"`));
    const fields = [...text.matchAll(/<input[^>]* name="([^"]+)" value="([^"]*)"[^>]*>/g)]
      .filter(([whole]) => !/checkbox/.test(whole) || /checked/.test(whole))
      .map(([, name = '', value = '']) => [name, value] as const);
    const lists = [
      ...text.matchAll(/<select[^>]* name="([^"]+)".*?value="([^"]+)" selected/gs),
    ].map(([, name = '', value = '']) => [name, value] as const);
    const { csrf_token: _token, ...sent } = Object.fromEntries([...fields, ...lists]);
    const again = await submitted({ ...sent, 'run-info': 'Again' });
    assert.equal(again.record.rescheduled_from, run.id);
    const { info: _info, itp: _itp, sprt, ...same } = run.args;
    const { info: _newInfo, itp: _newItp, sprt: newSprt, ...repeated } = again.args;
    assert.deepEqual(repeated, same);
    assert.deepEqual([newSprt?.elo0, newSprt?.elo1], [sprt?.elo0, sprt?.elo1]);
    assert.equal((await bob.get(`/tests/run?id=${'0'.repeat(24)}`)).status, 404);
  });
});
