import { seededRandom, systemClock } from 'spillway';
import { Dependency, type Health } from 'spillway-fixtures/overload';
import type { ServerSettings, Written } from './settings.ts';

/** Work of a route, and the numbers that a contender should guard it with, if there are any. */
export interface CallRoute {
  readonly path: string;
  readonly work: (signal: AbortSignal) => Promise<unknown>;
  readonly written: Written | undefined;
}

/**
 * The routes of the cases with a dependency of their own: `/calls/0` as a contender comes, and one
 * for each of the settings. The health of the dependencies is told by messages.
 */
export function callRoutes({ service, written }: ServerSettings): CallRoute[] {
  if (service === undefined) return [];
  return [undefined, ...written].map((numbers, at) => {
    const random = seededRandom(at + 1);
    const dependency = new Dependency({ ...service, clock: systemClock, random });
    process.on('message', ({ health }: { health?: Health }) => {
      if (health !== undefined) dependency.turn(health);
    });
    const work = async (signal: AbortSignal) => {
      await dependency.call(signal);
      return { ok: true };
    };
    return { path: `/calls/${at}`, work, written: numbers };
  });
}

/** A signal for contenders that tell their handlers nothing. */
export const never: AbortSignal = new AbortController().signal;
