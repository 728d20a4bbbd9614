import { every, type Part } from 'spillway';
import type { Context } from '../context.ts';
import { audit, endDeadTasks, measureSpeed, shareThroughput } from '../world/manage.ts';

const minuteMs = 60_000;

/** Periodic upkeep of the world; only the primary instance does it. */
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
    job('endDeadTasks', async () => {
      // Each thousand is stored before the next is ended, so that other decisions get a turn.
      while (await primary.decide(endDeadTasks));
    }),
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
