import { type Html, html } from 'spillway-http';
import { card, decimal, facts, percent, signed, unknown } from 'spillway-http/kit';
import { normalizedEloLine } from '../../statistics/elo.ts';
import {
  type RawStatistics,
  rawStatistics,
  type SampleStatistics,
} from '../../statistics/run-statistics.ts';
import { expectedOvershoot } from '../../statistics/sprt.ts';
import type { Run } from '../../world/run.ts';

/** The numbers behind the verdict on a run. */
export function rawStatisticsCards(run: Run): Html {
  const { results } = run.record;
  const { sprt, spsa } = run.args;
  if (spsa !== undefined || run.games === 0) {
    return html`${card({ id: 'none', title: 'No statistics', body: 'There is nothing to test.' })}`;
  }
  const test = sprt && {
    elo0: sprt.elo0,
    elo1: sprt.elo1,
    model: sprt.elo_model ?? ('BayesElo' as const),
  };
  const raw = rawStatistics(results, test);
  const { pentanomial: pairs, trinomial } = raw;
  return html`${card({ id: 'context', title: 'Context', body: context(run, raw) })}
<div class="halves">
${pairs && card({ id: 'pairs', title: 'Pairs of games', body: sample(pairs) })}
${card({ id: 'games', title: 'Single games', body: sample(trinomial) })}</div>`;
}

type Fact = readonly [name: string, value: string];

/** Facts about a value, none if there is no value. */
function known<T>(value: T | undefined, facts: (value: T) => Fact[]): Fact[] {
  return value === undefined ? [] : facts(value);
}

function context(run: Run, raw: RawStatistics): Html {
  const { sprt } = run.args;
  const { bounds } = raw;
  const { pentanomial: pairs } = run.record.results;
  const both = ([low, high]: readonly [number, number]) =>
    `${decimal(low, 3)}, ${decimal(high, 3)}`;
  const overshoot = sprt?.overshoot && expectedOvershoot(sprt.overshoot);
  return facts([
    ['Games', decimal(run.games)],
    ['Normalized Elo', normalizedEloLine(pairs)],
    ['Draws', percent(raw.drawRatio, 2)],
    ['Draw Elo', decimal(raw.drawElo, 2)],
    ...known(sprt, ({ alpha, beta, batch_size = 1 }) => [
      ['Error chances', `α = ${alpha}, β = ${beta}`],
      ['Batch', `${batch_size} pairs`],
    ]),
    ...known(bounds, ({ logistic, normalized, BayesElo }) => [
      ['Bounds, logistic', both(logistic)],
      ['Bounds, normalized', both(normalized)],
      ['Bounds, BayesElo', both(BayesElo)],
    ]),
    ...known(overshoot, ({ below, above }) => [
      ['Expected overshoot', `${decimal(below, 4)}, ${decimal(above, 4)}`],
    ]),
    ['Variance of pairs by games', decimal(raw.varianceRatio, 4)],
    ['Bias of openings', raw.rmsBias === undefined ? unknown : `${decimal(raw.rmsBias, 2)} Elo`],
  ]);
}

function sample(one: SampleStatistics): Html {
  const list = (numbers: readonly number[], digits: number) =>
    numbers.map((value) => decimal(value, digits)).join(', ');
  const between = ({ value, low, high }: SampleStatistics['score'], digits: number) =>
    `${decimal(value, digits)} (${decimal(low, digits)} to ${decimal(high, digits)})`;
  const { test, elo } = one;
  const isEmpty = one.games === 0;
  return facts([
    ['Elo', isEmpty ? unknown : `${signed(elo.elo, 3)} ± ${decimal(elo.error95, 3)}`],
    ['Chance to be stronger', isEmpty ? unknown : percent(elo.los, 2)],
    ['Games', decimal(one.games)],
    ['Counts', list(one.counts, 0)],
    ['Shares', list(one.distribution, 5)],
    ['Mean', decimal(one.mean, 5)],
    ['Variance', decimal(one.variance, 6)],
    ['Skewness', decimal(one.skewness, 5)],
    ['Excess kurtosis', decimal(one.excessKurtosis, 5)],
    ['Score', between(one.score, 5)],
    ['Variance a game', between(one.variancePerGame, 5)],
    ['Deviation a game', between(one.deviationPerGame, 5)],
    ['Normalized Elo', between(one.normalizedElo, 3)],
    ...known(test, ({ llr, llrQuick, llrNormal, jumps }) => [
      ['LLR, logistic', `${decimal(llr.logistic, 4)} exact`],
      ['', `${decimal(llrQuick.logistic, 4)} approximate`],
      ['LLR, normalized', `${decimal(llr.normalized, 4)} exact`],
      ['', `${decimal(llrQuick.normalized, 4)} approximate`],
      ['LLR, normal', decimal(llrNormal, 4)],
      ['Jumps of the LLR', list(jumps, 4)],
    ]),
  ]);
}
