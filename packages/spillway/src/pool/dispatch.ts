import type { PoolQueue } from './queue.ts';
import type { PoolTask } from './task.ts';
import type { PoolMember } from './worker.ts';
import type { PoolCrew } from './workers.ts';

type Members = readonly (PoolMember | undefined)[];

/** Gives what waits to workers that have room, and what waits in busy ones to idle ones. */
export function assign(queue: PoolQueue, crew: PoolCrew): void {
  const { serving } = crew;
  for (let task = queue.next(); task; task = queue.next()) {
    const member = leastBusy(serving, task);
    if (member === undefined) break;
    queue.take(task);
    member.assign(task);
  }
  for (const [seat, member] of serving.entries()) {
    const bound = queue.boundTo(seat);
    for (let task = bound?.first; task; task = bound?.first) {
      if (!member?.hasRoom(task) || crew.isHeld(seat)) break;
      queue.remove(task);
      member.assign(task);
    }
  }
  if (queue.next() === undefined) share(serving);
}

/** Of those with room for the task, the one with the fewest: so batches stay whole and even. */
function leastBusy(members: Members, task: PoolTask): PoolMember | undefined {
  let best: PoolMember | undefined;
  for (const member of members) {
    if (best !== undefined && (member?.dispatched.size ?? Infinity) >= best.dispatched.size)
      continue;
    if (member?.hasRoom(task)) best = member;
  }
  return best;
}

/** Idle workers take over what waits in busy ones: nothing waits behind a long task for nothing. */
function share(members: Members): void {
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
