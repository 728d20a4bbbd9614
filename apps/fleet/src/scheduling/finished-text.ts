import { eloEstimate } from '../statistics/elo.ts';
import { sprtElo } from '../statistics/sprt-elo.ts';
import type { Run } from './run.ts';

/** `Result:accepted Elo:1.23[0.12,2.34] LOS:98% Games:40000 Ptnml:[1,2,3,4,5]` */
export function finishedText(run: Run): string {
  const { results, is_green } = run.record;
  const { sprt, spsa } = run.args;
  if (spsa !== undefined) return 'SPSA tune finished';
  const state = sprt === undefined ? (is_green ? 'accepted' : 'rejected') : sprt.state;
  const { elo, low, high, los } = strength(run);
  return (
    `Result:${state} Elo:${elo.toFixed(2)}[${low.toFixed(2)},${high.toFixed(2)}] ` +
    `LOS:${(100 * los).toFixed(0)}% Games:${run.games} Ptnml:[${results.pentanomial.join(',')}]`
  );
}

function strength(run: Run): { elo: number; low: number; high: number; los: number } {
  const { results } = run.record;
  const { sprt } = run.args;
  if (sprt === undefined) {
    const { elo, error95, los } = eloEstimate(results.pentanomial);
    return { elo, low: elo - error95, high: elo + error95, los };
  }
  const { elo0, elo1, alpha, beta, elo_model: model = 'BayesElo' } = sprt;
  const { elo, ci, LOS } = sprtElo(results, { elo0, elo1, alpha, beta, model });
  return { elo, low: ci[0], high: ci[1], los: LOS };
}
