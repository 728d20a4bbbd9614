import type { Random } from 'spillway';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** No feed is fetched more often, nor less often, in milliseconds. */
export const feedIntervalMsMin: number = 15 * minuteMs;
export const feedIntervalMsMax: number = 12 * hourMs;
/** What a feed gets of which nothing is known yet. */
const intervalMsUnknown = hourMs;
/** The wait after the first failure, doubled for each further one up to a day. */
const failureMsMin = 10 * minuteMs;
const failureMsMax = 24 * hourMs;
/** By how much each wait is longer or shorter, so that feeds do not come all at once. */
const jitter = 0.1;

export interface FeedHistory {
  /** UNIX milliseconds. */
  readonly nowMs: number;
  /** When its newest articles were published, in any order. */
  readonly publishedAt: readonly number[];
  /** How many fetches have failed since one did not, the last one included. */
  readonly failures: number;
  readonly random: Random;
}

/** When a feed is to be fetched again: twice between two posts; later each time that it fails. */
export function feedTurn({ nowMs, publishedAt, failures, random }: FeedHistory): number {
  const waitMs =
    failures > 0
      ? Math.min(failureMsMax, failureMsMin * 2 ** (failures - 1))
      : intervalMs(publishedAt, nowMs);
  return nowMs + waitMs * (1 - jitter + 2 * jitter * random());
}

function intervalMs(publishedAt: readonly number[], nowMs: number): number {
  const times = publishedAt.filter((time) => time <= nowMs).sort((one, other) => other - one);
  const [newest] = times;
  if (newest === undefined) return intervalMsUnknown;
  const gaps = times.slice(1).map((time, index) => (times[index] as number) - time);
  // What is silent for longer than it used to be has become slower.
  const silenceMs = (nowMs - newest) / 2;
  const usualMs = gaps.sort((one, other) => one - other)[gaps.length >> 1] ?? silenceMs;
  return Math.min(feedIntervalMsMax, Math.max(feedIntervalMsMin, usualMs / 2, silenceMs / 2));
}
