import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eloEstimate, normalizedElo, normalizedEloLine } from '../src/statistics/elo.ts';
import { llr, llrLogisticNormal, llrLogisticQuick, outcomeCdf } from '../src/statistics/llr.ts';
import { residuals } from '../src/statistics/run-statistics.ts';
import {
  chiSquareTail,
  normalCdf,
  upperQuantile,
  upperQuantileOfLog,
} from '../src/statistics/special-functions.ts';
import { sprtForecast } from '../src/statistics/sprt.ts';
import { newSpsa, type Spsa, spsaChart, updateSpsa } from '../src/statistics/spsa.ts';
import {
  gameDuration,
  remainingHours,
  timeControlPattern,
} from '../src/statistics/time-control.ts';
import { close } from './fixtures/golden.ts';

describe('the normal distribution', () => {
  it('knows both tails', () => {
    const known = [
      [0, 0.5],
      [1, 0.8413447460685429],
      [-1, 0.15865525393145705],
      [-3, 0.0013498980316300933],
      [-8, 6.220960574271784e-16],
      [-20, 2.7536241186062337e-89],
    ] as const;
    for (const [z, chance] of known) {
      const off = Math.abs(normalCdf(z) - chance) / chance;
      assert.ok(off < 1e-13, `${z}: ${normalCdf(z)}`);
    }
  });

  it('inverts tails down to the smallest number, and below', () => {
    for (const z of [0, 0.1, 1, 2.9, 3, 3.1, 8, 20, 37]) close(upperQuantile(normalCdf(-z)), z);
    close(upperQuantile(1e-300), 37.0470964250747);
    // Far out the tail is the density over z, less a part in z squared.
    const z = upperQuantileOfLog(-1e6);
    const log = (-z * z) / 2 - Math.log(z * Math.sqrt(2 * Math.PI)) + Math.log1p(-1 / (z * z));
    close(log, -1e6);
  });
});

describe('the chi-square distribution', () => {
  it('has its tail also with thousands of degrees', () => {
    close(chiSquareTail(5.991464547107979, 2), 0.05);
    close(chiSquareTail(9.487729036781154, 4), 0.05);
    assert.equal(chiSquareTail(0, 4), 1);
    const many = chiSquareTail(20_000, 20_000);
    assert.ok(many > 0.49 && many < 0.5, `${many}`);
  });
});

describe('a bounded Brownian motion', () => {
  const bounds = { a: -3, b: 3 };

  it('is the same on both sides of where the method of computing changes', () => {
    for (const y of [-2.9, -1, 0, 1, 2.9]) {
      for (const drift of [-0.5, 0, 0.5]) {
        const at = (time: number) => outcomeCdf({ ...bounds, drift, variance: 1 }, time, y);
        assert.ok(Math.abs(at(0.3599999) - at(0.3600001)) < 1e-5, `time, ${y}, ${drift}`);
      }
      for (const sign of [-1, 1]) {
        const at = (drift: number) => outcomeCdf({ ...bounds, drift, variance: 1 }, 1, y);
        // The asymptote of the tail is off by a part in a thousand here.
        assert.ok(Math.abs(at(sign * 2.4999999) - at(sign * 2.5000001)) < 2e-4, `drift, ${y}`);
      }
    }
  });

  it('falls with the drift, rises with the place, and stays a chance', () => {
    const at = (drift: number, y: number) => outcomeCdf({ ...bounds, drift, variance: 0.5 }, 4, y);
    for (let drift = -3; drift <= 3; drift += 0.25) {
      for (let y = -2.75; y < 3; y += 0.25) {
        const chance = at(drift, y);
        assert.ok(chance > -1e-9 && chance < 1 + 1e-9, `${chance}`);
        assert.ok(at(drift, y) >= at(drift, y - 0.25) - 1e-9);
        assert.ok(at(drift, y) >= at(drift + 0.25, y) - 1e-9);
      }
    }
  });
});

