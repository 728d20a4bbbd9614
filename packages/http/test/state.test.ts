import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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
    state.update(() => own);
    own.items.push({ name: 'stolen', count: 1 });
    assert.deepEqual(state.value, { owner: 'bob', items: [] });
    assert.deepEqual(before, cart());
  });

  it('changes at once, and counts versions', async () => {
    const state = new State({ count: 0 });
    const changed = state.update((draft) => {
      draft.count += 1;
    });
    assert.deepEqual(state.value, { count: 1 });
    assert.equal(state.version, 1);
    assert.deepEqual(changed, { count: 1 });
  });

  it('is as it was after a change that throws or is none', async () => {
    const state = new State(cart());
    let told = 0;
    using _told = state.subscribe(() => {
      told += 1;
    });
    const broken = () =>
      state.update((draft) => {
        draft.owner = 'eve';
        throw new Error('half way');
      });
    assert.throws(broken, /half way/);
    assert.throws(() => state.update(() => ({ owner: Number.NaN }) as unknown as Cart), /JSON/);
    state.update((draft) => ({ ...draft }));
    await settled();
    assert.deepEqual([state.value, state.version, told], [cart(), 0, 0]);
  });

  it('calls each subscriber once for all changes of one turn', async () => {
    const state = new State({ count: 0 });
    const told: number[] = [];
    const note = () => told.push(state.value.count);
    const first = state.subscribe(note);
    using _second = state.subscribe(note);
    for (let n = 0; n < 100; n += 1) {
      state.update((draft) => {
        draft.count += 1;
      });
    }
    assert.deepEqual(told, []);
    await settled();
    assert.deepEqual(told, [100, 100]);
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    state.update(() => ({ count: 0 }));
    await settled();
    assert.deepEqual(told, [100, 100, 0]);
    assert.deepEqual([state.version, state.listeners], [101, 1]);
  });

  it('does not call a subscriber that left while others were called', async () => {
    const state = new State(0);
    const told: string[] = [];
    using _first = state.subscribe(() => {
      told.push('first');
      second[Symbol.dispose]();
    });
    const second = state.subscribe(() => told.push('second'));
    state.update((n) => n + 1);
    await settled();
    assert.deepEqual(told, ['first']);
  });
});
