import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Harvest, rangeSource } from 'spillway';
import { failure, ids, numbers, rowsOf, scene, wait } from './harvest-scene.ts';

const codeOf = (outcome: { readonly error: unknown } | undefined): unknown =>
  Object(outcome?.error).code;

describe('Harvest', () => {
  it('commits every row once, in order, with a checkpoint', async () => {
    const { clock, server, store, sink, harvest } = scene({ errorShare: 0.1 });
    const [outcome] = await clock.run(harvest.run([ids(server, 'a', 995)]));
    assert.equal(outcome?.status, 'done');
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 995));
    assert.deepEqual(sink.broken, []);
    const { position, rows, gaps, isEnd } = outcome?.checkpoint ?? {};
    assert.deepEqual(
      { position, rows, gaps, isEnd },
      { position: 995, rows: 995, gaps: [], isEnd: false },
    );
    assert.equal(clock.pending, 0, 'no timer is left behind');
  });

  it('goes on from the checkpoint when the range has grown, asking nothing twice', async () => {
    const { clock, server, store, sink, harvest } = scene();
    await clock.run(harvest.run([ids(server, 'a', 95)]));
    await clock.run(harvest.run([ids(server, 'a', 95)]));
    assert.equal(server.arrivals.length, 10);
    await clock.run(harvest.run([ids(server, 'a', 96)]));
    assert.equal(server.arrivals.length, 11);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 96));
    assert.deepEqual(sink.broken, []);
  });

  it('tells the bucket of a 429, and fetches the page again when it may', async () => {
    let isNew = true;
    const refuse = (from: number) => {
      if (from !== 30 || !isNew) return;
      isNew = false;
      throw failure(429, { retryAfterMs: 5_000 });
    };
    const { clock, server, store, bucket, harvest } = scene({ refuse });
    const [outcome] = await clock.run(harvest.run([ids(server, 'a', 500)]));
    assert.equal(outcome?.status, 'done');
    assert.equal(bucket.stats.slowed, 1);
    assert.equal(harvest.stats.throttled, 1);
    assert.equal(server.asked.get(30), 2);
    const pauses = server.arrivals.slice(1).map((at, i) => at - (server.arrivals[i] ?? 0));
    assert.ok(Math.max(...pauses) >= 5_000, `${Math.max(...pauses)} ms`);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 500));
  });

  for (const mode of ['prefix', 'strict'] as const) {
    it(`keeps the bytes that wait for a commit within their bound, in ${mode} mode`, async () => {
      const { clock, server, store, sink, harvest } = scene({
        ...{ mode, windowBytesMax: 10_000, batchPages: 20, latencyMs: () => 1_000 },
      });
      const windows: number[] = [];
      const sources = ['a', 'b', 'c'].map((name) => {
        const source = ids(server, name, 400);
        const fetch: typeof source.fetch = async (page, signal) => {
          windows.push(harvest.stats.window);
          return { ...(await source.fetch(page, signal)), bytes: 4_000 };
        };
        return { ...source, fetch };
      });
      const outcomes = await clock.run(harvest.run(sources));
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ['done', 'done', 'done'],
      );
      // One of each source before an answer has told the size of a page, then two in all.
      assert.deepEqual([Math.max(...windows), Math.max(...windows.slice(3))], [3, 2]);
      for (const name of ['a', 'b', 'c']) {
        assert.deepEqual(await rowsOf(store, name), numbers(0, 400));
      }
      assert.deepEqual(sink.broken, []);
    });
  }

  it('lets others go on while a page fails, and tries it no more often than it may', async () => {
    const refuse = (from: number) => {
      if (from === 50) throw failure(500);
    };
    const { clock, server, store, sink, harvest } = scene({ refuse, attemptsMax: 4 });
    const [outcome] = await clock.run(harvest.run([ids(server, 'a', 200)]));
    assert.equal(server.asked.get(50), 4);
    assert.equal(outcome?.status, 'done');
    assert.deepEqual(outcome?.checkpoint?.gaps, [{ from: 50, to: 60, reason: 'status 500' }]);
    assert.deepEqual(await rowsOf(store, 'a'), [...numbers(0, 50), ...numbers(60, 200)]);
    assert.deepEqual(sink.broken, []);
  });

  it('fills the gaps of the ledger when asked to, and keeps those it cannot fill', async () => {
    const bad = new Set([50, 90]);
    const refuse = (from: number) => {
      if (bad.has(from)) throw failure(500);
    };
    const { clock, server, store, sink, harvest } = scene({ refuse, attemptsMax: 2 });
    await clock.run(harvest.run([ids(server, 'a', 200)]));
    bad.delete(50);
    const again = new Harvest<number>({ sink, store, clock, attemptsMax: 2, fillsGaps: true });
    const [outcome] = await clock.run(again.run([ids(server, 'a', 210)]));
    assert.deepEqual(outcome?.checkpoint?.gaps, [{ from: 90, to: 100, reason: 'status 500' }]);
    assert.deepEqual(await rowsOf(store, 'a'), [...numbers(0, 90), ...numbers(100, 210)]);
    assert.equal(outcome?.checkpoint?.position, 210);
    assert.deepEqual(sink.broken, []);
  });

  it('in strict mode commits nothing of a batch with a page that failed', async () => {
    const refuse = (from: number) => {
      if (from === 250) throw failure(500);
    };
    const options = { refuse, attemptsMax: 3, mode: 'strict', batchPages: 10 } as const;
    const { clock, server, store, sink, harvest } = scene(options);
    const [outcome] = await clock.run(harvest.run([ids(server, 'a', 1000)]));
    assert.equal(outcome?.status, 'failed');
    assert.equal(codeOf(outcome), 'HARVEST_PAGE_FAILED');
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 200));
    assert.deepEqual(
      sink.commits.map(({ from, to }) => [from, to]),
      [
        [0, 100],
        [100, 200],
      ],
    );
  });

  it('stops a source at an error that is final, and no other source', async () => {
    const { clock, server, store, harvest } = scene();
    const gone = rangeSource<number>({
      name: 'gone',
      from: 0,
      to: 100,
      pageSize: 10,
      idOf: (id) => id,
      fetch: ({ from, to }) =>
        from === 40 ? Promise.reject(failure(404)) : Promise.resolve(numbers(from, to)),
    });
    const outcomes = await clock.run(harvest.run([gone, ids(server, 'a', 300)]));
    const [first, second] = outcomes;
    assert.deepEqual([first?.status, second?.status], ['failed', 'done']);
    assert.match(String(first?.error), /gone at 40: status 404/);
    assert.equal(codeOf(first), 'HARVEST_REFUSED');
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 300));
    assert.equal(first?.checkpoint?.position, 40, 'what was complete is committed');
  });

  it('stops when told to, with all that is complete committed and nothing left', async () => {
    const { clock, server, store, sink, harvest } = scene({ latencyMs: () => 300 });
    const stop = new AbortController();
    const run = harvest.run([ids(server, 'a', 5_000), ids(server, 'b', 5_000)], {
      signal: stop.signal,
    });
    await clock.advance(2_000);
    stop.abort(new Error('enough'));
    const outcomes = await run;
    for (const { status, error, checkpoint, source } of outcomes) {
      assert.deepEqual([status, String(error)], ['stopped', 'Error: enough']);
      const position = checkpoint?.position ?? 0;
      assert.ok(position > 500, `${position}`);
      assert.deepEqual(await rowsOf(store, source), numbers(0, position));
    }
    assert.equal(server.inFlight, 0);
    assert.equal(clock.pending, 0);
    assert.deepEqual(sink.broken, []);
  });

  it('leaves a source to whoever holds its lease', async () => {
    const { clock, server, store, sink, harvest } = scene();
    const run = harvest.run([ids(server, 'a', 100)]);
    await clock.advance(10);
    const other = new Harvest<number>({ sink, store, clock });
    const [outcome] = await clock.run(other.run([ids(server, 'a', 100)]));
    assert.equal(outcome?.status, 'skipped');
    assert.equal(codeOf(outcome), 'LEASE_HELD');
    const [mine] = await clock.run(run);
    assert.equal(mine?.status, 'done');
  });

  it('gives up a fetch that hangs, and does it again', async () => {
    const { clock, server, store, harvest } = scene({ attemptMsMax: 1_000 });
    let hung = 0;
    const inner = ids(server, 'a', 100);
    const source = {
      ...inner,
      fetch: (page: { from: number; to: number | undefined }, signal: AbortSignal) => {
        if (page.from !== 20 || hung > 0) return inner.fetch(page, signal);
        hung += 1;
        return new Promise<never>(() => {});
      },
    };
    const [outcome] = await clock.run(harvest.run([source]));
    assert.deepEqual([outcome?.status, hung], ['done', 1]);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 100));
  });

  it('fetches a late page once more, and takes whichever answer comes first', async () => {
    const hung: number[] = [];
    const { clock, server, store, sink, harvest } = scene({ windowMax: 8, batchMsMax: 0 });
    const inner = ids(server, 'a', 200);
    const source = {
      ...inner,
      fetch: async (page: { from: number; to: number | undefined }, signal: AbortSignal) => {
        if (page.from !== 50 || hung.length > 0) return inner.fetch(page, signal);
        hung.push(clock.now());
        await wait(clock, 5_000, signal);
        return inner.fetch(page, signal);
      },
    };
    const [outcome] = await clock.run(harvest.run([source]));
    assert.deepEqual([outcome?.status, hung.length], ['done', 1]);
    assert.ok(clock.now() < 1_000, `${clock.now()} ms`);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 200));
    assert.deepEqual(sink.broken, []);
  });

  it('gives no page up while another fetch of it is in flight', async () => {
    const { clock, server, harvest } = scene({ windowMax: 8, attemptsMax: 1 });
    const inner = ids(server, 'a', 200);
    let hung = 0;
    const source = {
      ...inner,
      fetch: async (page: { from: number; to: number | undefined }, signal: AbortSignal) => {
        if (page.from !== 50) return inner.fetch(page, signal);
        hung += 1;
        if (hung > 1) throw failure(503);
        await wait(clock, 5_000, signal);
        return { rows: numbers(50, 60) };
      },
    };
    const [outcome] = await clock.run(harvest.run([source]));
    assert.deepEqual([outcome?.status, hung, outcome?.checkpoint?.gaps], ['done', 2, []]);
  });

  it('waits while the breaker is open, which costs no page an attempt', async () => {
    let isDown = true;
    const refuse = () => {
      if (isDown) throw failure(503);
    };
    const { clock, server, store, harvest } = scene({ refuse, attemptsMax: 3 });
    const run = harvest.run([ids(server, 'a', 400)]);
    await clock.advance(12_000);
    assert.ok(server.arrivals.length < 30, `${server.arrivals.length} asked of a dead server`);
    isDown = false;
    const [outcome] = await clock.run(run);
    assert.deepEqual([outcome?.status, outcome?.checkpoint?.gaps], ['done', []]);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 400));
  });

  it('tells the rate of what is asked, not of what an open breaker refuses', async () => {
    let latencyMs = 20;
    const refuse = () => {
      throw failure(503);
    };
    const { clock, server, harvest } = scene({ refuse, latencyMs: () => latencyMs });
    const stop = new AbortController();
    const run = harvest.run([ids(server, 'a', 400)], { signal: stop.signal });
    await clock.advance(5_000);
    // The probe hangs.
    latencyMs = 29_000;
    await clock.advance(30_000);
    const { ratePerSecond } = harvest.stats;
    assert.ok(ratePerSecond < 0.5, `${ratePerSecond} a second are told`);
    stop.abort();
    await clock.run(run);
  });

  it('gives up no page for an outage of ten minutes: a probe is no attempt', async () => {
    let isDown = true;
    const refuse = () => {
      if (isDown) throw failure(503);
    };
    const { clock, server, store, harvest } = scene({ refuse, attemptsMax: 4 });
    const run = harvest.run([ids(server, 'a', 400)]);
    await clock.advance(600_000);
    isDown = false;
    const [outcome] = await clock.run(run);
    assert.deepEqual([outcome?.status, outcome?.checkpoint?.gaps], ['done', []]);
    assert.deepEqual(await rowsOf(store, 'a'), numbers(0, 400));
  });

  it('ends when its ledger is full, with nothing of that batch committed', async () => {
    const refuse = (from: number) => {
      if (from >= 200) throw failure(500);
    };
    const { clock, server, harvest } = scene({ refuse, attemptsMax: 1, gapsMax: 3, batchMsMax: 0 });
    const [outcome] = await clock.run(harvest.run([ids(server, 'a', 1000)]));
    assert.equal(codeOf(outcome), 'HARVEST_GAPS');
    assert.ok((outcome?.checkpoint?.gaps.length ?? 9) <= 3);
  });

  it('keeps to the caps it is given, in all and for each source', async () => {
    for (const [caps, most] of [
      [{ inFlightMax: 7 }, 7],
      [{ pagesMax: 3 }, 12],
      [{ sourcesMax: 2, pagesMax: 2 }, 4],
    ] as const) {
      const { clock, server, harvest } = scene({ latencyMs: () => 500, ...caps });
      await clock.run(harvest.run(['a', 'b', 'c', 'd'].map((name) => ids(server, name, 200))));
      assert.equal(server.inFlightMax, most);
    }
  });

  it('tells how it stands as plain data', async () => {
    const { clock, server, harvest } = scene({ latencyMs: () => 500 });
    const run = harvest.run([ids(server, 'a', 20_000, 2)]);
    await clock.advance(50_000);
    const stats = harvest.stats;
    assert.deepEqual(stats, structuredClone(stats));
    const [source] = stats.sources;
    assert.ok((stats.rateShare ?? 0) > 0.9 && (stats.rateShare ?? 2) <= 1.05, `${stats.rateShare}`);
    assert.ok(Math.abs((stats.etaMs ?? 0) - 50_000) < 8_000, `${stats.etaMs}`);
    assert.ok(Math.abs((source?.etaMs ?? 0) - 50_000) < 8_000, `${source?.etaMs}`);
    assert.equal(source?.status, 'running');
    assert.ok(stats.window >= stats.inFlight && stats.inFlight > 30);
    await clock.run(run);
    assert.equal(harvest.stats.etaMs, 0);
  });

  it('refuses options and calls that make no sense, naming the rule', async () => {
    const { clock, server, store, sink, harvest } = scene();
    const make = (options: object) => new Harvest<number>({ sink, store, clock, ...options });
    assert.throws(() => make({ mode: 'lax' }), /mode: must be 'prefix' or 'strict'/);
    assert.throws(() => make({ batchPages: 20, windowMax: 10 }), /batchPages: .* 1 to 10/);
    assert.throws(() => make({ attemptsMax: 0 }), /attemptsMax: must be an integer from 1/);
    assert.throws(() => ids(server, 'a', -1), /to: must be an integer from 0/);
    const twice = [ids(server, 'a', 10), ids(server, 'a', 10)];
    await assert.rejects(harvest.run(twice), /sources: must be each of its own name/);
    const run = harvest.run([ids(server, 'a', 10)]);
    await assert.rejects(harvest.run([]), /run: must be called again only when it is over/);
    await clock.run(run);
    assert.deepEqual(await harvest.run([]), []);
  });
});
