// Slow: plays many random histories.

import assert from 'node:assert/strict';
import { pbkdf2 as pbkdf2Callback } from 'node:crypto';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import type { StoreChange } from 'spillway';
import { VirtualScene } from './fixtures/virtual-scene.ts';

const pbkdf2 = promisify(pbkdf2Callback);
const { INGEST_SEEDS: seeds = '12' } = process.env;
const products = { 'A-USD': 437, 'B-USD': 1_000, 'C-USD': 9, 'D-USD': 0 };

function eachSeed(work: (seed: number) => Promise<void>): () => Promise<void> {
  return async () => {
    for (let seed = 1; seed <= Number(seeds); seed += 1) {
      await work(seed).catch((error: unknown) => {
        throw new Error(`with seed ${seed}: ${String(error)}`, { cause: error });
      });
    }
  };
}

describe('a harvest from a market with faults', () => {
  it(
    'has every trade once and in order, within the rate, and never a checkpoint ahead of its file',
    eachSeed(async (seed) => {
      const scene = new VirtualScene(seed, { products, faultShare: 0.2 });
      const outcomes = await scene.harvest();
      assert.deepEqual(new Set(outcomes.map(({ status }) => status)), new Set(['done']));
      // The scene has checked at each commit that the file was there and no position went back.
      for (const product of Object.keys(products)) await scene.assertComplete(product);
      scene.assertRate();
      const [first] = outcomes;
      assert.equal(first?.trades, 437);
      assert.equal(first?.nextId, 438);
    }),
  );

  it('gives the same trades in the same order, one request at a time or many', async () => {
    const orders: (readonly number[])[] = [];
    for (const chunkConcurrency of [1, 25]) {
      const scene = new VirtualScene(7, { products, faultShare: 0.1 });
      await scene.harvest({}, { chunkConcurrency });
      orders.push(await scene.ledgerIds('B-USD'));
    }
    assert.deepEqual(orders[0], orders[1]);
  });

  it(
    'commits what is complete when it is stopped, and goes on from there',
    eachSeed(async (seed) => {
      const scene = new VirtualScene(seed, { products, faultShare: 0.1 });
      const stop = new AbortController();
      const first = scene.worker().run(stop.signal);
      await scene.clock.advance(300 + 40 * seed);
      stop.abort(new Error('stopped'));
      const outcomes = await scene.run(first);
      for (const { product, nextId, status } of outcomes) {
        const ids = await scene.ledgerIds(product);
        assert.equal(ids.length, Math.max(0, nextId - 1), `${product} ${status}`);
      }
      await scene.harvest();
      for (const product of Object.keys(products)) await scene.assertComplete(product);
      scene.assertRate();
    }),
  );

  it(
    'that dies after the file is written and before the checkpoint is, gives the same in the end',
    eachSeed(async (seed) => {
      const scene = new VirtualScene(seed, { products });
      let commits = 0;
      const isLedger = ({ name }: StoreChange) => name.startsWith('raw/');
      const beforeCommit = (changes: readonly StoreChange[]) => {
        if (!changes.some(isLedger)) return;
        commits += 1;
        // A process that is gone neither goes on nor says so.
        if (commits > seed % 5) throw Object.assign(new Error('dead'), { retryable: false });
      };
      const outcomes = await scene.harvest({}, { beforeCommit });
      assert.ok(outcomes.some(({ status }) => status === 'failed'));
      await scene.clock.advance(6_000);
      await scene.harvest();
      for (const product of Object.keys(products)) await scene.assertComplete(product);
      assert.ok((await scene.clean()) > 0, 'no file was left that no checkpoint knows');
      for (const product of Object.keys(products)) await scene.assertComplete(product);
      assert.equal(await scene.clean(), 0);
    }),
  );

  it('writes one file for a range in many attempts, and another under each lease', async () => {
    const scene = new VirtualScene(3, { products: { 'A-USD': 95 } });
    let refusals = 0;
    const isLedger = ({ name }: StoreChange) => name.startsWith('raw/');
    const beforeCommit = (changes: readonly StoreChange[]) => {
      if (!changes.some(isLedger)) return;
      refusals += 1;
      throw Object.assign(new Error('lost'), { retryable: refusals < 3 });
    };
    await scene.harvest({}, { beforeCommit });
    assert.deepEqual([...scene.folder.writes.values()], [3]);
    await scene.clock.advance(6_000);
    await scene.harvest();
    await scene.harvest({ fullRefresh: true });
    const names = [...scene.folder.writes.keys()].map((path) => basename(path));
    const bare = names.map((name) => name.replace(/\.f\d+/, ''));
    assert.deepEqual(bare, ['1-95.g1.jsonl.zst', '1-95.g1.jsonl.zst', '1-95.g2.jsonl.zst']);
    await scene.assertComplete('A-USD', 1);
    await scene.assertComplete('A-USD', 2);
  });

  it('writes a small batch at once, also when all threads are busy with other work', async () => {
    const busy = Array.from({ length: 4 }, () => pbkdf2('', '', 100_000, 64, 'sha512'));
    const scene = new VirtualScene(3, { products: { 'A-USD': 95 } });
    await scene.harvest();
    // Virtual time runs past every deadline while a real thread is waited for.
    assert.deepEqual([...scene.folder.writes.values()], [1]);
    await Promise.all(busy);
  });

  it('that sleeps through its lease and then writes replaces no file that counts', async () => {
    const scene = new VirtualScene(4, { products: { 'A-USD': 95 } });
    const sleep = Promise.withResolvers<void>();
    const wake = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    let isAsleep = false;
    const write: typeof scene.folder.write = async (path, bytes) => {
      isAsleep = true;
      sleep.resolve();
      await wake.promise;
      await scene.folder.write(path, bytes);
      written.resolve();
    };
    const folder = Object.create(scene.folder, { write: { value: write } });
    const beforeCommit = () => {
      if (isAsleep) throw new Error('whoever sleeps renews no lease');
    };
    // What it has got is not what the next one gets, so the files are not the same.
    scene.market.missing = { 'A-USD': [17] };
    const sleeper = scene.worker({}, { folder, beforeCommit }).run(new AbortController().signal);
    await scene.run(sleep.promise);
    await assert.rejects(scene.clean(), { code: 'LEASE_HELD' });
    const [lost] = await scene.run(sleeper);
    assert.equal(lost?.code, 'LEASE_LOST');
    scene.market.missing = {};
    await scene.clock.advance(6_000);
    await scene.harvest();
    wake.resolve();
    await written.promise;
    await scene.assertComplete('A-USD');
    assert.equal(await scene.clean(), 1, 'what the sleeper wrote');
    await scene.assertComplete('A-USD');
  });

  it('has one writer for a product: the others skip it, and say why', async () => {
    const scene = new VirtualScene(5, { products: { 'A-USD': 800 } });
    const signal = new AbortController().signal;
    const both = [scene.worker(), scene.worker()].map((worker) => worker.run(signal));
    const outcomes = (await scene.run(Promise.all(both))).flat();
    const statuses = outcomes.map(({ status }) => status).sort();
    assert.deepEqual(statuses, ['done', 'skipped']);
    const skipped = outcomes.find(({ status }) => status === 'skipped');
    assert.equal(skipped?.reason, 'locked_by_another_worker');
    await scene.assertComplete('A-USD');
    scene.assertRate();
  });

  it('in which one product is broken brings the others up all the same', async () => {
    const scene = new VirtualScene(11, { products, broken: ['A-USD'], faultShare: 0.05 });
    const outcomes = await scene.harvest({}, { mode: 'strict' });
    const statuses = outcomes.map(({ product, status }) => `${product} ${status}`);
    assert.deepEqual(statuses, ['A-USD failed', 'B-USD done', 'C-USD done', 'D-USD done']);
    await scene.assertComplete('B-USD');
    // A batch that fails moves nothing: no file is known, no checkpoint was made.
    assert.deepEqual(await scene.ledgerIds('A-USD'), []);
    const of = { exchange: 'virtual', product: 'A-USD', generation: 1 };
    assert.equal(await scene.ledger.checkpoint(of), undefined);
  });
});
