import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  bayesEloChances,
  bayesEloToElo,
  drawEloOf,
  eloEstimate,
  eloToBayesElo,
} from '../src/statistics/elo.ts';
import { llr, llrNormalizedQuick, outcomeCdf } from '../src/statistics/llr.ts';
import type { Results } from '../src/statistics/results.ts';
import {
  residualColor,
  residuals,
  resultText,
  worstWorker,
} from '../src/statistics/run-statistics.ts';
import { newSprt, type Sprt, sprtElo, updateSprt } from '../src/statistics/sprt.ts';
import {
  flipsSignature,
  historyPeriod,
  newSpsa,
  packFlips,
  spsaChart,
  spsaStep,
  spsaTrial,
  unpackFlips,
  updateSpsa,
} from '../src/statistics/spsa.ts';
import { remainingHours } from '../src/statistics/time-control.ts';
import { zeroStats } from '../src/world/world.ts';
import { close, closeAll, golden, plain, unreadPaths } from './fixtures/golden.ts';

/** Counts as results, without or with pairs. */
function asResults(counts: readonly number[]) {
  const [losses = 0, draws = 0, wins = 0] = counts;
  if (counts.length === 3) return { wins, losses, draws };
  return { wins: 0, losses: 0, draws: 0, pentanomial: counts };
}

/** The ratio of two BayesElo hypotheses, as it was computed before the generalized one. */
function bayesEloLlr(results: Results, elo0: number, elo1: number): number {
  const drawElo = drawEloOf(results);
  const under0 = bayesEloChances(elo0, drawElo);
  const under1 = bayesEloChances(elo1, drawElo);
  const { wins, losses, draws } = results;
  const ratio = (key: keyof typeof under0) => Math.log(under1[key] / under0[key]);
  return wins * ratio('win') + draws * ratio('draw') + losses * ratio('loss');
}

