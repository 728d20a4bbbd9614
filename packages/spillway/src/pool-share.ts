import type { PoolMember } from './pool-member.ts';
import type { PoolTask } from './pool-task.ts';

/** Of those with room for the task, the one with the fewest: so batches stay whole and even. */
export function leastBusy(
  members: readonly (PoolMember | undefined)[],
  task: PoolTask,
): PoolMember | undefined {
  let best: PoolMember | undefined;
  for (const member of members) {
    if (best !== undefined && (member?.dispatched.size ?? Infinity) >= best.dispatched.size)
      continue;
    if (member?.hasRoom(task)) best = member;
  }
  return best;
}

/** Idle workers take over what waits in busy ones: nothing waits behind a long task for nothing. */
export function share(members: readonly (PoolMember | undefined)[]): void {
  const canMove = (task: PoolTask) => task.isMovable;
  for (const idle of members) {
    if (idle?.state !== 'ready' || !idle.isIdle) continue;
    let fullest: PoolMember | undefined;
    for (const member of members) {
      if ((member?.prefetched ?? 0) > (fullest?.prefetched ?? 0)) fullest = member;
    }
    if (fullest === undefined) return;
    const taken = fullest.revoke(Math.ceil(fullest.prefetched / 2), canMove);
    for (const task of taken.reverse()) idle.assign(task);
  }
}
