import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore, type Store, seededRandom, systemClock } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { barrier, type Handler, Shop } from './fixtures/shop.ts';
import { crowd } from './fixtures/site.ts';

describe('what idempotency remembers', () => {
  it('forgets a key in time', async () => {
    const clock = new VirtualClock();
    await using shop = await Shop.open({ clock, ageMs: 1000 });
    await shop.send('a');
    await clock.advance(999);
    await shop.send('a');
    assert.equal(shop.done, 1);
    await clock.advance(1);
    await shop.send('a');
    assert.equal(shop.done, 2);
  });

  it('is what its store has room for', async () => {
    const store = new MemoryStore({ recordsMax: 3, whenFull: 'forget' });
    await using shop = await Shop.open({ store });
    for (const key of ['a', 'b', 'c', 'd']) await shop.send(key);
    for (const key of ['d', 'c', 'b']) await shop.send(key);
    assert.equal(shop.done, 4);
    await shop.send('a');
    assert.equal(shop.done, 5);
    await using strict = await Shop.open({ store: new MemoryStore({ recordsMax: 1 }) });
    assert.equal((await strict.send('a')).status, 201);
    const full = await strict.send('b');
    assert.deepEqual([full.status, full.json.code], [503, 'STORE_FULL']);
    assert.equal(strict.done, 1);
  });

  it('answers 503 while its store is down, and does nothing', async () => {
    const network = new VirtualClock();
    const store = new FaultyStore(new MemoryStore(), { clock: network });
    await using shop = await Shop.open({ store, deadlineMs: 10 });
    store.down = true;
    assert.equal((await shop.send('k')).json.code, 'STORE_UNREACHABLE');
    assert.equal(shop.done, 0);
  });
});

describe('idempotency, shared by many', () => {
  const open = (store: Store, clock: VirtualClock, handler?: Handler) =>
    Shop.open({ store, clock, ageMs: 60_000, runMsMax: 5000 }, handler);

  it('gives the answer of one instance at another', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    await using a = await open(store, clock);
    await using b = await open(store, clock);
    const first = await a.send('k');
    const again = await b.send('k');
    assert.deepEqual([again.status, again.text], [201, first.text]);
    assert.equal((await b.send('k', '/order', { body: { n: 2 } })).status, 422);
    assert.equal(b.done, 0);
  });

  it('does nothing twice, whatever happens on the way to the store', async () => {
    const store = new MemoryStore();
    const random = seededRandom(7);
    const done = new Map<string, number>();
    const handler: Handler = async ({ headers }) => {
      const key = String(headers['idempotency-key']);
      done.set(key, (done.get(key) ?? 0) + 1);
      return { key, n: done.get(key) };
    };
    const open = () => {
      const faults = { clock: systemClock, random, delayMsMax: 2, faultShare: 0.15 };
      const line = new FaultyStore(store, faults);
      return Shop.open({ store: line, random, deadlineMs: 1_000 }, handler);
    };
    await using a = await open();
    await using b = await open();
    const replies = await crowd(400, 32, (at) => (at % 2 === 0 ? a : b).send(`k${at % 40}`));
    for (const { status, json } of replies) {
      if (status === 200) assert.equal(json.n, 1);
      else assert.ok(['IDEMPOTENCY_RUNNING', 'STORE_UNREACHABLE'].includes(String(json.code)));
    }
    assert.deepEqual([...new Set(done.values())], [1]);
    assert.ok(done.size >= 30, `${done.size} of 40`);
    assert.ok(replies.filter(({ headers }) => headers['idempotency-replayed']).length > 50);
  });

  it('does the first request though the answer of the store to its claim was lost', async () => {
    const inner = new MemoryStore();
    let lost = 0;
    const store: Store = {
      read: (names, options) => inner.read(names, options),
      list: (prefix, options) => inner.list(prefix, options),
      async commit(changes, options) {
        const done = await inner.commit(changes, options);
        lost += 1;
        if (lost === 1) throw new Error('the connection broke');
        return done;
      },
      [Symbol.asyncDispose]: async () => {},
    };
    await using shop = await Shop.open({ store });
    assert.equal((await shop.send('k')).status, 201);
    assert.equal((await shop.send('k')).headers['idempotency-replayed'], 'true');
    assert.equal(shop.done, 1);
  });

  it('keeps the answer of a request that took too long, if nobody came meanwhile', async () => {
    const clock = new VirtualClock();
    const gate = barrier();
    await using shop = await open(new MemoryStore({ clock }), clock, gate.wait);
    const slow = shop.send('k');
    await gate.begun;
    await clock.advance(5_000);
    gate.open();
    await slow;
    assert.equal((await shop.send('k')).headers['idempotency-replayed'], 'true');
  });

  it('leaves the key to the request that took it over when the late one fails', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const gate = barrier();
    await using late = await open(store, clock, async () => {
      await gate.wait();
      throw new Error('too late');
    });
    const other = barrier();
    await using b = await open(store, clock, other.wait);
    const failing = late.send('k');
    await gate.begun;
    await clock.advance(5_000);
    const running = b.send('k');
    await other.begun;
    gate.open();
    assert.equal((await failing).status, 500);
    assert.equal((await b.send('k')).json.code, 'IDEMPOTENCY_RUNNING');
    other.open();
    await running;
    assert.equal((await b.send('k')).headers['idempotency-replayed'], 'true');
    assert.equal(b.done, 1);
  });

  it('frees the key of an instance that died, at its deadline and not before', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const gate = barrier();
    await using dead = await open(store, clock, gate.wait);
    await using b = await open(store, clock);
    const lost = dead.send('k');
    await gate.begun;
    assert.equal((await b.send('k')).json.code, 'IDEMPOTENCY_RUNNING');
    await clock.advance(4999);
    assert.equal((await b.send('k')).status, 409);
    await clock.advance(1);
    const done = await b.send('k');
    assert.equal(done.status, 201);
    // It was not dead, only late: what it has to say does not count any more.
    gate.open();
    await lost;
    assert.equal((await dead.send('k')).text, done.text);
    assert.equal(b.done, 1);
  });
});
