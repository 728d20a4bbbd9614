import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, it } from 'node:test';
import {
  Harvest,
  type HarvestAnswer,
  type HarvestSource,
  type Json,
  MemoryStore,
  rangeSource,
  type Store,
  storeSink,
} from 'spillway';
import { ids, numbers, rowsOf, scene, wait } from './harvest-scene.ts';

/** Pages found one after another, each by the answer to the one before. */
function cursors<Position extends Json>(
  from: Position,
  fetch: (cursor: Position, signal: AbortSignal) => Promise<HarvestAnswer<number, Position>>,
): HarvestSource<number, Position> {
  return {
    name: 'c',
    from,
    pageAt: (position) => ({ from: position, to: undefined }),
    fetch: (page, signal) => fetch(page.from, signal),
  };
}

describe('a source whose pages are not known before', () => {
  it('follows cursors, each found in the answer before, until one leads nowhere', async () => {
    const { clock, store, server } = scene();
    const sink = storeSink<number, string>(store, (batch) =>
      batch.pages.map(({ from, rows }) => ({ name: `rows/${from}`, ifVersion: 0, value: rows })),
    );
    let newest = 5;
    const source = cursors<string>('c0', async (cursor, signal) => {
      const at = Number(cursor.slice(1));
      const isEnd = at === newest;
      const next = isEnd ? cursor : `c${at + 1}`;
      return server.answer(at, { rows: isEnd ? [] : [at], next, isEnd }, signal);
    });
    const harvest = new Harvest<number, string>({ sink, store, clock });
    const [first] = await clock.run(harvest.run([source]));
    assert.deepEqual([first?.status, first?.checkpoint?.position], ['done', 'c5']);
    newest = 7;
    const [second] = await clock.run(harvest.run([source]));
    assert.deepEqual([second?.checkpoint?.position, second?.checkpoint?.rows], ['c7', 7]);
    assert.equal(server.inFlightMax, 1);
  });

  it('fetches and commits in the AsyncLocalStorage context of the harvest', async () => {
    const { clock, store, server } = scene();
    const request = new AsyncLocalStorage<string>();
    const seen = new Set<string | undefined>();
    const sink = storeSink<number>(store, () => {
      seen.add(`commit ${request.getStore()}`);
      return [];
    });
    const source = cursors<number>(0, async (at, signal) => {
      seen.add(`fetch ${request.getStore()}`);
      return server.answer(at, { rows: [at], next: at < 9 ? at + 1 : undefined }, signal);
    });
    const harvest = new Harvest<number>({ sink, store, clock, batchPages: 3 });
    const [outcome] = await clock.run(request.run('night', () => harvest.run([source])));
    assert.equal(outcome?.status, 'done');
    assert.deepEqual([...seen].sort(), ['commit night', 'fetch night']);
    assert.equal(harvest.stats.kind, 'harvest');
  });

  it('takes one of two answers for a late page, and no row twice', async () => {
    const { clock, store } = scene();
    const rows: number[] = [];
    const inner = storeSink<number>(store, (batch) => {
      rows.push(...batch.pages.flatMap((page) => page.rows));
      return [];
    });
    const sink: typeof inner = {
      load: inner.load,
      commit: async (batch, checkpoint, fence, signal) => {
        await wait(clock, 30, signal);
        await inner.commit(batch, checkpoint, fence, signal);
      },
    };
    const asked: number[] = [];
    const source = cursors<number>(0, async (at, signal) => {
      asked.push(at);
      // The first answer for page 5 comes only while page 6 is committed.
      const isLate = at === 5 && asked.length === 6;
      await wait(clock, isLate ? 140 : 20 + at, signal);
      return { rows: [at], next: at < 9 ? at + 1 : undefined };
    });
    const own = { sink, store, clock, windowMax: 1, batchMsMax: 0 };
    const [outcome] = await clock.run(new Harvest<number>(own).run([source]));
    assert.equal(outcome?.status, 'done');
    assert.deepEqual(asked.filter((at) => at === 5).length, 2);
    assert.deepEqual(rows, numbers(0, 10));
  });

  it('ends for good at a cursor that has no next', async () => {
    const { clock, store, server } = scene();
    const source = cursors<number>(0, (at, signal) =>
      server.answer(at, { rows: [at], next: at < 3 ? at + 1 : undefined }, signal),
    );
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

describe('rangeSource: options', () => {
  it('are checked when it is made, and unknown ones refused', () => {
    const rule = {
      name: 'x',
      from: 1,
      to: 9,
      pageSize: 2,
      idOf: Number,
      fetch: async () => [],
    };
    const wrong = (change: object) => () => rangeSource<number>({ ...rule, ...change });
    assert.throws(wrong({ pagesize: 2 }), /rangeSource: pagesize: is not an option; did you mean/);
    assert.throws(wrong({ to: 0 }), /rangeSource: to: must be an integer from 1, got 0/);
    assert.throws(wrong({ pageSize: '2' }), /rangeSource: pageSize: must be an integer from 1/);
    assert.throws(wrong({ idOf: undefined }), /rangeSource: idOf: must be a function/);
    assert.throws(wrong({ short: 'no' }), /rangeSource: short: must be 'gap' or 'retry' or/);
  });
});

describe('storeSink', () => {
  const { signal } = new AbortController();
  const batch = (from: number) => {
    const pages = [{ from, rows: numbers(from, from + 10) }];
    return { source: 's', from, to: from + 10, isGap: false, pages };
  };
  const checkpoint = (commits: number, fence: number) => {
    const count = commits * 10;
    return { source: 's', position: count, isEnd: false, gaps: [], commits, rows: count, fence };
  };

  /** A sink, the fence of a lease, and how many commits its store made. */
  async function open() {
    const store = new MemoryStore();
    const renew = async () => (await store.commit([{ name: 'lease/l/fence', value: 1 }]))?.version;
    const fence = (await renew()) ?? 0;
    const made: unknown[] = [];
    const counting: Store = {
      read: (names) => store.read(names),
      list: (prefix, options) => store.list(prefix, options),
      commit: async (changes) => {
        const done = await store.commit(changes);
        if (done !== undefined) made.push(done);
        return done;
      },
      [Symbol.asyncDispose]: async () => {},
    };
    const sink = storeSink<number>(counting, ({ from, pages }) =>
      pages.map(({ rows }) => ({ name: `rows/${from}`, value: rows })),
    );
    const commit = (n: number) =>
      sink.commit(batch((n - 1) * 10), checkpoint(n, fence), { name: 'l', fence }, signal);
    return { commit, made, renew };
  }

  it('makes the same commit only once, even when two of its attempts meet', async () => {
    const { commit, made } = await open();
    await commit(1);
    await commit(1);
    await Promise.all([commit(2), commit(2)]);
    assert.equal(made.length, 2);
  });

  it('commits nothing that does not follow, and nothing under a stale fence', async () => {
    const { commit, made, renew } = await open();
    await commit(1);
    await assert.rejects(commit(3), { code: 'HARVEST_STALE' });
    await renew();
    await assert.rejects(commit(2), { code: 'HARVEST_STALE', retryable: false });
    assert.equal(made.length, 1);
  });

  it('is not gone on with under an older lease than its checkpoint has', async () => {
    const { clock, server, store, sink } = scene();
    const value = checkpoint(1, 1e6);
    await store.commit([{ name: 'harvest/s', value }]);
    const harvest = new Harvest<number>({ sink, store, clock });
    const [outcome] = await clock.run(harvest.run([ids(server, 's', 100)]));
    assert.equal(outcome?.status, 'failed');
    assert.match(String(outcome?.error), /its checkpoint is of fence 1000000/);
    assert.equal(server.arrivals.length, 0);
  });
});
