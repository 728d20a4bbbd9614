import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { MemoryStore } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { StandIn } from 'spillway-fixtures/stand-in';
import { State } from 'spillway-http';
import { type FollowView, followPage } from '../src/commands/follow-page.ts';
import { LongPause } from '../src/harvest/harvester.ts';
import type { ProductOutcome } from '../src/harvest/product.ts';
import { type Ingest, openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { ingest } from './fixtures/ingest-command.ts';

const { signal } = new AbortController();
const wish = { fullRefresh: false, sinceUs: undefined, untilUs: undefined, fillsGaps: false };

async function open(data: string, baseUrl: string): Promise<Ingest> {
  const { settings } = readSettings({ flags: { data, baseUrl }, environment: {} });
  return await openIngest({ settings, environment: {} });
}

async function outcomeOf(opened: Ingest): Promise<ProductOutcome | undefined> {
  const harvester = opened.harvester({ ...wish, products: ['A-USD'] });
  const [outcome] = await harvester.run(signal);
  return outcome;
}

describe('an exchange that cannot be used now', () => {
  it('and asks for a long pause ends this run and the next ones, until that is ended', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-pause-'));
    await using site = await StandIn.open();
    site.tell('', 429, { 'retry-after': '100000' });
    {
      await using first = await open(folder.path, site.url);
      assert.equal((await outcomeOf(first))?.code, 'EXCHANGE_PAUSED');
    }
    const asked = site.asked.length;
    assert.equal(asked, 1);
    {
      await using second = await open(folder.path, site.url);
      const outcome = await outcomeOf(second);
      assert.equal(outcome?.code, 'EXCHANGE_PAUSED');
      assert.match(outcome?.reason ?? '', /a pause until \d{4}-.*ingest resume/);
      assert.equal(site.asked.length, asked, 'a request was made in the pause');
    }
    const place = ['--data', folder.path, '--base-url', site.url];
    const resumed = await ingest('resume', ...place);
    assert.match(resumed.stdout, /^The pause until \S+ is ended/);
    site.tell('[]');
    await using third = await open(folder.path, site.url);
    assert.equal((await outcomeOf(third))?.status, 'done');
  });

  it('because it lacks more than gapsMax ends the product, until more are allowed', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-gaps-'));
    const gaps = [500, 1_500, 2_500].map((from) => ({ from, to: from + 1 }));
    await using exchange = await startExchange({
      products: [{ id: 'A-USD', trades: 3_500, gaps }],
    });
    for (const [gapsMax, status] of [
      ['2', 'failed'],
      ['3', 'done'],
    ] as const) {
      const flags = { data: folder.path, baseUrl: exchange.url, ratePerSecond: '1000', gapsMax };
      const { settings } = readSettings({ flags, environment: {} });
      await using opened = await openIngest({ settings, environment: {}, batchMsMax: 0 });
      const outcome = await outcomeOf(opened);
      assert.equal(outcome?.status, status, outcome?.reason);
    }
  });

  it('at one address does not keep others of the same name from being asked', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-address-'));
    await using away = await StandIn.open();
    away.tell('', 429, { 'retry-after': '100000' });
    {
      await using first = await open(folder.path, away.url);
      assert.equal((await outcomeOf(first))?.code, 'EXCHANGE_PAUSED');
    }
    await using site = await StandIn.open();
    site.tell('[]');
    {
      await using second = await open(folder.path, site.url);
      assert.equal((await outcomeOf(second))?.status, 'done');
      assert.equal(second.breaker.stats.state, 'closed');
    }
    await using third = await open(folder.path, away.url);
    assert.equal((await outcomeOf(third))?.code, 'EXCHANGE_PAUSED');
  });

  it('and asks for a pause is not waited for longer though a clock was ahead', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const ahead = { now: () => clock.now() + 7_200_000, after: clock.after.bind(clock) };
    const noted = new LongPause(store, 'x', ahead, 1_000);
    assert.equal(noted.note(60_000), true);
    await noted.settled();
    const next = new LongPause(store, 'x', clock, 1_000);
    await next.load();
    assert.throws(() => next.check(), { code: 'EXCHANGE_PAUSED' });
    await clock.advance(60_000);
    next.check();
  });

  it('and asks for a pause is left alone by all processes, until one of them ends it', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const [first, other] = [1, 2].map(() => new LongPause(store, 'x', clock, 1_000));
    assert.ok(first !== undefined && other !== undefined);
    first.note(60_000);
    other.check();
    await clock.advance(5_000);
    assert.throws(() => other.check(), { code: 'EXCHANGE_PAUSED' });
    await other.end();
    assert.throws(() => first.check(), { code: 'EXCHANGE_PAUSED' });
    await clock.advance(5_000);
    first.check();
    assert.equal(first.until, 0);
  });

  it('because nothing is at its address is told by name after three requests', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-nowhere-'));
    await using opened = await open(folder.path, 'http://127.0.0.1:9');
    const outcome = await outcomeOf(opened);
    assert.equal(outcome?.code, 'EXCHANGE_UNREACHABLE');
    const told = /http:\/\/127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED/;
    assert.match(outcome?.reason ?? '', told);
    assert.ok(opened.bucket.taken <= 3, `${opened.bucket.taken} requests`);
  });

  it('is the simulated one, which was not started: the message says how to', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-simulated-'));
    const place = { data: folder.path, exchange: 'simulated', baseUrl: 'http://127.0.0.1:9' };
    const { settings } = readSettings({ flags: place, environment: {} });
    await using opened = await openIngest({ settings, environment: {} });
    const { reason = '' } = (await outcomeOf(opened)) ?? {};
    assert.match(
      reason,
      /^simulated: .* cannot be reached: .*; start it with "npx ingest exchange"/,
    );
  });

  it('left nothing to query: that is told, not an empty table', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-nothing-'));
    const ended = await ingest('query', 'SELECT 1', '--data', join(folder.path, 'none'));
    assert.equal(ended.code, 2, ended.stdout);
    assert.match(ended.stderr, /none: nothing was harvested yet; see ingest run/);
  });

  it('is told as such on the page: a product that is not asked for is not up to date', () => {
    const outcome = {
      product: 'A-USD',
      status: 'done',
      reason: undefined,
      code: undefined,
    } as const;
    const counts = { trades: 1, tradesInAll: 1, nextId: 2, toId: 2, gaps: 0, generation: 1 };
    const products = [{ ...outcome, ...counts }];
    const follower = {
      rounds: 1,
      trades: 1,
      requests: 1,
      transformed: undefined,
      error: undefined,
      succeededAt: undefined,
      completeTo: undefined,
      feed: undefined,
    };
    const rate = {
      permitted: 10,
      tokens: 1,
      now: 0,
      failure: undefined,
      history: [],
      follower: { ...follower, products },
    };
    const place = {
      exchange: 'coinbase',
      noun: 'Trades' as const,
      baseUrl: 'https://example.org',
    };
    const shownWith = (breaker: string, pausedUntil?: string, more: object = {}): string => {
      const view = { ...place, ...rate, breaker, pausedUntil, ...more };
      return String(followPage(new State<FollowView>(view)).view(undefined as never));
    };
    assert.match(shownWith('closed'), /up to date/);
    assert.doesNotMatch(shownWith('open'), /up to date/);
    assert.match(shownWith('open'), /not asked now/);
    const failing = shownWith('open', undefined, { failure: 'coinbase: 503 away' });
    assert.match(failing, /The breaker is open.*coinbase: 503 away/s);
    const at = Date.UTC(2030, 0, 1);
    const times = { now: at, follower: { ...rate.follower, succeededAt: at - 12_000 } };
    const samples = [0, 1, 2].map((n) => ({ at: at + 5_000 * n, requests: 20 * n, trades: 9 * n }));
    const history = samples.map((sample) => ({ ...sample, lagMs: 1_500 }));
    const charted = shownWith('closed', undefined, { ...times, now: at + 10_000, history });
    assert.match(charted, /REST last succeeded 22 s ago/);
    assert.match(charted, /Requests a second: now 4\.0 of 10\.0\./);
    assert.match(charted, /something may be missing: now 1\.5 s\./);
    assert.match(charted, /committed in the minute before: now 108\./);
    const paused = shownWith('closed', '2030-01-01T00:00:00.000Z');
    assert.match(paused, /a pause until 2030-01-01T00:00:00.000Z/);
    assert.doesNotMatch(paused, /up to date/);
  });
});
