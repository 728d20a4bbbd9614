import { type Clock, systemClock } from 'spillway';

/**
 * Milliseconds since 1970, for what other instances and later runs must read. It goes on from the
 * time at which this process began, so that no jump of the machine's clock makes anything expire.
 */
export const wallClock: Clock = {
  now: () => performance.timeOrigin + systemClock.now(),
  after: (ms, callback) => systemClock.after(ms, callback),
};
