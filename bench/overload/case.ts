import type { Health } from 'spillway-fixtures/overload';
import type { Figure, Run } from '../contest.ts';
import type { ServerSettings } from './settings.ts';

/** A server of a contender, in a process of its own. */
export interface Running {
  readonly port: number;
  /** Changes the health of its dependencies. */
  turn(health: Health): void;
}

/** One run of the bench, with a fresh server. */
export interface Case {
  readonly run: Run;
  /** True if our server has lanes whose numbers are right; else nothing is tuned. */
  readonly isTuned: boolean;
  readonly settings: Omit<ServerSettings, 'iterations'>;
  readonly measure: (server: Running, quick: boolean) => Promise<Record<string, number>>;
}

export function figure(
  name: string,
  unit: string,
  better: Figure['better'],
  targets: Figure['targets'] = [],
): Figure {
  return { name, unit, better, targets };
}
