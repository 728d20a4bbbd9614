import { gameDuration } from '../statistics/time-control.ts';
import type { RunArgs, TaskRecord } from '../world/records.ts';
import { gamesOf } from '../world/world.ts';

/** Work that one user has given. */
export interface Contribution {
  cpu_hours: number;
  games: number;
  /** Runs that the user submitted. */
  tests: number;
  /** Time at which a task of the user last changed, in UNIX milliseconds; 0 if there was none. */
  last_updated: number;
}

type Played = Pick<RunArgs, 'tc' | 'threads'>;

/** Contributions by user. */
export class Contributions {
  readonly byUser: Map<string, Contribution> = new Map();

  /** Counts a run for its submitter. */
  addTest(username: string): void {
    this.#of(username).tests += 1;
  }

  /** Counts the games of a task for the user whose worker played them. */
  addTask({ tc, threads }: Played, { stats, worker_info, last_updated }: TaskRecord): void {
    const games = gamesOf(stats);
    const cpu_hours = (games * threads * gameDuration(tc)) / 3600;
    this.add(worker_info.username, { cpu_hours, games, tests: 0, last_updated }, 1);
  }

  add(username: string, more: Contribution, sign: 1 | -1): void {
    const sum = this.#of(username);
    sum.cpu_hours += sign * more.cpu_hours;
    sum.games += sign * more.games;
    sum.tests += sign * more.tests;
    sum.last_updated = Math.max(sum.last_updated, more.last_updated);
  }

  #of(username: string): Contribution {
    const known = this.byUser.get(username);
    if (known !== undefined) return known;
    const none = { cpu_hours: 0, games: 0, tests: 0, last_updated: 0 };
    this.byUser.set(username, none);
    return none;
  }
}
