import type { PoolMember } from './pool-member.ts';
import type { PoolTask } from './pool-task.ts';

type Members = readonly (PoolMember | undefined)[];

/** Of those with room for the task, the one with the fewest: so batches stay whole and even. */
export function leastBusy(members: Members, task: PoolTask): PoolMember | undefined {
  let best: PoolMember | undefined;
  for (const member of members) {
    if (best !== undefined && (member?.dispatched.size ?? Infinity) >= best.dispatched.size)
      continue;
    if (member?.hasRoom(task)) best = member;
  }
  return best;
}

/** Idle workers take over what waits in busy ones: nothing waits behind a long task for nothing. */
export function share(members: Members): void {
  for (const idle of members) {
    if (idle?.state === 'ready' && idle.isIdle) takeOver(idle, members);
  }
}

function takeOver(idle: PoolMember, members: Members): void {
  // One that has nothing to do helps also those that could begin more, but may be stuck in one.
  const spare = (member: PoolMember | undefined): number =>
    (idle.dispatched.size === 0 ? member?.dispatched.size : member?.prefetched) ?? 0;
  const least = idle.dispatched.size === 0 ? 1 : 0;
  const busy = members.filter((member) => spare(member) > least) as PoolMember[];
  for (const member of busy.sort((a, b) => spare(b) - spare(a))) {
    const count = Math.ceil((spare(member) - least) / 2);
    const taken = member.revoke(count, (task) => task.isMovable);
    for (const task of taken.reverse()) idle.assign(task);
    if (taken.length > 0) return;
  }
}
