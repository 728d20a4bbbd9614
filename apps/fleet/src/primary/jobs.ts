import { every, type Part } from 'spillway';
import type { Context } from '../context.ts';
import { audit, endDeadTasks, measureSpeed, shareThroughput } from '../world/manage.ts';
import type { Primary } from './primary.ts';

const minuteMs = 60_000;

/** The upkeep of the world, which the primary instance does by itself. */
export function jobs({
  primary,
  clock,
  onFailure,
}: Pick<Context, 'primary' | 'clock' | 'onFailure'>): Part {
  const job = (name: string, work: () => Promise<void> | void, periodMs = minuteMs) => {
    const run = async () => {
      if (primary.isPrimary) await work();
    };
    return every({ name, periodMs, run, onError: (error) => onFailure(name, error), clock });
  };
  const all = [
    job('forgetIdle', () => primary.world.forgetIdle()),
    job('endDeadTasks', () => endAllDeadTasks(primary)),
    job('shareThroughput', () => primary.change(shareThroughput)),
    job('measureSpeed', () => primary.change(measureSpeed)),
    job('audit', () => primary.change(audit), 3 * minuteMs),
  ];
  return {
    name: 'jobs',
    start: () => {
      for (const one of all) one.start();
    },
    close: async (options) => {
      await Promise.all(all.map((one) => one.close(options)));
    },
  };
}

/** Ends a thousand at a time, each thousand stored before the next, so that others get a turn. */
async function endAllDeadTasks(primary: Primary): Promise<void> {
  while (await primary.decide(endDeadTasks));
}
