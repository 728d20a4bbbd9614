import { type Clock, Lane } from 'spillway';

/** Lanes by kind of request; all share the permits of the process. */
export interface RankerLanes {
  readonly process: Lane;
  readonly rank: Lane;
  /** Lane of ratings, with guaranteed permits under any load. */
  readonly corrections: Lane;
  /** Lane of requests with many articles. */
  readonly batches: Lane;
  /** Lane of long work that a request waits for: fetching, importing, evaluating. */
  readonly long: Lane;
  /** Lane of pictures from other servers, which may be slow. */
  readonly images: Lane;
  /** Lane of everything else. */
  readonly read: Lane;
}

const readMs = 20_000;
const imageMs = 40_000;
const longMs = 600_000;

/** Makes the lanes; requests that only read cannot take the permits of ratings. */
export function rankerLanes(clock: Clock, rankMs: number): RankerLanes {
  const process = new Lane({
    name: 'process',
    limit: { fixed: 512 },
    queueMax: 0,
    deadlineMs: longMs,
    clock,
  });
  const lane = (name: string, limit: number, deadlineMs: number, guaranteed = 0) =>
    new Lane({
      name,
      parent: process,
      limit: { fixed: limit },
      queueMax: 4 * limit,
      deadlineMs,
      guaranteed,
    });
  return {
    process,
    rank: lane('rank', 128, rankMs),
    corrections: lane('corrections', 64, rankMs, 16),
    batches: lane('batches', 4, longMs),
    long: lane('long', 2, longMs),
    images: lane('images', 128, imageMs),
    read: lane('read', 64, readMs),
  };
}
