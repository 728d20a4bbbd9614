/** Accepts `10+0.1`, `40/60+0.6`, `5`; the number of moves does not start with a zero. */
export const timeControlPattern: RegExp = /^([1-9]\d*\/)?\d+(\.\d+)?(\+\d+(\.\d+)?)?$/;

const movesPerGame = 68;
const secondsPerClockSecond = 1.84;

/** How many seconds a game takes on average; `mm:ss` is a base time as well. */
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
