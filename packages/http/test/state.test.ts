import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { MemoryStore, SqliteStore } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { State } from 'spillway-http';

interface Cart {
  owner: string;
  items: { name: string; count: number }[];
}

const cart = (): Cart => ({ owner: 'ada', items: [{ name: 'pen', count: 1 }] });
const settled = () => new Promise<void>((resolve) => process.nextTick(resolve));

describe('State', () => {
  it('gives out snapshots that nobody can change, and takes none that somebody can', async () => {
    const initial = cart();
    const state = new State(initial);
    initial.owner = 'eve';
    const before = state.value;
    const draft = before as Cart;
    assert.throws(() => draft.items.push({ name: 'ink', count: 2 }), TypeError);
    assert.throws(() => Object.assign(draft.items[0] as object, { count: 9 }), TypeError);
    const own = { owner: 'bob', items: [] as Cart['items'] };
    await state.update(() => own);
    own.items.push({ name: 'stolen', count: 1 });
    assert.deepEqual(state.value, { owner: 'bob', items: [] });
    assert.deepEqual(before, cart());
  });

  it('changes at once in memory, and counts versions', async () => {
    const state = new State({ count: 0 });
    const done = state.update((draft) => {
      draft.count += 1;
    });
    assert.deepEqual(state.value, { count: 1 });
    assert.equal(state.version, 1);
    assert.deepEqual(await done, { count: 1 });
  });

  it('is as it was after a change that throws, is aborted or is none', async () => {
    const state = new State(cart());
    let told = 0;
    using _told = state.subscribe(() => {
      told += 1;
    });
    const broken = state.update((draft) => {
      draft.owner = 'eve';
      throw new Error('half way');
    });
    await assert.rejects(broken, /half way/);
    await assert.rejects(
      state.update(
        (draft) => {
          draft.owner = 'eve';
        },
        { signal: AbortSignal.abort(new Error('gone')) },
      ),
      /gone/,
    );
    await assert.rejects(
      state.update(() => ({ owner: Number.NaN }) as unknown as Cart),
      /JSON/,
    );
    await state.update((draft) => ({ ...draft }));
    await settled();
    assert.deepEqual([state.value, state.version, told], [cart(), 0, 0]);
  });

  it('tells each who subscribed once of all changes of one turn', async () => {
    const state = new State({ count: 0 });
    const told: number[] = [];
    const note = () => told.push(state.value.count);
    const first = state.subscribe(note);
    using _second = state.subscribe(note);
    for (let n = 0; n < 100; n += 1) {
      void state.update((draft) => {
        draft.count += 1;
      });
    }
    assert.deepEqual(told, []);
    await settled();
    assert.deepEqual(told, [100, 100]);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await state.update(() => ({ count: 0 }));
    await settled();
    assert.deepEqual(told, [100, 100, 0]);
    assert.deepEqual(state.stats, { kind: 'state', version: 101, listeners: 1, failures: 0 });
  });

  it('does not tell one who left while the others were told', async () => {
    const state = new State(0);
    const told: string[] = [];
    using _first = state.subscribe(() => {
      told.push('first');
      second[Symbol.dispose]();
    });
    const second = state.subscribe(() => told.push('second'));
    await state.update((n) => n + 1);
    await settled();
    assert.deepEqual(told, ['first']);
  });
});

describe('a State in a store', () => {
  it('is seen by others after their next look, or as soon as they are asked to look', async () => {
    const clock = new VirtualClock();
    const shared = { store: new MemoryStore({ clock }), name: 'n', initial: { n: 0 }, clock };
    await using one = await State.open(shared);
    await using two = await State.open({ ...shared, pollMs: 100 });
    const seen: number[] = [];
    using _seen = two.subscribe(() => seen.push(two.value.n));
    assert.deepEqual(await one.update(() => ({ n: 1 })), { n: 1 });
    await clock.advance(99);
    assert.deepEqual(two.value, { n: 0 });
    await clock.advance(1);
    assert.deepEqual([two.value, two.version, seen], [{ n: 1 }, one.version, [1]]);
    await one.update(() => ({ n: 2 }));
    await two.refresh();
    assert.deepEqual(two.value, { n: 2 });
  });

  it('goes on looking after the store failed, and stops when it is disposed', async () => {
    const clock = new VirtualClock();
    const store = new FaultyStore(new MemoryStore({ clock }), { clock });
    const shared = { store, name: 'n', initial: 0, clock };
    const state = await clock.run(State.open({ ...shared, pollMs: 100 }));
    store.down = true;
    await clock.advance(10_000);
    assert.ok(state.stats.failures > 0);
    store.down = false;
    const other = await clock.run(State.open(shared));
    await clock.run(other.update(() => 5));
    await clock.advance(10_000);
    assert.equal(state.value, 5);
    await state[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    await clock.advance(1_000);
    assert.equal(clock.pending, 0);
  });

  it('loses no update of many at once', async () => {
    const shared = { store: new MemoryStore(), name: 'n', initial: { n: 0 } };
    const states = await Promise.all([1, 2, 3].map(() => State.open(shared)));
    const adds = Array.from({ length: 300 }, (_, at) =>
      states[at % 3]?.update((draft) => {
        draft.n += 1;
      }),
    );
    await Promise.all(adds);
    for (const state of states) {
      await state.refresh();
      assert.equal(state.value.n, 300);
      await state[Symbol.asyncDispose]();
    }
  });
});

describe('a State in a store that many processes change', () => {
  it('loses no update, and is told of the last one', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-state-'));
    const path = join(folder.path, 'state');
    const initial = { sum: 0 };
    await using store = await SqliteStore.open({ path });
    const open = () => State.open({ store, name: 'sum', initial, pollMs: 10 });
    await using state = await open();
    const seen: number[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    using _seen = state.subscribe(() => {
      seen.push(state.value.sum);
      if (state.value.sum === 150) resolve();
    });
    const program = join(import.meta.dirname, 'fixtures', 'state-child.ts');
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const children = [1, 2].map(() => {
      const args = [program, path, '50'];
      return once(spawn(process.execPath, args, { env, stdio: 'inherit' }), 'close');
    });
    const own = Array.from({ length: 50 }, () => {
      return state.update((draft) => {
        draft.sum += 1;
      });
    });
    await Promise.all(own);
    assert.deepEqual(await Promise.all(children), [
      [0, null],
      [0, null],
    ]);
    await promise;
    assert.deepEqual(
      seen,
      seen.toSorted((a, b) => a - b),
    );
    await using again = await open();
    assert.deepEqual(again.value, { sum: 150 });
  });
});
