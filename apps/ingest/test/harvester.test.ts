// Slow: harvests whole histories.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Json, Lease, type StoreChange } from 'spillway';
import { TradeSink } from '../src/harvest/trade-sink.ts';
import { virtualPage } from './fixtures/virtual-market.ts';
import { VirtualScene } from './fixtures/virtual-scene.ts';

const none = new AbortController().signal;

describe('a harvester', () => {
  it('fetches a tail of a few trades, and again when a few more have come', async () => {
    const scene = new VirtualScene(1, { products: { 'A-USD': 13 } });
    await scene.harvest();
    await scene.assertComplete('A-USD');
    scene.market.counts['A-USD'] = 14;
    const [outcome] = await scene.harvest();
    assert.equal(outcome?.trades, 1);
    await scene.assertComplete('A-USD');
    const requests = scene.market.requestsAt.length;
    const [nothing] = await scene.harvest();
    assert.deepEqual([nothing?.status, nothing?.trades], ['done', 0]);
    assert.equal(scene.market.requestsAt.length, requests + 1, 'only the newest id is asked for');
  });

  it('fails where the exchange has no trade any more, and goes on when it has', async () => {
    const scene = new VirtualScene(1, { products: { 'A-USD': 13 } });
    await scene.harvest();
    scene.market.counts['A-USD'] = 0;
    const [outcome] = await scene.harvest();
    assert.deepEqual([outcome?.status, outcome?.code], ['failed', 'EXCHANGE_FAILED']);
    scene.market.counts['A-USD'] = 15;
    await scene.harvest();
    await scene.assertComplete('A-USD');
  });

  it('goes on until it has what came while it was at work', async () => {
    const scene = new VirtualScene(2, { products: { 'A-USD': 400 } });
    const work = scene.worker().run(none);
    await scene.clock.advance(500);
    scene.market.counts['A-USD'] = 700;
    await scene.run(work);
    await scene.assertComplete('A-USD');
  });

  it('keeps its rate though each page waits for the slowest before it', async () => {
    const slow = { pageSize: 1, latencyMs: 3_000, hasTail: true };
    const scene = new VirtualScene(6, { products: { 'A-USD': 12_000 }, ...slow });
    const stop = new AbortController();
    const work = scene.worker().run(stop.signal);
    await scene.clock.advance(60_000);
    const before = scene.market.requestsAt.length;
    await scene.clock.advance(120_000);
    const share = (scene.market.requestsAt.length - before) / (120 * scene.ratePerSecond);
    assert.ok(share > 0.99, `${Math.round(100 * share)} % of the rate`);
    stop.abort();
    await scene.run(work);
  });

  it('stops after as many requests as it may make, with all of them put to use', async () => {
    const scene = new VirtualScene(3, { products: { 'A-USD': 600 } });
    const [outcome] = await scene.harvest({}, { maxRequests: 20 });
    assert.deepEqual([outcome?.status, outcome?.reason], ['stopped', 'max_requests']);
    assert.equal(scene.market.requestsAt.length, 20);
    assert.equal(outcome?.trades, 190, 'one request was for the newest id');
    await scene.harvest();
    await scene.assertComplete('A-USD');
  });

  it('begins a product where it is told, and not before that later', async () => {
    const scene = new VirtualScene(4, { products: { 'A-USD': 100 } });
    await scene.harvest({ sinceUs: 41_000_000n, untilUs: 61_000_000n });
    const ids = await scene.ledgerIds('A-USD');
    assert.deepEqual([ids[0], ids.at(-1), ids.length], [41, 60, 20]);
    const [refused] = await scene.harvest({ sinceUs: 40_000_000n });
    assert.equal(refused?.code, 'PRODUCT_BEGUN_LATER');
    await scene.harvest({ sinceUs: 50_000_000n });
    assert.equal((await scene.ledgerIds('A-USD')).length, 60);
    await scene.harvest({ sinceUs: 31_000_000n, fullRefresh: true });
    assert.equal((await scene.ledgerIds('A-USD', 2)).length, 70);
  });

  it('notes what is not there as a gap, and fills it when it has come', async () => {
    const missing = { 'A-USD': [5, 6, 50] };
    const scene = new VirtualScene(5, { products: { 'A-USD': 95 }, missing });
    const [outcome] = await scene.harvest();
    assert.equal(outcome?.gaps, 2);
    const [still] = await scene.harvest({ fillsGaps: true });
    assert.deepEqual([still?.status, still?.gaps, still?.trades], ['done', 2, 0]);
    scene.market.missing = {};
    scene.market.counts['A-USD'] = 120;
    const [filled] = await scene.harvest({ fillsGaps: true });
    assert.deepEqual([filled?.gaps, filled?.trades, filled?.nextId], [0, 3, 96]);
    await scene.harvest();
    await scene.assertComplete('A-USD');
  });

  it('goes on at another address only if it is told that the API there is the same', async () => {
    const scene = new VirtualScene(1, { products: { 'A-USD': 13 } });
    await scene.harvest();
    scene.market.address = 'elsewhere';
    scene.market.counts['A-USD'] = 15;
    const [refused] = await scene.harvest();
    assert.deepEqual([refused?.status, refused?.code], ['failed', 'ADDRESS_CHANGED']);
    assert.match(String(refused?.reason), /came from virtual, now elsewhere is asked; add --moved/);
    assert.equal((await scene.ledgerIds('A-USD')).length, 13);
    scene.market.counts['A-USD'] = 13;
    const [moved] = await scene.harvest({ isMoved: true });
    assert.deepEqual([moved?.status, moved?.trades], ['done', 0]);
    scene.market.counts['A-USD'] = 15;
    const [next] = await scene.harvest();
    assert.deepEqual([next?.status, next?.trades], ['done', 2], 'the new address is noted');
    await scene.assertComplete('A-USD');
  });

  it('makes a history anew from another address, also if that was begun at a third', async () => {
    const scene = new VirtualScene(1, { products: { 'A-USD': 300 } });
    await scene.harvest();
    scene.market.address = 'second';
    await scene.harvest({ fullRefresh: true }, { maxRequests: 10 });
    assert.deepEqual(await scene.ledger.generations('A-USD'), { current: 1, building: 2 });
    scene.market.address = 'third';
    const [outcome] = await scene.harvest({ fullRefresh: true });
    assert.deepEqual([outcome?.status, outcome?.generation], ['done', 3]);
    assert.deepEqual(await scene.ledger.generations('A-USD'), { current: 3, building: undefined });
    await scene.assertComplete('A-USD', 3);
  });

  it('plans without taking anything down', async () => {
    const scene = new VirtualScene(6, { products: { 'A-USD': 95 } });
    const plans = await scene.run(scene.worker().plan(none));
    const shown = plans.map(({ from, to, pages }) => ({ from, to, pages }));
    assert.deepEqual(shown, [{ from: 1, to: 96, pages: 10 }]);
    assert.deepEqual(await scene.ledger.products(), []);
    assert.equal(scene.folder.files.size, 0);
  });

  it('tells of a product that the exchange does not know, and leaves no trace of it', async () => {
    const scene = new VirtualScene(7, { products: { 'A-USD': 5 } });
    const [wrong, right] = await scene.harvest({ products: ['X-USD', 'A-USD'] });
    assert.deepEqual([wrong?.status, wrong?.code], ['failed', 'PRODUCT_UNKNOWN']);
    assert.equal(right?.status, 'done');
    assert.deepEqual(await scene.ledger.products(), ['A-USD']);
  });

  it('stops at a checkpoint that is damaged or of a newer program, untouched', async () => {
    const scene = new VirtualScene(8, { products: { 'A-USD': 50, 'B-USD': 50 } });
    await scene.harvest();
    scene.market.counts['A-USD'] = 90;
    const name = 'checkpoint/virtual/A-USD/1';
    const { records } = await scene.store.read([name]);
    const record = records[0]?.value as { harvest: object; schemaVersion: number };
    const damaged = [
      { ...record, trades: 7, harvest: { ...record.harvest, position: 1_000 } },
      { ...record, schemaVersion: 2, harvest: { ...record.harvest, position: 1_001 } },
    ];
    const codes: unknown[] = [];
    for (const value of damaged) {
      await scene.store.commit([{ name, value: value as unknown as Json }]);
      const outcomes = await scene.harvest();
      codes.push(outcomes[0]?.code);
      assert.match(outcomes[0]?.reason ?? '', /checkpoint\/virtual\/A-USD\/1/);
      assert.equal(outcomes[1]?.status, 'done');
      assert.deepEqual((await scene.store.read([name])).records[0]?.value, value);
    }
    assert.deepEqual(codes, ['CHECKPOINT_UNREADABLE', 'CHECKPOINT_FUTURE']);
  });

  it('fails at once when the disk is full, with the file named and nothing committed', async () => {
    const scene = new VirtualScene(9, { products: { 'A-USD': 50 } });
    scene.folder.isFull = true;
    const [outcome] = await scene.harvest();
    assert.deepEqual([outcome?.status, outcome?.code], ['failed', 'FOLDER_FULL']);
    assert.match(outcome?.reason ?? '', /raw\/exchange=virtual\/product=A-USD/);
    assert.deepEqual([...scene.folder.writes.values()], [1], 'it tried again and again');
    scene.folder.isFull = false;
    await scene.harvest();
    await scene.assertComplete('A-USD');
  });
});