describe('statistics like the reference', () => {
  it('estimates Elo, its error and LOS', () => {
    for (const { results, out } of golden.get_elo) {
      const { elo, error95, los } = eloEstimate(results);
      closeAll([elo, error95, los], out, results);
    }
  });

  it('weighs two hypotheses', () => {
    for (const one of golden.llr) {
      const { results, elo0, elo1, elo_model: model } = one;
      close(llr(asResults(results), { elo0, elo1, model }), one.llr, one);
      if (!('llr_normalized_alt' in one)) continue;
      close(llrNormalizedQuick(results, elo0, elo1), one.llr_normalized_alt, one);
    }
  });

  it('estimates Elo from a sequential test', () => {
    for (const { results, elo0, elo1, elo_model: model, alpha, beta, out } of golden.sprt_elo) {
      const all = { wins: 0, losses: 0, draws: 0, ...results };
      closeAll(sprtElo(all, { elo0, elo1, model, alpha, beta }), out, results);
    }
  });

  it('converts BayesElo', () => {
    const { draw_elo_calc, bayeselo_to_elo, elo_to_bayeselo, llr_legacy } = golden.bayeselo;
    const games = ([losses, draws, wins]: readonly number[]) => {
      return { wins: wins ?? 0, losses: losses ?? 0, draws: draws ?? 0 };
    };
    for (const { ldw, out } of draw_elo_calc) close(drawEloOf(games(ldw)), out);
    for (const { belo, drawelo, out } of bayeselo_to_elo) close(bayesEloToElo(belo, drawelo), out);
    for (const { elo, draw_ratio, out } of elo_to_bayeselo) {
      const { bayesElo, drawElo } = eloToBayesElo(elo, draw_ratio);
      closeAll([bayesElo, drawElo], out);
    }
    for (const { belo0, belo1, ldw, out } of llr_legacy) {
      close(bayesEloLlr(games(ldw), belo0, belo1), out);
    }
  });

  it('follows a bounded Brownian motion', () => {
    for (const { a, b, mu, sigma, T, y, out } of golden.brownian_outcome_cdf) {
      close(outcomeCdf({ a, b, drift: mu, variance: sigma ** 2 }, T, y), out, { mu, T });
    }
  });

  it('steps through a sequential test to its end', () => {
    const { start, steps, final_results } = golden.update_sprt_sequence;
    const { elo0, elo1, elo_model, batch_size, alpha, beta } = start;
    const sprt = newSprt({ elo0, elo1, elo_model, batch_size });
    assert.deepEqual([sprt.alpha, sprt.beta], [alpha, beta]);
    const pentanomial = [0, 0, 0, 0, 0];
    for (const step of steps) {
      for (const [at, more] of step.add.entries()) pentanomial[at] = (pentanomial[at] ?? 0) + more;
      updateSprt(sprt, { wins: 0, losses: 0, draws: 0, pentanomial });
      close(sprt.llr, step.llr);
      assert.equal(sprt.state, step.state);
      if ('overshoot' in step) closeAll(sprt.overshoot, step.overshoot);
    }
    assert.deepEqual(pentanomial, [...final_results]);
  });

  it('keeps its head when batches are skipped, lost or broken', () => {
    const { jump_of_two_batches, then_fewer_samples, not_a_multiple_of_batch } =
      golden.update_sprt_oddities;
    const fresh = () => newSprt({ elo0: 0, elo1: 2, elo_model: 'normalized', batch_size: 4 });
    const fed = (sprt: Sprt, even: number) => {
      updateSprt(sprt, { ...zeroStats(), pentanomial: [0, 0, even, 0, 0] });
      return sprt;
    };
    const sprt = fed(fresh(), 8);
    closeAll(sprt, jump_of_two_batches);
    closeAll(fed(sprt, 4), then_fewer_samples);
    closeAll(fed(fresh(), 6), not_a_multiple_of_batch);
  });

  it('finds workers that are unlike the others', () => {
    for (const { name, tasks, out, colors, bad_auto, bad_manual } of golden.chi2) {
      const found = residuals(tasks);
      const orNaN = (value: number | null) => value ?? NaN;
      const [chi2, p] = [orNaN(out.chi2), orNaN(out.p)];
      const [z95, z99] = [orNaN(out.z_95), orNaN(out.z_99)];
      assert.equal(found.degrees, out.dof, name);
      for (const [actual, expected] of [
        [found.chi2, chi2],
        [found.p, p],
        [found.z95, z95],
        [found.z99, z99],
      ] as const) {
        if (Number.isNaN(expected)) assert.ok(Number.isNaN(actual), name);
        else close(actual, expected, name);
      }
      closeAll(Object.fromEntries(found.byKey), out.residual, name);
      for (const key of Object.keys(colors)) {
        const residual = found.byKey.get(key) ?? Infinity;
        assert.equal(residualColor(residual, found), colors[key], `${name} ${key}`);
      }
      const worst = (limits: { p: number; residual: number }) => {
        const key = worstWorker(found, limits);
        return key === undefined ? [] : [key];
      };
      closeAll(worst({ p: 0.001, residual: 7 }), bad_auto, name);
      closeAll(worst({ p: 0.01, residual: 4.5 }), bad_manual, name);
    }
  });

  it('tunes parameters', () => {
    const { post, num_games, state, updates } = golden.spsa;
    const spsa = newSpsa({
      rawParams: post.spsa_raw_params,
      numGames: num_games,
      ratioA: Number(post.spsa_A),
      alpha: Number(post.spsa_alpha),
      gamma: Number(post.spsa_gamma),
    });
    assert.equal(spsa.algorithm, post.spsa_algorithm);
    closeAll(spsa, state);
    for (const update of updates) {
      assert.equal(spsa.iter, update.iter_at_request);
      const { w_params, b_params } = spsaTrial(spsa, update.flips);
      const steps = w_params.map(({ name, c, R, flip }) => ({ name, c, R, flip }));
      closeAll(steps, update.steps);
      const sent = w_params.map(({ value: w }, at) => ({ w, b: b_params[at]?.value }));
      closeAll(sent, update.values_sent);
      const { wins, losses, num_games: games } = update;
      const packedFlips = packFlips([...update.flips]);
      updateSpsa(spsa, { iter: spsa.iter, packedFlips, wins, losses, num_games: games });
      closeAll(
        spsa.params.map(({ theta }) => theta),
        update.theta_after,
      );
      assert.equal(spsa.iter, update.iter_after);
    }
  });

  it('packs flips, spaces history and draws the way of a tuning', () => {
    const { packed_flips, history_period, chart } = golden.spsa;
    for (const { flips, hex, crc32 } of packed_flips) {
      const packed = packFlips([...flips]);
      assert.equal(Buffer.from(packed).toString('hex'), hex);
      assert.equal(flipsSignature(packed), crc32);
      assert.deepEqual(unpackFlips(packed, flips.length), [...flips]);
    }
    for (const { num_iter, params, out } of history_period) {
      close(historyPeriod(num_iter, params), out);
    }
    for (const { spsa, out } of chart) {
      closeAll(spsaChart(plain(spsa)), out);
    }
    closeAll(spsaStep({ A: 25, alpha: 0.602, gamma: 0.101 }, { a: 0.2, c: 1.6 }, 2), {
      c: 1.6 / 3 ** 0.101,
      R: 0.2 / 28 ** 0.602 / (1.6 / 3 ** 0.101) ** 2,
    });
  });

  it('guesses how long a sequential test will take', () => {
    const bounds = { lower_bound: -Math.log(19), upper_bound: Math.log(19) };
    for (const one of golden.remaining_hours_sprt) {
      const overshoot = plain(one.overshoot) ?? undefined;
      const sprt = { llr: one.llr, ...bounds, overshoot };
      const run = { tc: one.tc, threads: 1, num_games: one.num_games, sprt };
      close(remainingHours(run, 2 * one.pairs), one.hours, one.pairs);
    }
  });

  it('says the same of results', () => {
    for (const { args, results, out } of golden.format_results) {
      closeAll(resultText(plain(args), plain(results)), out);
    }
  });

  it('leaves no number of its part of the file unread', () => {
    assert.deepEqual(unreadPaths('statistics'), []);
  });
});
