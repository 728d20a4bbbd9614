import type { Health } from 'spillway-fixtures/overload';
import type { Figure, Run } from '../contest.ts';
import type { CallSettings } from './settings.ts';

/** A server of a contender, in a process of its own. */
export interface Running {
  readonly port: number;
  /** Changes the health of the dependency of one route. */
  turn(route: number, health: Health): void;
  report(): Promise<Report>;
}

/** Measurements of a server's process since it began to listen. */
export interface Report {
  /** Processor time, in milliseconds. */
  readonly cpuMs: number;
  /** The 99th percentile of its event-loop delay, in milliseconds. */
  readonly lateMs: number;
  /** Calls of each route's dependency: when each was begun, and how long it takes. */
  readonly calls: readonly (readonly Call[])[];
}

export type Call = readonly [at: number, ms: number];

/** The contenders. `ours` has lanes with the written numbers. */
export const kinds = ['ours', 'bare', 'under-pressure', 'piscina'] as const;

/** The contender that a case measures. */
export interface Contender {
  readonly kind: (typeof kinds)[number];
  /** Starts a server with these routes to dependencies, besides the usual ones. */
  start(calls: readonly CallSettings[]): Promise<Running>;
}

/** One run of the bench. */
export interface Case {
  readonly run: Run;
  /** True if our server has lanes whose numbers are right; otherwise nothing is tuned. */
  readonly isTuned: boolean;
  measure(contender: Contender, quick: boolean): Promise<Record<string, number>>;
}

/** One of the addresses from which clients of a contender come. */
export function address({ kind }: Contender, at: number): string {
  return `127.0.${1 + kinds.indexOf(kind)}.${1 + (at % 250)}`;
}

export function figure(
  name: string,
  unit: string,
  better: Figure['better'],
  ...targets: Figure['targets']
): Figure {
  return { name, unit, better, targets };
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
