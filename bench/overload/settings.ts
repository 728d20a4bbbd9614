/**
 * Two cores are shared by the load generator, the server's event loop and one worker thread. At ten
 * times the capacity the first two take some 0.5 cores together, so the worker has one to itself.
 */
export const workers = 1;
/** Processor time of one request to the CPU-heavy route. */
export const cpuMs = 8;
/** The dependency serves so many at once, each in so long, before it gets slower. */
export const dependencyPlaces = 8;
export const dependencyMs = 40;
/** How long a client waits for its answer; what comes later is of no use. */
export const patienceMs = 500;

/** What each route can do at most, in requests per second. */
export const capacityOf: Readonly<Record<string, number>> = {
  cpu: (workers * 1_000) / cpuMs,
  dependency: (dependencyPlaces * 1_000) / dependencyMs,
};

/** What a server is told when it starts. */
export interface ServerSettings {
  /** How often `spin` turns for one request to the CPU-heavy route. */
  readonly iterations: number;
}
