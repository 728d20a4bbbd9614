import { setTimeout } from 'node:timers/promises';
import { seededRandom } from 'spillway';
import { Client, type Ended } from './client.ts';
import * as settings from './settings.ts';

const beatEveryMs = 20;
const connectionsMax = 2_000;

/** Result of a period of load. */
export interface Outcome {
  /** Answers in time, per second. */
  readonly goodput: number;
  /** Good answers to the requests of each second. */
  readonly goodBySecond: readonly number[];
  /** Shares of the requests that got a good answer, and that were refused. */
  readonly served: number;
  readonly refused: number;
  /** Times of admitted requests; one whose client gave up counts with the client's time limit. */
  readonly admittedMs: number;
  /** Times until a client knew that it gets no answer: refused, failed or given up. */
  readonly refusedMs: number;
  readonly beatMs: number;
  /** Start and end of the period in which requests were counted. */
  readonly from: number;
  readonly to: number;
}

/**
 * Sends at a constant rate, whatever comes back, since independent clients do not wait for each
 * other. Arrivals are random, but the same for each server. All times are 99th percentiles.
 */
export async function load(options: {
  readonly port: number;
  readonly path: string;
  readonly ratePerSecond: number;
  /** Warm-up that does not count. */
  readonly warmMs: number;
  readonly ms: number;
  /** Time after which a client gives up, in milliseconds. @default 500 */
  readonly patienceMs?: number | undefined;
  /** Address from which the clients come. @default any */
  readonly address?: string | undefined;
  /** True if a trivial route gets requests, too, all the time. @default false */
  readonly beats?: boolean | undefined;
  /** Seed of the arrivals. @default 1 */
  readonly seed?: number | undefined;
}): Promise<Outcome> {
  const { port, path, ratePerSecond, warmMs, ms, patienceMs = settings.patienceMs } = options;
  const client = new Client(port, connectionsMax, patienceMs, options.address);
  const beats = new Client(port, connectionsMax, patienceMs);
  const random = seededRandom(options.seed ?? 1);
  const ended: Promise<Ended>[] = [];
  const seconds: number[] = [];
  const beaten: Promise<Ended>[] = [];
  const from = Date.now() + warmMs;
  const startedAt = performance.now();
  let nextAt = 0;
  let beatAt = options.beats ? 0 : Infinity;
  for (let now = 0; now < warmMs + ms; now = performance.now() - startedAt) {
    for (; nextAt <= now; nextAt += (-Math.log(1 - random()) * 1_000) / ratePerSecond) {
      const end = client.get(path);
      if (nextAt < warmMs) continue;
      ended.push(end);
      seconds.push(Math.floor((nextAt - warmMs) / 1_000));
    }
    for (; beatAt <= now; beatAt += beatEveryMs) {
      const beat = beats.get('/beat');
      if (beatAt >= warmMs) beaten.push(beat);
    }
    await setTimeout(Math.min(nextAt, beatAt, warmMs + ms) - now);
  }
  const results = await Promise.all(ended);
  const beatResults = await Promise.all(beaten);
  client.close();
  beats.close();
  const isGood = ({ status }: Ended) => status === 200;
  const admitted = results.filter(({ status }) => status === 200 || status === 0);
  const goodBySecond = new Array<number>(Math.ceil(ms / 1_000)).fill(0);
  for (const [at, result] of results.entries()) {
    const second = seconds[at] as number;
    if (isGood(result)) goodBySecond[second] = (goodBySecond[second] ?? 0) + 1;
  }
  const share = (of: (result: Ended) => boolean) => {
    return results.filter(of).length / Math.max(1, results.length);
  };
  return {
    goodBySecond,
    served: share(isGood),
    // A request cut off at its deadline was admitted, so it does not count as refused.
    refused: share(({ status }) => status === 503 || status === 429),
    goodput: (results.filter(isGood).length * 1_000) / ms,
    admittedMs: p99(admitted.length > 0 ? admitted : [{ ms: patienceMs }]),
    refusedMs: p99(results.filter((result) => !isGood(result))),
    beatMs: p99(beatResults.map((beat) => (isGood(beat) ? beat : { ...beat, ms: patienceMs }))),
    from,
    to: from + ms,
  };
}

function p99(results: readonly { readonly ms: number }[]): number {
  const sorted = results.map(({ ms }) => ms).sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
}
