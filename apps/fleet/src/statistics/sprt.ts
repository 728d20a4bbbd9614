import { countsOf, type Results, sum } from './distribution.ts';
import { type EloModel, llr } from './llr.ts';

/** How far the ratio jumped past its former extremes: what a bound is overshot by on average. */
export interface Overshoot {
  last_update: number;
  skipped_updates: number;
  ref0: number;
  m0: number;
  sq0: number;
  ref1: number;
  m1: number;
  sq1: number;
}

export type SprtState = '' | 'accepted' | 'rejected';

/** A sequential test as it is stored with its run and sent to workers. */
export interface Sprt {
  readonly alpha: number;
  readonly beta: number;
  readonly elo0: number;
  readonly elo1: number;
  readonly elo_model?: EloModel | undefined;
  state: SprtState;
  llr: number;
  /** In samples: pairs if the run counts pairs. */
  readonly batch_size: number;
  readonly lower_bound: number;
  readonly upper_bound: number;
  overshoot?: Overshoot;
  lost_samples?: number;
  illegal_update?: number;
}

export interface SprtOptions {
  readonly elo0: number;
  readonly elo1: number;
  readonly elo_model: EloModel;
  /** Pairs between two updates: an integer from 1. */
  readonly batch_size: number;
}

const alpha = 0.05;
const beta = 0.05;

/** A sequential test that has seen nothing yet. */
export function newSprt({ elo0, elo1, elo_model, batch_size }: SprtOptions): Sprt {
  return {
    alpha,
    beta,
    elo0,
    elo1,
    elo_model,
    state: '',
    llr: 0,
    batch_size,
    lower_bound: Math.log(beta / (1 - alpha)),
    upper_bound: Math.log((1 - beta) / alpha),
    overshoot: {
      last_update: 0,
      skipped_updates: 0,
      ref0: 0,
      m0: 0,
      sq0: 0,
      ref1: 0,
      m1: 0,
      sq1: 0,
    },
  };
}

/** Takes the results so far into account, and decides if they suffice. */
export function updateSprt(sprt: Sprt, results: Results): void {
  const { elo0, elo1, elo_model: model = 'BayesElo' } = sprt;
  const samples = sum(countsOf(results));
  sprt.llr = llr(results, { elo0, elo1, model });
  if (samples % sprt.batch_size !== 0) {
    sprt.illegal_update = samples;
    delete sprt.overshoot;
  }
  if (sprt.overshoot !== undefined) watchOvershoot(sprt, sprt.overshoot, samples);
  const { below, above } = expectedOvershoot(sprt.overshoot);
  if (sprt.llr < sprt.lower_bound + below) sprt.state = 'rejected';
  else if (sprt.llr > sprt.upper_bound - above) sprt.state = 'accepted';
  else sprt.state = '';
}

/** By how much the ratio passes each bound on average when it does. */
export function expectedOvershoot(
  overshoot: Pick<Overshoot, 'm0' | 'sq0' | 'm1' | 'sq1'> | undefined,
): { readonly below: number; readonly above: number } {
  if (overshoot === undefined) return { below: 0, above: 0 };
  const { m0, sq0, m1, sq1 } = overshoot;
  return { below: m0 === 0 ? 0 : -sq0 / m0 / 2, above: m1 === 0 ? 0 : sq1 / m1 / 2 };
}

function watchOvershoot(sprt: Sprt, overshoot: Overshoot, samples: number): void {
  const added = samples - overshoot.last_update;
  if (added < 0) {
    sprt.lost_samples = -added;
    delete sprt.overshoot;
  } else if (added === sprt.batch_size) {
    learn(overshoot, sprt.llr);
  } else if (added > 0) {
    // What happened in between was not seen, so no jump can be told from here.
    overshoot.ref0 = sprt.llr;
    overshoot.ref1 = sprt.llr;
    overshoot.skipped_updates += added - 1;
  }
  overshoot.last_update = samples;
}

function learn(overshoot: Overshoot, ratio: number): void {
  if (ratio < overshoot.ref0) {
    const jump = ratio - overshoot.ref0;
    overshoot.m0 += jump;
    overshoot.sq0 += jump ** 2;
    overshoot.ref0 = ratio;
  }
  if (ratio > overshoot.ref1) {
    const jump = ratio - overshoot.ref1;
    overshoot.m1 += jump;
    overshoot.sq1 += jump ** 2;
    overshoot.ref1 = ratio;
  }
}
