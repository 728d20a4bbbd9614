import { fixedGamesState } from '../statistics/result-text.ts';
import type { SprtState } from '../statistics/sprt.ts';
import type { Stats } from './stats.ts';

/** How a run ended: green passed, yellow failed although it won more games than it lost. */
export interface Colours {
  readonly is_green: boolean;
  readonly is_yellow: boolean;
}

export interface ColoursInput {
  readonly finished: boolean;
  readonly results: Stats;
  readonly sprt?: { readonly state: SprtState } | undefined;
  readonly spsa?: object | undefined;
}

export function colours({ finished, results, sprt, spsa }: ColoursInput): Colours {
  if (!finished || spsa !== undefined) return { is_green: false, is_yellow: false };
  const state = sprt === undefined ? fixedGamesState(results) : sprt.state;
  const is_yellow = state === 'rejected' && results.wins > results.losses;
  return { is_green: state === 'accepted', is_yellow };
}
