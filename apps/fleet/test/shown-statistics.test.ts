import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { llr } from '../src/statistics/llr.ts';
import { rawStatistics, resultText } from '../src/statistics/run-statistics.ts';
import { calculateElo } from '../src/statistics/sprt.ts';
import { byProgress, byUrgency, hoursLeft } from '../src/world/run.ts';
import { draws, Scene, sprtArgs, spsaArgs, uniqueKey } from './fixtures/fleet-scene.ts';
import { close, closeAll } from './fixtures/golden.ts';

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-6, `${actual} is not ${expected}`);

describe('calculateElo', () => {
  it('answers for games, for pairs, and for sequential tests', () => {
    const games = calculateElo({ W: '10', D: '20', L: '5' });
    near(games.elo, 49.975495);
    near(games.ci[0], -26.374246);
    near(games.ci[1], 126.325235);
    near(games.LOS, 0.907062);
    const pairs = { LL: '1', LD: '20', DDWL: '50', WD: '25', WW: '2' };
    near(calculateElo({ ...pairs, W: '10', D: '20', L: '5' }).elo, 12.413693);
    const test = { LL: '39', LD: '2226', DDWL: '31451', WD: '2412', WW: '40' };
    const normalized = calculateElo({ ...test, elo0: '0.764', elo1: '3.439' });
    assert.ok('LLR' in normalized);
    near(normalized.LLR, 2.162941);
    near(normalized.ci[1], 1.540583);
    const bounds = { elo0: '0.2', elo1: '0.9', elo_model: 'logistic' };
    near(calculateElo({ ...test, ...bounds }).elo, 0.865183);
    const old = { W: '716', D: '2163', L: '591', elo0: '0', elo1: '6', elo_model: 'BayesElo' };
    near(calculateElo(old).elo, 11.906224);
  });

  const games = { W: '10', D: '20', L: '5' };
  const pairs = { LL: '1', LD: '20', DDWL: '50', WD: '25', WW: '2' };
  const bad = [
    {},
    { W: '1', D: '2' },
    { ...games, W: 'x' },
    { ...games, W: '' },
    { ...games, W: '-1' },
    { ...games, W: '1.5' },
    { W: '0', D: '0', L: '0' },
    { W: '4294967297', D: '0', L: '0' },
    { ...games, W: '+1' },
    { ...games, elo0: '0', elo1: '0.4' },
    { ...games, elo0: '0', elo1: '11' },
    { ...games, elo0: '0', elo1: 'Infinity' },
    { ...games, elo0: '0', elo1: '2', elo_model: 'magic' },
    { ...pairs, elo0: '0', elo1: '2', elo_model: 'BayesElo' },
  ];
  for (const query of bad) {
    it(`refuses ${JSON.stringify(query)}`, () => {
      assert.throws(() => calculateElo(query), { code: 'REQUEST_REFUSED', status: 400 });
    });
  }
});

describe('rawStatistics', () => {
  const pentanomial = [1187, 7410, 13475, 7378, 1164];
  const results = { wins: 13543, losses: 13624, draws: 34333, pentanomial };

  it('says the same of pairs and games as the tests do', () => {
    const test = { elo0: -3, elo1: 1, model: 'BayesElo' } as const;
    const raw = rawStatistics(results, test);
    close(raw.drawElo, 218.9900704842353);
    close(raw.drawRatio, 34333 / 61500);
    close(raw.pentanomial?.test?.llr.logistic as number, llr(results, test));
    assert.deepEqual(raw.bounds?.BayesElo, [-3, 1]);
    assert.equal(raw.pentanomial?.games, 2 * 30614);
    assert.equal(raw.trinomial.games, 61500);
    const ratio = raw.varianceRatio as number;
    assert.ok(ratio > 0.8 && ratio < 1);
    const { trinomial } = raw;
    near(trinomial.variancePerGame.value, trinomial.variance);
    assert.ok(trinomial.score.low < trinomial.mean && trinomial.mean < trinomial.score.high);
    assert.equal(raw.pentanomial?.test?.jumps.length, 5);
    for (const [at, jump] of (raw.pentanomial?.test?.jumps ?? []).entries()) {
      assert.equal(jump > 0, at > 1, 'only good results speak for the second hypothesis');
    }
  });

  it('turns normalized bounds into all others and back', () => {
    const raw = rawStatistics(results, { elo0: 0, elo1: 2, model: 'normalized' });
    const { logistic = [0, 0], BayesElo = [0, 0] } = raw.bounds ?? {};
    const [elo0, elo1] = logistic;
    const back = rawStatistics(results, { elo0, elo1, model: 'logistic' });
    closeAll([...(back.bounds?.normalized ?? [])], [0, 2]);
    const belo = { elo0: BayesElo[0], elo1: BayesElo[1], model: 'BayesElo' } as const;
    const [, there = 0] = rawStatistics(results, belo).bounds?.logistic ?? [];
    assert.ok(Math.abs(there - elo1) < 1e-3);
    close(
      raw.pentanomial?.test?.llr.normalized as number,
      llr(results, { elo0: 0, elo1: 2, model: 'normalized' }),
    );
  });

  it('tell no Elo before the first game', () => {
    const none = { wins: 0, losses: 0, draws: 0, pentanomial: [0, 0, 0, 0, 0] };
    const { info } = resultText({ num_games: 1000 }, none);
    assert.equal(info[0], 'Elo: unknown before any game');
  });

  it('needs neither pairs nor a test', () => {
    const raw = rawStatistics({ wins: 10, losses: 5, draws: 20 });
    assert.deepEqual([raw.pentanomial, raw.bounds, raw.rmsBias], [undefined, undefined, undefined]);
    near(raw.trinomial.elo.elo, 49.975495);
  });
});

describe('lists of runs', () => {
  it('are sorted by progress, or by urgency', () => {
    const scene = new Scene();
    const [fixed, tuning] = [scene.run({ num_games: 10_000 }), scene.run(spsaArgs(10_000))];
    const [slow, fast] = [scene.run(sprtArgs(1)), scene.run(sprtArgs(1))];
    Object.assign(fast.args.sprt ?? {}, { llr: 1.5 });
    const sorted = [tuning, slow, fixed, fast].toSorted(byProgress);
    assert.deepEqual(sorted, [fast, slow, fixed, tuning]);
    const urgent = scene.run({ priority: 1, throughput: 10 });
    const small = scene.run({ throughput: 50 });
    assert.deepEqual([urgent, fixed, small].toSorted(byUrgency), [small, fixed, urgent]);
  });

  it('say how long all of it will take with the cores there are', () => {
    const scene = new Scene();
    const run = scene.run({ num_games: 10_000 });
    assert.equal(hoursLeft([run]), Infinity);
    scene.task();
    scene.update(scene.task({ unique_key: uniqueKey(1) }), draws(100));
    close(hoursLeft([run]), (30.912 * 9900) / 3600 / 16);
    assert.equal(hoursLeft([]), 0);
  });
});