describe('a full refresh', () => {
  it('goes on beside the harvest, takes its place at the end, and lowers nothing', async () => {
    const scene = new VirtualScene(12, { products: { 'A-USD': 2_400 } });
    await scene.harvest();
    const refresh = scene.worker({ fullRefresh: true }).run(none);
    await scene.clock.advance(300);
    scene.market.counts['A-USD'] = 2_420;
    const [beside] = await scene.harvest();
    assert.deepEqual([beside?.status, beside?.generation], ['done', 1]);
    const generations = await scene.ledger.generations('A-USD');
    assert.deepEqual(generations, { current: 1, building: 2 });
    const [outcome] = await scene.run(refresh);
    assert.deepEqual([outcome?.status, outcome?.generation], ['done', 2]);
    assert.deepEqual(await scene.ledger.generations('A-USD'), { current: 2, building: undefined });
    await scene.assertComplete('A-USD', 2);
    scene.market.counts['A-USD'] = 2_450;
    const [next] = await scene.harvest();
    assert.deepEqual([next?.generation, next?.trades], [2, 30]);
  });

  it('that was stopped goes on, and until its end the old one counts', async () => {
    const scene = new VirtualScene(13, { products: { 'A-USD': 900 } });
    await scene.harvest();
    const stop = new AbortController();
    const first = scene.worker({ fullRefresh: true }).run(stop.signal);
    await scene.clock.advance(800);
    stop.abort(new Error('stopped'));
    const [stopped] = await scene.run(first);
    const had = stopped?.tradesInAll ?? 0;
    assert.ok(had > 0 && had < 900, `${had} trades`);
    assert.equal((await scene.ledger.generations('A-USD')).current, 1);
    const [outcome] = await scene.harvest({ fullRefresh: true });
    assert.deepEqual([outcome?.generation, outcome?.trades], [2, 900 - had]);
    await scene.assertComplete('A-USD', 2);
  });

  it('makes a harvest of the old generation that is under way go on with the new one', async () => {
    const scene = new VirtualScene(14, { products: { 'A-USD': 300 } });
    await scene.harvest();
    await scene.harvest(
      { fullRefresh: true },
      {
        beforeCommit: (changes) => {
          const isSwap = changes.some(({ name, checkOnly }) => {
            return name.startsWith('generation/') && checkOnly !== true;
          });
          // Up to the swap: that is made below, in the middle of another harvest.
          const value = changes[0]?.value as { building?: number | null } | undefined;
          if (isSwap && value?.building === null) throw new Error('not yet');
        },
      },
    );
    assert.deepEqual(await scene.ledger.generations('A-USD'), { current: 1, building: 2 });
    scene.market.counts['A-USD'] = 900;
    const old = { exchange: 'virtual', product: 'A-USD', generation: 1 };
    const reached = Promise.withResolvers<void>();
    const swapped = Promise.withResolvers<void>();
    const beforeCommit = async (changes: readonly StoreChange[]) => {
      if (!changes.some(({ name }) => name.startsWith('checkpoint/'))) return;
      reached.resolve();
      await swapped.promise;
    };
    // Its first pages are about to be committed when the new generation takes the place.
    const work = scene.worker({}, { beforeCommit }).run(none);
    await scene.run(reached.promise);
    await scene.ledger.swap({ ...old, generation: 2 }, () => {});
    swapped.resolve();
    const before = await scene.ledger.checkpoint(old);
    const [outcome] = await scene.run(work);
    assert.deepEqual([outcome?.status, outcome?.generation], ['done', 2]);
    assert.deepEqual(
      await scene.ledger.checkpoint(old),
      before,
      'the old one was still written to',
    );
    await scene.assertComplete('A-USD', 2);
  });

  it('that lacks more than what it would replace, replaces nothing', async () => {
    const scene = new VirtualScene(15, { products: { 'A-USD': 100 } });
    await scene.harvest();
    scene.market.missing = { 'A-USD': [17] };
    const [outcome] = await scene.harvest({ fullRefresh: true });
    assert.deepEqual([outcome?.status, outcome?.code], ['failed', 'REFRESH_SHORT']);
    assert.equal((await scene.ledger.generations('A-USD')).current, 1);
  });

  it('that sleeps before it takes its place first fetches what came beside it', async () => {
    const scene = new VirtualScene(17, { products: { 'A-USD': 300 } });
    await scene.harvest();
    let hasSlept = false;
    const beforeCommit = async (changes: readonly StoreChange[]) => {
      const { building } = Object(changes[0]?.value) as { building?: null };
      if (building !== null || hasSlept) return;
      hasSlept = true;
      // It has compared, and while it sleeps another process goes on with the old one.
      scene.market.counts['A-USD'] = 640;
      const [beside] = await scene.worker().run(none);
      assert.deepEqual([beside?.generation, beside?.nextId], [1, 641]);
    };
    const [outcome] = await scene.harvest({ fullRefresh: true }, { beforeCommit });
    assert.ok(hasSlept);
    assert.deepEqual([outcome?.status, outcome?.nextId], ['done', 641]);
    assert.equal((await scene.ledger.generations('A-USD')).current, 2);
    await scene.assertComplete('A-USD', 2);
  });

  it('of an exchange that has less than before replaces nothing', async () => {
    const scene = new VirtualScene(18, { products: { 'A-USD': 300 } });
    await scene.harvest();
    scene.market.counts['A-USD'] = 100;
    const [outcome] = await scene.harvest({ fullRefresh: true });
    assert.deepEqual([outcome?.status, outcome?.code], ['failed', 'REFRESH_BEHIND']);
    assert.match(outcome?.reason ?? '', /ends before trade 101, what it would replace at 301/);
    assert.equal((await scene.ledger.generations('A-USD')).current, 1);
  });

  it('is the remedy for a checkpoint that is damaged', async () => {
    const scene = new VirtualScene(19, { products: { 'A-USD': 50 } });
    await scene.harvest();
    await scene.store.commit([
      { name: 'checkpoint/virtual/A-USD/1', value: { harvest: { position: 51 } } },
    ]);
    const [damaged] = await scene.harvest();
    assert.match(damaged?.reason ?? '', /--full-refresh/);
    const [outcome] = await scene.harvest({ fullRefresh: true });
    assert.equal(outcome?.status, 'done', outcome?.reason);
    await scene.assertComplete('A-USD', 2);
  });
});

