import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cursorSource, Harvest, MemoryStore, rangeSource, storeSink } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { CheckedSink, numbers, rowsOf, scene } from './harvest-scene.ts';

describe('cursorSource', () => {
  it('follows cursors, each found in the answer before, until one leads nowhere', async () => {
    const { clock, store, server } = scene();
    const sink = storeSink<number, string>(store, (batch) =>
      batch.pages.map(({ from, rows }) => ({ name: `rows/${from}`, ifVersion: 0, value: rows })),
    );
    let newest = 5;
    const source = cursorSource<number, string>({
      name: 'c',
      from: 'c0',
      fetch: async (cursor, signal) => {
        const at = Number(cursor.slice(1));
        const next = at < newest ? `c${at + 1}` : cursor;
        return server.answer(at, { rows: at < newest ? [at] : [], next }, signal);
      },
    });
    const harvest = new Harvest<number, string>({ sink, store, clock });
    const [first] = await clock.run(harvest.run([source]));
    assert.deepEqual([first?.status, first?.checkpoint?.position], ['done', 'c5']);
    newest = 7;
    const [second] = await clock.run(harvest.run([source]));
    assert.deepEqual([second?.checkpoint?.position, second?.checkpoint?.rows], ['c7', 7]);
    assert.equal(server.inFlightMax, 1);
  });

  it('ends for good at a cursor that has no next', async () => {
    const { clock, store, server } = scene();
    const source = cursorSource<number, number>({
      name: 'c',
      from: 0,
      fetch: (at, signal) =>
        server.answer(at, { rows: [at], next: at < 3 ? at + 1 : undefined }, signal),
    });
    const harvest = new Harvest<number>({ sink: storeSink(store, () => []), store, clock });
    const [outcome] = await clock.run(harvest.run([source]));
    assert.deepEqual([outcome?.checkpoint?.isEnd, outcome?.checkpoint?.rows], [true, 4]);
    await clock.run(harvest.run([source]));
    assert.equal(server.arrivals.length, 4);
  });
});

describe('rangeSource', () => {
  it('notes the ids that a page does not have, or tries again, as the source says', async () => {
    const { clock, store, sink } = scene();
    for (const [short, gaps, calls] of [
      ['gap', 2, 1],
      ['accept', 0, 1],
      ['retry', 1, 3],
    ] as const) {
      let asked = 0;
      const source = rangeSource<number>({
        name: short,
        from: 0,
        to: 10,
        pageSize: 10,
        short,
        idOf: (id) => id,
        fetch: async () => {
          asked += 1;
          return [9, 4, 4, 3, 2, 12, -1, 0, 1];
        },
      });
      const harvest = new Harvest<number>({ sink, store, clock, attemptsMax: 3 });
      const [outcome] = await clock.run(harvest.run([source]));
      assert.equal(outcome?.checkpoint?.gaps.length, short === 'gap' ? 1 : gaps, short);
      assert.equal(asked, calls, short);
      if (short === 'gap') assert.deepEqual(await rowsOf(store, 'gap'), [0, 1, 2, 3, 4, 9]);
      if (short === 'retry') assert.match(outcome?.checkpoint?.gaps[0]?.reason ?? '', /6 of/);
    }
  });
});

describe('storeSink', () => {
  it('commits nothing for a stale fence, and the same commit only once', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const sink = new CheckedSink(store);
    await store.commit([{ name: 'lease/l/fence', value: 1 }]);
    const { records } = await store.read(['lease/l/fence']);
    const fence = { name: 'l', fence: records[0]?.version ?? 0 };
    const { signal } = new AbortController();
    const batch = (from: number) => {
      const pages = [{ from, rows: numbers(from, from + 10) }];
      return { source: 's', from, to: from + 10, isGap: false, pages };
    };
    const at = (commits: number) => {
      const rows = commits * 10;
      const position = commits * 10;
      return { source: 's', position, isEnd: false, gaps: [], commits, rows, fence: fence.fence };
    };
    await sink.commit(batch(0), at(1), fence, signal);
    await sink.commit(batch(0), at(1), fence, signal);
    await assert.rejects(sink.commit(batch(20), at(3), fence, signal), { code: 'HARVEST_STALE' });
    await store.commit([{ name: 'lease/l/fence', value: 2 }]);
    await assert.rejects(sink.commit(batch(10), at(2), fence, signal), { code: 'HARVEST_STALE' });
    assert.deepEqual(await rowsOf(store, 's'), numbers(0, 10));
  });
});
