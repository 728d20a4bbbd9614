/** Results of games: of a task, or of a run as the sum of its tasks. */
export interface Stats {
  wins: number;
  losses: number;
  draws: number;
  crashes: number;
  time_losses: number;
  pentanomial: number[];
}

export function zeroStats(): Stats {
  const pentanomial = [0, 0, 0, 0, 0];
  return { wins: 0, losses: 0, draws: 0, crashes: 0, time_losses: 0, pentanomial };
}

export function gamesOf({ wins, losses, draws }: Pick<Stats, 'wins' | 'losses' | 'draws'>): number {
  return wins + losses + draws;
}

/** Adds what `after` has more than `before` to the sum. */
export function addDifference(sum: Stats, after: Readonly<Stats>, before: Readonly<Stats>): void {
  sum.wins += after.wins - before.wins;
  sum.losses += after.losses - before.losses;
  sum.draws += after.draws - before.draws;
  sum.crashes += after.crashes - before.crashes;
  sum.time_losses += after.time_losses - before.time_losses;
  for (let at = 0; at < sum.pentanomial.length; at += 1) {
    const more = (after.pentanomial[at] as number) - (before.pentanomial[at] as number);
    sum.pentanomial[at] = (sum.pentanomial[at] as number) + more;
  }
}

/** Whether so much went wrong that the games should not count. */
export function crashOrTime(stats: Stats): boolean {
  const games = gamesOf(stats);
  return stats.crashes > 3 || (games > 20 && stats.time_losses / games > 0.1);
}

/** `Time losses:3(13.6%) Crashes:0(0.0%)` */
export function crashOrTimeText(stats: Stats): string {
  const games = Math.max(1, gamesOf(stats));
  const counted = (count: number) => `${count}(${((100 * count) / games).toFixed(1)}%)`;
  return `Time losses:${counted(stats.time_losses)} Crashes:${counted(stats.crashes)}`;
}
