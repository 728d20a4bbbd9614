import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Snapshot, type View } from 'spillway';
import { explore } from 'spillway/testing';

describe('Snapshot', () => {
  it('shows a task one version from start to end, whatever is published meanwhile', async () => {
    const snapshot = new Snapshot({ left: 0, right: 0 });
    const task = async () => {
      using view = snapshot.acquire();
      const { left } = view.value;
      await undefined;
      assert.equal(view.value.right, left);
      return view.version;
    };
    const first = task();
    assert.equal(snapshot.publish({ left: 1, right: 1 }), 1);
    const second = task();
    assert.equal(snapshot.publish({ left: 2, right: 2 }), 2);
    assert.deepEqual(await Promise.all([first, second]), [0, 1]);
    assert.deepEqual(snapshot.current, { left: 2, right: 2 });
    assert.deepEqual(snapshot.stats.held, [{ version: 2, views: 0 }]);
    assert.deepEqual([snapshot.stats.kind, snapshot.stats.version], ['snapshot', 2]);
  });

  it('releases a replaced version when its last view is disposed, and only once', () => {
    const released: [string, number][] = [];
    const snapshot = new Snapshot('a', {
      release: (value, version) => released.push([value, version]),
    });
    const one = snapshot.acquire();
    const two = snapshot.acquire();
    snapshot.publish('b');
    one[Symbol.dispose]();
    one[Symbol.dispose]();
    assert.deepEqual(released, []);
    assert.deepEqual(snapshot.stats.held, [
      { version: 0, views: 1 },
      { version: 1, views: 0 },
    ]);
    two[Symbol.dispose]();
    two[Symbol.dispose]();
    assert.deepEqual(released, [['a', 0]]);
  });

  it('releases a version nobody views as soon as it is replaced, and never the current', () => {
    const released: string[] = [];
    const snapshot = new Snapshot<string | undefined>(undefined, {
      release: (value) => released.push(value ?? 'nothing'),
    });
    snapshot.publish('a');
    const view = snapshot.acquire();
    view[Symbol.dispose]();
    assert.deepEqual(released, ['nothing']);
    snapshot.publish(undefined);
    assert.deepEqual(released, ['nothing', 'a']);
  });

  it('takes over the version numbers of another, as long as they grow', () => {
    const snapshot = new Snapshot<string | undefined>(undefined);
    assert.equal(snapshot.publish('seven', 7), 7);
    assert.equal(snapshot.publish('eight'), 8);
    assert.throws(() => snapshot.publish('old', 8), /version: must be an integer from 9, got 8/);
    assert.throws(() => snapshot.publish('odd', 9.5), /version: must be an integer from 9/);
    assert.equal(snapshot.current, 'eight');
  });

  it('refuses to show a version after its view was disposed', () => {
    const snapshot = new Snapshot('a');
    const view = snapshot.acquire();
    view[Symbol.dispose]();
    assert.throws(() => view.value, /view: must be read before it is disposed/);
    assert.throws(() => view.version, /view: must be read before it is disposed/);
  });

  it('has already replaced and let go when release throws or publishes again', () => {
    const released: number[] = [];
    const snapshot: Snapshot<string> = new Snapshot('a', {
      release: (_, version) => {
        released.push(version);
        if (version === 0) throw new Error('no release today');
        if (version === 1) snapshot.publish('nested');
      },
    });
    assert.throws(() => snapshot.publish('b'), /no release today/);
    assert.equal(snapshot.current, 'b');
    assert.equal(snapshot.publish('c'), 2);
    assert.equal(snapshot.current, 'nested');
    assert.deepEqual(snapshot.stats.held, [{ version: 3, views: 0 }]);
    assert.deepEqual([snapshot.stats.kind, snapshot.stats.version], ['snapshot', 3]);
    assert.deepEqual(released, [0, 1, 2]);
  });

  it('holds exactly what is current or viewed, in any order of events', async () => {
    await explore(500, async (random) => {
      const released = new Set<number>();
      const snapshot = new Snapshot(
        { version: 0 },
        {
          release: (value, version) => {
            assert.equal(value.version, version);
            assert.ok(!released.has(version), 'released twice');
            released.add(version);
          },
        },
      );
      const views: { view: View<{ version: number }>; version: number }[] = [];
      for (let step = 0; step < 60; step += 1) {
        const { version } = snapshot.stats;
        const chance = random();
        if (chance < 0.3) snapshot.publish({ version: version + 1 });
        else if (chance < 0.65) views.push({ view: snapshot.acquire(), version });
        else views.splice(Math.floor(random() * views.length), 1)[0]?.view[Symbol.dispose]();

        for (const { view, version: own } of views) {
          assert.equal(view.version, own);
          assert.equal(view.value.version, own);
        }
        const wanted = new Set([...views.map((held) => held.version), snapshot.stats.version]);
        const held = snapshot.stats.held.map((one) => one.version);
        assert.deepEqual(new Set(held), wanted);
        const count = snapshot.stats.held.reduce((sum, one) => sum + one.views, 0);
        assert.equal(count, views.length);
        assert.equal(released.size + held.length, snapshot.stats.version + 1);
      }
    });
  });
});
