import { type Clock, Lane } from 'spillway';

/** One for each kind of request; all share the permits of the process. */
export interface RankerLanes {
  readonly process: Lane;
  readonly rank: Lane;
  /** Of judgements, which must get in whatever else goes on. */
  readonly corrections: Lane;
  /** Of many articles in one request. */
  readonly batches: Lane;
  /** Of what runs to its end in the request: fetching, importing, evaluating. */
  readonly long: Lane;
  /** Of pictures from elsewhere, whose servers may be slow. */
  readonly images: Lane;
  /** Of everything else. */
  readonly read: Lane;
}

const readMs = 20_000;
const imageMs = 40_000;
const longMs = 600_000;

/** Nobody who only asks can take the permits of who judges. */
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
