import type { SpillwayError } from 'spillway';
import { fleetError } from '../errors.ts';
import { taskAction } from './actions.ts';
import { Changes, type Decision } from './changes.ts';
import { stopRun } from './stop-run.ts';
import type { Task } from './task.ts';
import type { World } from './world.ts';

/** CPU hours that a user's workers must have given before their word can stop a run. */
const trustedHours = 1000;

/** What a worker is told, or the error to answer with after the changes are stored. */
export interface StopReply {
  readonly refused?: SpillwayError;
}

/** A worker says that the run itself is broken. */
export function stopByWorker(
  world: World,
  task: Task,
  { message, cpuHours = -1 }: { readonly message: string; readonly cpuHours?: number | undefined },
): Decision<StopReply> {
  const changes = new Changes();
  const now = world.clock.now();
  const { run } = task;
  if (cpuHours < trustedHours) {
    const text = `${message} (not authorized)`;
    changes.actions.push(taskAction('stop_run', task, now, text));
    world.end(task, changes);
    return { reply: { refused: fleetError('STOP_REFUSED', tooFew(cpuHours)) }, changes };
  }
  if (run.record.finished) {
    const refused = fleetError('STOP_REFUSED', `Run ${run.id} is already finished`);
    return { reply: { refused }, changes };
  }
  changes.actions.push(taskAction('stop_run', task, now, message));
  run.record.failed = true;
  run.record.failures += 1;
  stopRun(world, run, changes);
  return { reply: {}, changes };
}

function tooFew(cpuHours: number): string {
  return `User has too few games to stop a run: ${cpuHours} of ${trustedHours} CPU hours`;
}
