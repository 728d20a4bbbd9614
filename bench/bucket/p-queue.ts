import PQueue from 'p-queue';
import type { Take } from '../bucket.ts';

/** Starts the calls of a whole second at the start of each second. */
export function openWindow(ratePerSecond: number): Take {
  const queue = new PQueue({ interval: 1_000, intervalCap: ratePerSecond });
  return () => queue.add(start);
}

/** One at a time, evenly spaced. */
export function openSpaced(ratePerSecond: number): Take {
  const queue = new PQueue({ interval: 1_000 / ratePerSecond, intervalCap: 1 });
  return () => queue.add(start);
}

async function start(): Promise<void> {}
