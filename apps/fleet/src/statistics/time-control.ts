import type { RunArgs } from '../world/records.ts';
import { expectedOvershoot, type Sprt } from './sprt.ts';

/** Accepts `10+0.1`, `40/60+0.6`, `5`; the number of moves does not start with a zero. */
export const timeControlPattern: RegExp = /^([1-9]\d*\/)?\d+(\.\d+)?(\+\d+(\.\d+)?)?$/;

/** Seconds from which on the base of a time control is a long one. */
export const ltcFrom = 40;

const movesPerGame = 68;
const secondsPerClockSecond = 1.84;

/** Average duration of a game, in seconds; `mm:ss` is a base time as well. */
export function gameDuration(timeControl: string): number {
  const [clock = '', increment = '0'] = timeControl.split('+');
  const [first = '', second] = clock.split('/');
  const base = second === undefined ? seconds(first) : (seconds(second) * movesPerGame) / +first;
  return (base + +increment * movesPerGame) * secondsPerClockSecond;
}

const shortGame = gameDuration('10+0.1');

/** The cost of a game in games of one thread at 10+0.1. */
export function timeControlRatio(timeControl: string, threads: number): number {
  return (threads * gameDuration(timeControl)) / shortGame;
}

/** Pairs between two updates of a sequential test: fewer, the more a game costs. */
export function sprtBatchSize(timeControl: string, threads: number): number {
  return Math.max(1, Math.floor(0.5 + 16 / timeControlRatio(timeControl, threads)));
}

function seconds(text: string): number {
  return text.split(':').reduce((total, part) => total * 60 + +part, 0);
}

/** The part of a run that tells how long it will take. */
type RestOfRun = Pick<RunArgs, 'tc' | 'threads' | 'num_games'> & {
  readonly sprt?: RestOfSprt | undefined;
};

interface RestOfSprt extends Pick<Sprt, 'llr' | 'lower_bound' | 'upper_bound'> {
  readonly overshoot?: Parameters<typeof expectedOvershoot>[0];
}

const pairsUntilSure = 2_632_036;
const usualGames = 95_000;

/** Core hours that a run still needs after these games. */
export function remainingHours(
  { tc, threads, num_games, sprt }: RestOfRun,
  played: number,
): number {
  const left =
    sprt === undefined ? num_games - played : remainingSprtGames(sprt, played, num_games);
  return (gameDuration(tc) * Math.max(0, left) * threads) / 3600;
}

/** Estimate from the speed of the ratio so far; at first from what tests usually take. */
function remainingSprtGames(sprt: RestOfSprt, played: number, gamesMax: number): number {
  const { below, above } = expectedOvershoot(sprt.overshoot);
  const bound = sprt.llr > 0 ? sprt.upper_bound - above : -sprt.lower_bound - below;
  const ratio = Math.max(0.1, Math.abs(sprt.llr));
  if (ratio >= bound) return 0;
  const trust = 1 - (1 - Math.min(played / 2 / pairsUntilSure, 1)) ** 15;
  const reached = Math.floor((played * bound) / ratio);
  const expected = Math.floor(reached * trust + usualGames * (1 - trust));
  return Math.min(gamesMax, expected) - played;
}
