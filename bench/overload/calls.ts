import { type Clock, seededRandom, systemClock } from 'spillway';
import { Dependency, type Health } from 'spillway-fixtures/overload';
import type { Call } from './case.ts';
import type { ServerSettings, Written } from './settings.ts';

/** A route's work, and the numbers by which a contender should guard it, if any. */
export interface CallRoute {
  readonly path: string;
  readonly work: (signal: AbortSignal) => Promise<unknown>;
  readonly written: Written | undefined;
}

/** Calls of each route's dependency so far. */
export const calls: Call[][] = [];

/**
 * The routes with a dependency of their own, `/calls/0` and on. Messages from the parent set the
 * health of the dependencies.
 */
export function callRoutes(settings: ServerSettings): CallRoute[] {
  process.setMaxListeners(0);
  return settings.calls.map(({ service, written }, at) => {
    const begun: Call[] = [];
    calls.push(begun);
    const random = seededRandom(at + 1);
    const dependency = new Dependency({ ...service, clock: punctualClock(begun), random });
    process.on('message', ({ route, health }: { route?: number; health?: Health }) => {
      if (route === at && health !== undefined) dependency.turn(health);
    });
    const work = async (signal: AbortSignal) => {
      await dependency.call(signal);
      return { ok: true };
    };
    return { path: `/calls/${at}`, work, written };
  });
}

/** Share by which a call may be shortened to make up for calls that ended late. */
const aheadMost = 1 / 20;

/**
 * A clock whose timers are right on average: each is set earlier by the lateness of those before.
 * Otherwise a server of 40 ms would lose 3 of 100 calls to late timers. It records all durations.
 */
function punctualClock(begun: Call[]): Clock {
  let owedMs = 0;
  return {
    now: () => systemClock.now(),
    after(ms, callback) {
      begun.push([Date.now(), ms]);
      const startedAt = systemClock.now();
      const aheadMs = Math.min(owedMs, ms * aheadMost);
      owedMs -= aheadMs;
      return systemClock.after(ms - aheadMs, () => {
        owedMs += systemClock.now() - startedAt - (ms - aheadMs);
        callback();
      });
    },
  };
}

/** A signal that never aborts, for contenders that give their handlers none. */
export const never: AbortSignal = new AbortController().signal;
