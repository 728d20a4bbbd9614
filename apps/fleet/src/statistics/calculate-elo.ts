import { fleetError } from '../errors.ts';
import { countsOf, type Results, sum } from './distribution.ts';
import { eloEstimate } from './elo.ts';
import type { EloModel } from './llr.ts';
import { type SprtElo, sprtElo } from './sprt-elo.ts';

/** The parameters of a question about results, as texts. */
export type EloQuery = Readonly<Record<string, string | undefined>>;

export interface PlainElo {
  readonly elo: number;
  /** 95 %. */
  readonly ci: readonly [number, number];
  readonly LOS: number;
}

const gamesMax = 2 ** 32;
const models: readonly string[] = ['BayesElo', 'logistic', 'normalized'] satisfies EloModel[];

/** What given results say about strength; with bounds, as those of a sequential test. */
export function calculateElo(query: EloQuery): PlainElo | SprtElo {
  const results = readResults(query);
  if (query.elo0 === undefined && query.elo1 === undefined) {
    const { elo, error95, los } = eloEstimate(countsOf(results));
    return { elo, ci: [elo - error95, elo + error95], LOS: los };
  }
  const [elo0, elo1] = [readNumber(query, 'elo0'), readNumber(query, 'elo1')];
  const model = query.elo_model ?? 'normalized';
  demand(models.includes(model), `elo_model: unknown: ${model}`);
  demand(elo1 >= elo0 + 0.5, 'elo1: must be at least elo0 + 0.5');
  demand(Math.abs(elo0) <= 10 && Math.abs(elo1) <= 10, 'elo0, elo1: must be from -10 to 10');
  const known = model !== 'BayesElo' || results.wins + results.losses + results.draws > 0;
  demand(known, 'elo_model: BayesElo needs W, D and L');
  return sprtElo(results, { elo0, elo1, model: model as EloModel });
}

const pairKeys = ['LL', 'LD', 'DDWL', 'WD', 'WW'];
const gameKeys = ['W', 'D', 'L'];

/** Pairs if all five are there and can be counts, else games. */
function readResults(query: EloQuery): Results {
  const given = (keys: readonly string[]) =>
    keys.every((key) => isCount(Number(query[key] || NaN)));
  const counts = (keys: readonly string[]) => keys.map((key) => readCount(query, key));
  const pentanomial = given(pairKeys) ? counts(pairKeys) : undefined;
  const games = pentanomial === undefined || given(gameKeys) ? counts(gameKeys) : [0, 0, 0];
  const [wins = 0, draws = 0, losses = 0] = games;
  const played = pentanomial === undefined ? sum(games) : 2 * sum(pentanomial);
  demand(played > 0, 'no games');
  demand(played <= gamesMax, 'too many games');
  return { wins, draws, losses, pentanomial };
}

function readCount(query: EloQuery, key: string): number {
  const number = readNumber(query, key);
  demand(isCount(number), `${key}: must be an integer from 0`);
  return number;
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0;
}

function readNumber(query: EloQuery, key: string): number {
  const text = query[key];
  demand(text !== undefined, `${key}: missing`);
  const number = text.trim() === '' ? NaN : Number(text);
  demand(Number.isFinite(number), `${key}: not a number`);
  return number;
}

function demand(holds: boolean, complaint: string): asserts holds {
  if (!holds) throw fleetError('REQUEST_INVALID', complaint);
}
