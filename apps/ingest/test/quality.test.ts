import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { systemClock } from 'spillway';
import type { LocalFolder } from '../src/files/folder.ts';
import type { RawEntry } from '../src/files/raw-file.ts';
import { KnownFigures } from '../src/quality/figures.ts';
import { qualityPage } from '../src/quality/page.ts';
import {
  type DayQuality,
  type ProductQuality,
  type Quality,
  quality,
} from '../src/quality/quality.ts';
import { verify } from '../src/quality/verify.ts';
import { QualityWatch, qualityMetrics } from '../src/quality/watch.ts';
import { TradeTable } from '../src/table/trade-table.ts';
import {
  entryOf,
  fenceOf,
  lines,
  range,
  start,
  type Trade,
  temporaryFolder,
  tradesOf,
} from './fixtures/trades.ts';

const minute = 60_000_000;

/** One trade a minute. */
function steady(ids: readonly number[]): readonly Trade[] {
  return tradesOf(ids).map((trade) => ({ ...trade, us: start + trade.id * minute }));
}

describe('quality', () => {
  let folder: LocalFolder;
  let found: Quality;
  let entries: RawEntry[];
  let table: TradeTable;
  const of = (product: string): ProductQuality => {
    return found.products.find((one) => one.product === product) ?? assert.fail(product);
  };

  before(async () => {
    folder = await temporaryFolder();
    table = await TradeTable.open({ folder, lines });
    const holes = steady(range(1, 1000)).filter(({ id }) => id % 10 !== 0 && id !== 1);
    const late = steady(range(1, 1000)).map((trade) => {
      return { ...trade, us: trade.us + (trade.id > 500 ? 120 * minute : 0) };
    });
    const wrong = steady(range(1, 10)).map((trade): Trade => {
      if (trade.id === 2) return { ...trade, price: '0.0' };
      if (trade.id === 3) return { ...trade, size: '-1.5' };
      return trade.id === 4 ? { ...trade, side: 'BUY' as 'buy' } : trade;
    });
    const quiet = steady(range(1, 1000)).filter(({ id }) => id < 600 || id >= 660);
    const parts = { FINE: steady(range(1, 1000)), HOLES: holes, LATE: late, QUIET: quiet };
    entries = [];
    for (const [product, trades] of Object.entries({ ...parts, WRONG: wrong })) {
      entries.push(await entryOf(folder, trades, { commit: 1, product }));
    }
    await table.merge(entries, fenceOf(1));
    found = await quality(table, (start + 1000 * minute) / 1000 + 30_000, { isFollowed: true });
  });
  after(async () => await folder[Symbol.asyncDispose]());

  it('counts what is there and what is missing', () => {
    const { trades, missing, completenessPct, duplicates, firstId, lastId } = of('HOLES');
    assert.deepEqual([trades, missing, duplicates, firstId, lastId], [899, 99, 0, 2, 999]);
    assert.ok(Math.abs(completenessPct - (100 * 899) / 998) < 1e-9);
    assert.deepEqual([of('FINE').missing, of('FINE').completenessPct], [0, 100]);
    assert.equal(found.trades, 1000 + 899 + 1000 + 940 + 10);
  });

  it('grades each product by its age and its completeness', () => {
    assert.deepEqual([of('FINE').freshness, of('FINE').health], ['fresh', 'good']);
    assert.equal(of('FINE').ageMinutes, 0.5);
    assert.deepEqual([of('HOLES').freshness, of('HOLES').health], ['fresh', 'warning']);
    assert.deepEqual([of('WRONG').freshness, of('WRONG').health], ['aging', 'warning']);
  });

  it('finds gaps in time and quiet hours', () => {
    const { longestGapMinutes, gapsOverHour, gapsSigma3, gapsSigma5 } = of('LATE');
    assert.deepEqual([longestGapMinutes, gapsOverHour, gapsSigma3, gapsSigma5], [121, 1, 1, 1]);
    assert.equal(of('FINE').gapsSigma3, 0);
    assert.equal(of('QUIET').quietHours, 1);
    assert.equal(of('LATE').quietHours, 1);
    assert.equal(of('FINE').quietHours, 0);
  });

  it('finds prices, quantities and sides that cannot be', () => {
    const { badPrices, badQuantities, badSides, incomplete } = of('WRONG');
    assert.deepEqual([badPrices, badQuantities, badSides, incomplete], [1, 1, 1, 0]);
    const failed = found.checks.filter(({ passed }) => !passed).map(({ name }) => name);
    assert.deepEqual(failed, [
      'no id is missing',
      'prices are above 0',
      'quantities are above 0',
      'sides are buy and sell',
    ]);
    assert.equal(found.passed, true);
  });

  it('takes from the score as it says', () => {
    // 3 × (100 - 90.08) for the worst completeness, 20 for one of five products that is stale, and
    // 159 missing / 100.
    const worst = 3 * (100 - (100 * 899) / 998);
    const missing = (99 + 60) / 100;
    assert.ok(Math.abs(found.score - (100 - worst - missing - 20)) < 1e-9);
  });

  it('fails the gate when followed data is old, and has no score for no data', async () => {
    const later = (start + 1000 * minute) / 1000 + 8 * 3_600_000;
    assert.equal((await quality(table, later, { isFollowed: true })).passed, false);
    await using empty = await temporaryFolder();
    const nothing = await quality(await TradeTable.open({ folder: empty, lines }), 0);
    assert.deepEqual([nothing.score, nothing.trades, nothing.products], [0, 0, []]);
    assert.match(qualityPage(nothing), /quality 0 of 100/);
  });

  it('of a history does not get worse with its age', async () => {
    const end = (start + 1000 * minute) / 1000;
    const [young, history] = [await quality(table, end), await quality(table, end + 1e11)];
    const judged = ({ score, passed, checks, products }: Quality) => {
      return { score, passed, checks, health: products.map(({ health }) => health) };
    };
    assert.deepEqual(judged(history), judged(young));
    assert.ok(history.passed && history.score > found.score);
    assert.ok(history.products.every(({ freshness }) => freshness === 'stale'));
  });

  it('is looked at less often the longer a look takes', async () => {
    // The first look takes a minute by this clock, the others no time.
    const times = [0, 60_000, 300_000, 1_199_999, 1_200_000, 1_200_000];
    const clock = { now: () => times.shift() ?? assert.fail(), after: systemClock.after };
    const watch = new QualityWatch(table, clock);
    const looks: (string | undefined)[] = [];
    for (let round = 0; round < 4; round += 1) {
      await watch.look(new AbortController().signal);
      looks.push(watch.last?.at);
    }
    const at = (ms: number) => new Date(ms).toISOString();
    assert.deepEqual(looks, [at(0), at(0), at(0), at(1_200_000)]);
  });

  it('reads only files that are new, with the same result as a look at all', async () => {
    await using own = await temporaryFolder();
    const growing = await TradeTable.open({ folder: own, lines });
    const day = 1_440;
    const at = (start + 3 * day * minute) / 1000;
    const add = async (ids: readonly number[], commit: number): Promise<void> => {
      const entry = await entryOf(own, steady(ids), { commit, product: 'X' });
      await growing.merge([entry], fenceOf(1));
    };
    const known = new KnownFigures();
    await add(range(1, day), 1);
    await quality(growing, at, { known });
    const before = [...known.files];
    await add([...range(day + 30, 2 * day), ...range(2 * day + 300, 3 * day)], 2);
    const read: (readonly string[])[] = [];
    const watched: Pick<TradeTable, 'refresh' | 'view'> = {
      refresh: (signal) => growing.refresh(signal),
      async view(signal, pick) {
        const view = await growing.view(signal, pick);
        read.push(view.files.map(({ path }) => path));
        return view;
      },
    };
    const grown = await quality(watched as TradeTable, at, { known });
    const news = growing.manifest.files
      .map(({ path }) => path)
      .filter((path) => {
        return !before.some(([one]) => one === path);
      });
    assert.deepEqual(read, [news]);
    assert.ok(news.length < growing.manifest.files.length);
    assert.deepEqual(grown, await quality(growing, at));
    const [{ missing, longestGapMinutes, gapsOverHour } = of('FINE')] = grown.products;
    assert.deepEqual([missing, longestGapMinutes, gapsOverHour], [29 + 299, 300, 1]);
    await quality(watched as TradeTable, at, { known });
    assert.equal(read.length, 1, 'with nothing new nothing is read');
  });

  it('has its numbers for Prometheus', () => {
    const metrics = new Map(qualityMetrics(found).map((family) => [family.name, family]));
    const value = (name: string) => metrics.get(`ingest_quality_${name}`)?.samples[0]?.value;
    assert.equal(value('trades'), found.trades);
    assert.equal(value('missing_trades'), 159);
    assert.equal(value('stale_products'), 1);
    assert.equal(metrics.get('ingest_quality_product_trades')?.samples.length, 5);
    assert.ok([...metrics.keys()].every((name) => /^[a-z_]+$/.test(name)));
  });

  it('makes a page that needs nothing else, with plots that can be read aloud', async () => {
    const odd = { ...of('FINE'), product: '<script>alert(1)</script>' };
    const verification = await verify(table, []);
    const days = [...found.days, { ...(found.days[0] as DayQuality), date: '2027-01-01' }];
    const page = qualityPage({ ...found, days, products: [...found.products, odd] }, verification);
    // The days, and of each product how much of it is there.
    assert.equal((page.match(/role="img"\s+aria-label="[^"]+"/g) ?? []).length, 1 + 6);
    assert.match(page, /aria-label="HOLES: 90\.08 % of its ids are there"/);
    assert.doesNotMatch(page, /<script|src=|href=|url\(/);
    assert.match(page, /&lt;script/);
    assert.match(page, /color-scheme: light dark/);
    assert.match(page, /5 issues/);
  });

  it('draws no line through a single day, and leads back to where it was opened', () => {
    assert.equal(found.days.length, 1);
    const page = qualityPage(found, undefined, '/');
    assert.doesNotMatch(page, /Trades a day/);
    assert.match(page, /<a href="\/">Products<\/a>/);
  });
});