describe('results', () => {
  it('give the documented estimates', () => {
    const games = eloEstimate([5, 20, 10]);
    close(games.elo, 49.975495, 'W10 D20 L5');
    close(games.los, 0.907062);
    const pairs = eloEstimate([1, 20, 50, 25, 2]);
    assert.ok(Math.abs(pairs.elo - 12.413693) < 1e-6);
    assert.ok(Math.abs(pairs.elo - pairs.error95 - -13.78442) < 1e-6);
    assert.ok(Math.abs(pairs.los - 0.824142) < 1e-6);
  });

  it('give quick ratios that are near the exact one', () => {
    const pentanomial = [39, 2226, 31451, 2412, 40];
    const results = { wins: 0, losses: 0, draws: 0, pentanomial };
    const exact = llr(results, { elo0: 0.2, elo1: 0.9, model: 'logistic' });
    for (const quick of [llrLogisticQuick, llrLogisticNormal]) {
      assert.ok(Math.abs(quick(pentanomial, 0.2, 0.9) - exact) < 1e-3);
    }
  });

  it('give normalized Elo with its error, and the ratio of pairs', () => {
    // Even pairs and decisive ones: t and its variance can be told by hand.
    const even = normalizedElo([25, 0, 50, 0, 25]);
    close(even.elo, 0);
    assert.ok(Math.abs(even.error95 - (347.4355855 / Math.SQRT2) * 1.959963985 * 0.1) < 1e-3);
    assert.equal(even.pairsRatio, 1);
    assert.equal(
      normalizedEloLine([10, 20, 40, 20, 10]),
      'nElo: 0.00 +/- 48.2 (95%) PairsRatio: 1.00',
    );
    assert.match(normalizedEloLine([0, 0, 9, 9, 0]), /PairsRatio: inf$/);
    assert.match(normalizedEloLine([0, 0, 9, 0, 0]), /PairsRatio: nan$/);
  });

  it('of one worker alone, or of none, cannot be compared', () => {
    const alone = residuals([{ key: 'a', pentanomial: [9, 90, 200, 90, 9] }]);
    assert.deepEqual([alone.degrees, alone.byKey.size, Number.isNaN(alone.p)], [0, 0, true]);
  });
});

describe('time controls', () => {
  it('may be moves in a time, and minutes', () => {
    assert.ok(timeControlPattern.test('40/60+0.6'));
    assert.equal(gameDuration('1:00+0.6'), gameDuration('60+0.6'));
    assert.equal(gameDuration('34/10'), gameDuration('20'));
  });

  it('say how long a fixed number of games takes', () => {
    const run = { tc: '10+0.1', threads: 2, num_games: 4000 };
    close(remainingHours(run, 1000), (30.912 * 3000 * 2) / 3600);
    assert.equal(remainingHours(run, 5000), 0);
  });
});

describe('a tuning', () => {
  const lines = ['a,1,0', 'a,1,0,2,0,0.1', 'a,1,0,2,0.5,-1', 'a,1,0,2,x,0.1', 'a,1,,2,0.5,0.1'];
  for (const rawParams of lines) {
    it(`cannot start from ${rawParams}`, () => {
      assert.throws(() => newSpsa({ rawParams, numGames: 1000 }), RangeError);
    });
  }

  it('remembers a hundred samples on its way', () => {
    const spsa = newSpsa({ rawParams: 'a,1,0,2,0.5,0.1\n\n', numGames: 20_000 });
    for (let n = 0; n < 1000; n += 1) {
      const packedFlips = [n % 2 === 0 ? 0x80 : 0];
      updateSpsa(spsa, { iter: spsa.iter, packedFlips, wins: 3, losses: 2, num_games: 20 });
    }
    assert.equal(spsa.param_history?.length, 100);
    const rows = spsaChart(spsa).chart_rows;
    const ratios = rows.map(({ iter_ratio }) => iter_ratio);
    assert.ok(ratios.every((ratio, at) => ratio <= 1 && ratio >= (ratios[at - 1] ?? 0)));
    const tenth = rows[10] as (typeof rows)[number];
    assert.ok(Math.abs(tenth.iter_ratio - 0.099) < 1e-9, 'the iteration its results were asked at');
  });

  it('draws samples evenly when they do not tell their time', () => {
    const spsa: Spsa = newSpsa({ rawParams: 'a,1,0,2,0.5,0.1', numGames: 200 });
    spsa.iter = 90;
    spsa.param_history = [[{ theta: 1.1, R: 1, c: 0 }], [{ theta: 1.2, R: 1, c: 0 }]];
    const ratios = spsaChart(spsa).chart_rows.map(({ iter_ratio }) => iter_ratio);
    assert.deepEqual(ratios, [0, 0.3, 0.6, 0.9]);
  });
});

describe('the forecast of a sequential test', () => {
  const options = { model: 'normalized', elo0: 0, elo1: 2, drawRatio: 0.49, rmsBias: 191 } as const;

  it('passes its bounds with their error rates, and takes longest in the middle', () => {
    close(sprtForecast(options, 0).passChance, 0.05);
    close(sprtForecast(options, 2).passChance, 0.95);
    close(sprtForecast(options, 1).passChance, 0.5);
    assert.ok(sprtForecast(options, 1).games > sprtForecast(options, 2).games);
    close(sprtForecast(options, 1 + 1e-3).games / sprtForecast(options, 1).games, 1, 'continuous');
  });

  it('has no answer where games cannot vary so little', () => {
    assert.ok(Number.isNaN(sprtForecast({ ...options, drawRatio: 1 }, 1).games));
  });
});
