import { fleetError } from '../errors.ts';
import { type SpsaTrial, spsaTrial } from '../statistics/spsa.ts';
import { type Flip, flipsSignature, packFlips } from '../statistics/spsa-flips.ts';
import { Changes, type Decision } from './changes.ts';
import type { Task } from './task.ts';
import { type Alive, notActive } from './update-task.ts';
import type { World } from './world.ts';

/** Parameters to play the next batch with, in random directions that the task remembers. */
export function requestSpsa(
  world: World,
  task: Task,
): Decision<Alive | (SpsaTrial & { readonly sig: number; readonly task_alive: true })> {
  const changes = new Changes();
  const { spsa } = task.run.args;
  if (spsa === undefined) throw fleetError('REQUEST_INVALID', `Not a tuning: ${task.run.id}`);
  if (!task.active) return { reply: notActive(task), changes };
  const flips = spsa.params.map((): Flip => (world.random() < 0.5 ? 1 : -1));
  const packed = packFlips(flips);
  task.record.spsa_params = { iter: spsa.iter, packed_flips: [...packed] };
  changes.tasks.add(task);
  const reply = {
    ...spsaTrial(spsa, flips),
    sig: flipsSignature(packed),
    task_alive: true,
  } as const;
  return { reply, changes };
}
