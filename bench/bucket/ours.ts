import { Bucket } from 'spillway';
import { burstOf, type Take } from '../bucket.ts';

export function open(ratePerSecond: number): Take {
  const bucket = new Bucket({ ratePerSecond, burst: burstOf(ratePerSecond), queueMax: 100 });
  return () => bucket.take(1);
}
