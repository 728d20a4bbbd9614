import type { Results } from './distribution.ts';
import { countsOf } from './distribution.ts';
import { eloEstimate } from './elo.ts';
import type { Sprt, SprtState } from './sprt.ts';

/** What the results of a run look like to people. */
export interface ResultText {
  /** Background colour, or the empty string. */
  readonly style: string;
  readonly info: readonly string[];
}

export interface ResultTextInput {
  readonly results: Results;
  readonly numGames: number;
  readonly sprt?: ShownSprt | undefined;
  readonly spsa?: { readonly iter: number; readonly num_iter: number } | undefined;
}

type ShownSprt = Pick<
  Sprt,
  'state' | 'elo_model' | 'llr' | 'lower_bound' | 'upper_bound' | 'elo0' | 'elo1'
>;

/** What stands around the bounds of a sequential test, by its model. */
export const brackets = { BayesElo: '[]', logistic: '{}', normalized: '<>' } as const;

export function resultText({ results, numGames, sprt, spsa }: ResultTextInput): ResultText {
  const { wins, losses, draws, pentanomial } = results;
  const games = wins + losses + draws;
  if (spsa !== undefined) {
    const { iter, num_iter } = spsa;
    const info = [`${iter}/${num_iter} iterations`, `${games}/${numGames} games played`];
    return { style: '', info };
  }
  const info = [
    sprt === undefined ? eloLine(results) : sprtLine(sprt),
    `Total: ${games} W: ${wins} L: ${losses} D: ${draws}`,
  ];
  if (pentanomial !== undefined) info.push(`Ptnml(0-2): ${pentanomial.join(', ')}`);
  const state = sprt === undefined ? fixedGamesState(results) : sprt.state;
  return { style: background(state, results, sprt), info };
}

/** What a fixed number of games says at 95 %. */
export function fixedGamesState(results: Results): SprtState {
  const { los } = eloEstimate(countsOf(results));
  if (los < 0.05) return 'rejected';
  return los > 0.95 ? 'accepted' : '';
}

function eloLine(results: Results): string {
  const { elo, error95, los } = eloEstimate(countsOf(results));
  const share = (100 * los).toFixed(1);
  return `Elo: ${elo.toFixed(2)} ± ${error95.toFixed(1)} (95%) LOS: ${share}%`;
}

function sprtLine(sprt: ShownSprt): string {
  const [open, close] = brackets[sprt.elo_model ?? 'BayesElo'];
  const bounds = `(${sprt.lower_bound.toFixed(2)},${sprt.upper_bound.toFixed(2)})`;
  const elos = `${open}${sprt.elo0.toFixed(2)},${sprt.elo1.toFixed(2)}${close}`;
  return `LLR: ${sprt.llr.toFixed(2)} ${bounds} ${elos}`;
}

function background(state: SprtState, { wins, losses }: Results, sprt?: ShownSprt): string {
  if (state === 'rejected') return wins > losses ? 'yellow' : '#FF6A6A';
  if (state === '') return '';
  return sprt !== undefined && sprt.elo0 + sprt.elo1 < 0 ? '#66CCFF' : '#44EB44';
}
