import { eloPerDeviation, scoreOf } from './elo.ts';

export interface SprtCalculatorOptions {
  readonly model: 'logistic' | 'normalized';
  readonly elo0: number;
  readonly elo1: number;
  /** Share of drawn games, from 0 to 1. */
  readonly drawRatio: number;
  /** How uneven openings are, in Elo (root mean square). */
  readonly rmsBias: number;
}

/** What a sequential test would do with a change of some strength. */
export interface SprtForecast {
  readonly passChance: number;
  readonly games: number;
}

const upper = Math.log(19);
const lower = -upper;

/** The chance to pass and the games it takes, for a change worth `elo`; NaN if impossible. */
export function sprtForecast(options: SprtCalculatorOptions, elo: number): SprtForecast {
  const variance = (1 - options.drawRatio) / 4 - (scoreOf(options.rmsBias) - 0.5) ** 2;
  if (!(variance > 0)) return { passChance: NaN, games: NaN };
  const score = (value: number) =>
    options.model === 'normalized'
      ? (value / eloPerDeviation) * Math.sqrt(variance) + 0.5
      : scoreOf(value);
  const [s0, s1, s] = [score(options.elo0), score(options.elo1), score(elo)];
  const square = (s1 - s0) ** 2 / variance;
  const h = (2 * s - (s0 + s1)) / (s1 - s0);
  if (Math.abs(h * (lower - upper)) < 1e-6) {
    return { passChance: -lower / (upper - lower), games: (-lower * upper) / square };
  }
  const [atLower, atUpper] = [Math.exp(-h * lower), Math.exp(-h * upper)];
  const passChance = (1 - atLower) / (atUpper - atLower);
  const games = ((2 / h) * (upper * passChance + lower * (1 - passChance))) / square;
  return { passChance, games };
}
