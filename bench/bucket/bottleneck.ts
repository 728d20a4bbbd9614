import Bottleneck from 'bottleneck';
import type { Take } from '../bucket.ts';

export function open(ratePerSecond: number): Take {
  const limiter = new Bottleneck({ minTime: 1_000 / ratePerSecond });
  return () => limiter.schedule(start);
}

async function start(): Promise<void> {}