describe('a sink', () => {
  it('takes nothing under a lease that another has taken over', async () => {
    const scene = new VirtualScene(16, { products: { 'A-USD': 10 } });
    const { store, clock, folder, ledger } = scene;
    const name = 'harvest/virtual/A-USD/1';
    const options = { store, name, ttlMs: 1_000, waits: false, clock };
    const first = await Lease.acquire(options);
    await first[Symbol.asyncDispose]();
    const second = await Lease.acquire(options);
    const connector = { hasDenseIds: true, address: 'virtual' };
    const sink = new TradeSink({ store, folder, ledger, connector, clock }, 'a');
    const source = 'virtual/A-USD/1';
    sink.add(source, { exchange: 'virtual', product: 'A-USD', generation: 1, begin: 1 });
    const pages = [{ from: 1, rows: [virtualPage('A-USD', [1, 2, 3])] }];
    const batch = { source, from: 1, to: 4, isGap: false, pages };
    const moved = { source, position: 4, isEnd: false, gaps: [], commits: 1, rows: 1 };
    const commit = ({ fence }: Lease) =>
      sink.commit(batch, { ...moved, fence }, { name, fence }, none);
    await assert.rejects(commit(first), { code: 'HARVEST_STALE' });
    assert.deepEqual(await scene.ledgerIds('A-USD'), []);
    await commit(second);
    assert.deepEqual(await scene.ledgerIds('A-USD'), [1, 2, 3]);
    // An answer that was lost makes it come again: it is not stored twice.
    await commit(second);
    assert.deepEqual(await scene.ledgerIds('A-USD'), [1, 2, 3]);
    await second[Symbol.asyncDispose]();
  });
});
