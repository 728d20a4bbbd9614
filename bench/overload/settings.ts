import type { monitorEventLoopDelay } from 'node:perf_hooks';
import type { DependencyOptions } from 'spillway-fixtures/overload';
import { spin } from '../pool/tasks.ts';

/**
 * Two cores are shared by the load generator, the server's event loop and one worker thread. At ten
 * times the capacity, 1,000 requests a second, the first two take about half a core together, so
 * that the worker has one to itself and the generator is not what is measured.
 */
export const workers = 1;
/** Processor time of one request to the CPU-heavy route. */
export const cpuMs = 10;
/** Calls that the dependency serves at once, and the time of each, before it slows down. */
export const dependencyPlaces = 8;
export const dependencyMs = 80;
/** Time limit of a client, in milliseconds; a later answer does not count. */
export const patienceMs = 500;

/** Capacity of each route, in requests per second. */
export const capacityOf: Readonly<Record<string, number>> = {
  cpu: (workers * 1_000) / cpuMs,
  dependency: (dependencyPlaces * 1_000) / dependencyMs,
};

/** A dependency: how many calls it serves at once, and the time of each. */
export type Service = Pick<DependencyOptions, 'places' | 'serviceMs' | 'shape'>;
/** Numbers for a lane as people write them. */
export type Written = readonly [limit: number, queueMax: number, deadlineMs: number];

/** Settings that a server is started with. */
export interface ServerSettings {
  /** Turns of `spin` for one request to the CPU-heavy route. */
  readonly iterations: number;
  /** The routes `/calls/0` and on, each with a dependency of its own. */
  readonly calls: readonly CallSettings[];
}

/** A dependency, and the numbers of the route to it; undefined for a contender's defaults. */
export interface CallSettings {
  readonly service: Service;
  readonly written?: Written | undefined;
}

/** The 99th percentile of the event-loop delay, sampled every 10 ms as is usual. */
export function latenessOf(delay: ReturnType<typeof monitorEventLoopDelay>): number {
  return Math.max(0, delay.percentile(99) / 1e6 - 10);
}

/** Turns of `spin` that take a given time, by the quickest of many short tries. */
export function iterationsFor(ms: number): number {
  const tried = 100_000;
  let quickestMs = Infinity;
  let result = 0;
  for (let count = 0; count < 3_000; count += 1) {
    const startedAt = performance.now();
    result ^= spin(tried);
    quickestMs = Math.min(quickestMs, performance.now() - startedAt);
  }
  // Uses the result, or the optimiser may remove the work.
  return Math.round((tried * ms) / quickestMs) + (result & 0);
}
