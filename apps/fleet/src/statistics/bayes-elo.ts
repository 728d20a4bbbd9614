import { observed, type Results } from './distribution.ts';
import { eloOf, scoreOf } from './elo.ts';

/** The chances of a game in the BayesElo model. */
export interface GameChances {
  readonly win: number;
  readonly draw: number;
  readonly loss: number;
}

export function bayesEloChances(bayesElo: number, drawElo: number): GameChances {
  const win = 1 / (1 + 10 ** ((drawElo - bayesElo) / 400));
  const loss = 1 / (1 + 10 ** ((drawElo + bayesElo) / 400));
  return { win, draw: 1 - win - loss, loss };
}

/** How drawish games were, as the model's second parameter. */
export function drawEloOf({ wins, losses, draws }: Omit<Results, 'pentanomial'>): number {
  const [loss, , win] = observed([losses, draws, wins]).probabilities as [number, number, number];
  return drawElo(win, loss);
}

/** A BayesElo difference as a logistic one. */
export function bayesEloToElo(bayesElo: number, drawEloNow: number): number {
  const { win, draw } = bayesEloChances(bayesElo, drawEloNow);
  return eloOf(win + draw / 2);
}

/** A logistic Elo difference at a share of draws, as BayesElo and draw Elo. */
export function eloToBayesElo(
  elo: number,
  drawRatio: number,
): { readonly bayesElo: number; readonly drawElo: number } {
  const win = scoreOf(elo) - drawRatio / 2;
  const loss = 1 - win - drawRatio;
  const bayesElo = 200 * Math.log10((win / loss) * ((1 - loss) / (1 - win)));
  return { bayesElo, drawElo: drawElo(win, loss) };
}

/** The log-likelihood ratio of two BayesElo hypotheses, as it was computed before the GSPRT. */
export function bayesEloLlr(results: Results, elo0: number, elo1: number): number {
  const drawEloNow = drawEloOf(results);
  const [under0, under1] = [elo0, elo1].map((elo) => bayesEloChances(elo, drawEloNow));
  const { wins, losses, draws } = results;
  const ratio = (key: keyof GameChances): number => {
    return Math.log((under1 as GameChances)[key] / (under0 as GameChances)[key]);
  };
  return wins * ratio('win') + draws * ratio('draw') + losses * ratio('loss');
}

function drawElo(win: number, loss: number): number {
  return 200 * Math.log10(((1 - loss) / loss) * ((1 - win) / win));
}
