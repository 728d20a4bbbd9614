import { type Clock, systemClock } from 'spillway';

/** UNIX milliseconds. It goes on from when the process began, so that it never goes back. */
export const wallClock: Clock = {
  now: () => performance.timeOrigin + systemClock.now(),
  after: (ms, callback) => systemClock.after(ms, callback),
};
