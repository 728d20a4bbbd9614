import { type Counts, moments, observed, type Results, regularized, sum } from './results.ts';
import { normalCdf } from './special-functions.ts';

/** Elo of one standard deviation of a game's score: what normalized Elo is measured in. */
export const eloPerDeviation: number = 800 / Math.LN10;

/** Half the width, in standard deviations, of an interval that holds 95 %. */
export const z95 = 1.959963985;

/** The expected score of an engine that is stronger by this much Elo. */
export function scoreOf(elo: number): number {
  return 1 / (1 + 10 ** (-elo / 400));
}

/** The Elo difference that explains a score; scores beyond 0.001 and 0.999 count as those. */
export function eloOf(score: number): number {
  const held = Math.min(Math.max(score, 0.001), 0.999);
  return -400 * Math.log10(1 / held - 1);
}

/** The strength of the new engine after a fixed number of games. */
export function eloEstimate(counts: Counts) {
  const weights = regularized(counts);
  const gamesEach = (weights.length - 1) / 2;
  const games = sum(weights) * gamesEach;
  const mean = weights.reduce((total, weight, at) => total + (weight * at) / 2, 0) / games;
  const square = (at: number) => (at / 2 - gamesEach * mean) ** 2;
  const variance = weights.reduce((total, weight, at) => total + weight * square(at), 0) / games;
  const deviation = Math.sqrt(variance / games);
  return {
    elo: eloOf(mean),
    /** Half the width of the 95 % interval. */
    error95: (eloOf(mean + z95 * deviation) - eloOf(mean - z95 * deviation)) / 2,
    /** Likelihood of superiority: the chance that the new engine is stronger. */
    los: normalCdf((mean - 0.5) / deviation),
  };
}

/** Strength in units that do not depend on how drawish the games are. */
export function normalizedElo(pentanomial: Counts) {
  const seen = observed(pentanomial);
  const { mean, variance, skewness, excessKurtosis } = moments(seen);
  const t = (mean - 0.5) / Math.sqrt(variance);
  const tVariance = Math.max(1 - t * skewness + (t ** 2 * (excessKurtosis + 2)) / 4, 0);
  const perDeviation = eloPerDeviation / Math.SQRT2;
  const [ll = 0, ld = 0, , wd = 0, ww = 0] = pentanomial;
  return {
    elo: perDeviation * t,
    /** Half the width of the 95 % interval. */
    error95: perDeviation * z95 * Math.sqrt(tVariance / seen.samples),
    /** Pairs won to pairs lost; infinite or not a number when none was lost. */
    pairsRatio: (wd + ww) / (ll + ld),
  };
}

/** `nElo: 1.23 +/- 4.5 (95%) PairsRatio: 1.02` */
export function normalizedEloLine(pentanomial: Counts): string {
  const { elo, error95, pairsRatio } = normalizedElo(pentanomial);
  const unknown = Number.isNaN(pairsRatio) ? 'nan' : 'inf';
  const ratio = Number.isFinite(pairsRatio) ? pairsRatio.toFixed(2) : unknown;
  return `nElo: ${elo.toFixed(2)} +/- ${error95.toFixed(1)} (95%) PairsRatio: ${ratio}`;
}

/** The chances of a game in the BayesElo model. */
export function bayesEloChances(bayesElo: number, drawElo: number) {
  const win = 1 / (1 + 10 ** ((drawElo - bayesElo) / 400));
  const loss = 1 / (1 + 10 ** ((drawElo + bayesElo) / 400));
  return { win, draw: 1 - win - loss, loss };
}

/** Draw tendency of the games, as the model's second parameter. */
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
export function eloToBayesElo(elo: number, drawRatio: number) {
  const win = scoreOf(elo) - drawRatio / 2;
  const loss = 1 - win - drawRatio;
  const bayesElo = 200 * Math.log10((win / loss) * ((1 - loss) / (1 - win)));
  return { bayesElo, drawElo: drawElo(win, loss) };
}

function drawElo(win: number, loss: number): number {
  return 200 * Math.log10(((1 - loss) / loss) * ((1 - win) / win));
}
