import type { PoolMember } from './worker.ts';

export interface RecycleOptions {
  /** Replaces a worker that has been ready for so many milliseconds. @default never */
  readonly ageMsMax?: number | undefined;
  /** Replaces a worker that has done so many tasks. @default never */
  readonly tasksMax?: number | undefined;
  /** Replaces a worker whose heap and buffers take more than so many megabytes. @default never */
  readonly heapMbMax?: number | undefined;
  /** Milliseconds from one replacement to the next, at least. @default 1000 */
  readonly intervalMs?: number | undefined;
}

/** Whether it is time to replace the worker. */
export function isWorn(member: PoolMember, options: RecycleOptions, now: number): boolean {
  const { ageMsMax = Infinity, tasksMax = Infinity, heapMbMax = Infinity } = options;
  const isOld = now - member.readyAt >= ageMsMax || member.tasks >= tasksMax;
  return isOld || member.slots.heapBytes > heapMbMax * 2 ** 20;
}
