import { type Clock, Lane } from 'spillway';
import type { Endpoint } from '../protocol/read-request.ts';

/** One lane for each kind of request; all share the permits of the process. */
export type FleetLanes = ReturnType<typeof fleetLanes>;

/** Workers wait 30 s for an answer. */
const deadlineMs = 20_000;
const uploadMs = 300_000;

/**
 * Makes the lanes. Requests that keep tasks alive and bring results in have permits that nobody
 * else can take. After a start, beats of 10,000 workers wait inside until their users' passwords
 * are checked: the limit is so high that beats of users known by then need not wait behind them.
 */
export function fleetLanes(clock: Clock) {
  const process = new Lane({
    name: 'process',
    limit: { fixed: 8_192 },
    queueMax: 0,
    deadlineMs,
    clock,
  });
  const lane = (
    name: string,
    limit: number,
    more: { readonly guaranteed?: number; readonly deadlineMs?: number; queueMax?: number } = {},
  ) => {
    const sizes = { limit: { fixed: limit }, queueMax: 4 * limit };
    return new Lane({ name, parent: process, ...sizes, deadlineMs, ...more });
  };
  return {
    process,
    workers: {
      request_version: lane('request_version', 512),
      // Decisions of one turn share a commit: many at once cost little more than one.
      request_task: lane('request_task', 1_024),
      update_task: lane('update_task', 1_024, { guaranteed: 256 }),
      beat: lane('beat', 4_096, { guaranteed: 256 }),
      request_spsa: lane('request_spsa', 256, { guaranteed: 32 }),
      failed_task: lane('failed_task', 128),
      stop_run: lane('stop_run', 32),
      // A slow upload costs no memory, so there may be many.
      upload_pgn: lane('upload_pgn', 64, { guaranteed: 1, deadlineMs: uploadMs }),
      worker_log: lane('worker_log', 64),
    } satisfies Record<Endpoint | 'request_version', Lane>,
    /** Of the public API about runs, of its queries about the log, and of files. */
    api: lane('api', 32, { queueMax: 256 }),
    logSearch: lane('log_search', 4),
    downloads: lane('downloads', 256),
    /** Of pages for people, and of nets that people upload. */
    pages: lane('pages', 32, { queueMax: 256 }),
    uploads: lane('uploads', 4, { deadlineMs: uploadMs }),
    /** Of everything else. */
    others: lane('others', 128),
  };
}
