import type { Served, Usage } from './served.ts';

/** Times of the same requests with nothing beside them, and with something. */
export interface Compared {
  /** The p95 as a multiple of the idle one. */
  readonly times: number;
  /** Amount of the other work that was done while they were answered. */
  readonly meanwhile: number;
}

/** Periods alternate, so that a noisy second of the machine hits both sides. */
const turns = 6;
/** Warm-up requests that do not count: code that is not compiled yet is slow on both sides. */
const warmUps = 20;

/**
 * Requests of one client, alone and beside trainings that follow each other; `meanwhile` is their
 * share of a core, in percent.
 */
export async function besideTraining(served: Served, count: number): Promise<Compared> {
  const [idle, training]: [number[], number[]] = [[], []];
  let [cpuMs, tookMs] = [0, 0];
  await served.rank(1, warmUps);
  for (let turn = 0; turn < turns; turn += 1) {
    idle.push(...(await served.rank(1, count)).taken);
    await served.ask({ do: 'train' });
    const before = await until(served, (usage) => usage.training.isRunning);
    const startedAt = performance.now();
    training.push(...(await served.rank(1, count)).taken);
    const after = await served.usage();
    cpuMs += after.training.cpuMs - before.training.cpuMs;
    tookMs += performance.now() - startedAt;
    await served.ask({ do: 'cancel' });
  }
  return { times: p95(training) / p95(idle), meanwhile: (100 * cpuMs) / tookMs };
}

/** The same requests while one of two servers keeps replacing its workers. */
export async function besideReplacing(
  [calm, restless]: readonly [Served, Served],
  count: number,
): Promise<Compared> {
  const [idle, replacing]: [number[], number[]] = [[], []];
  let recycled = 0;
  for (const served of [calm, restless]) await served.rank(1, warmUps);
  for (let turn = 0; turn < turns; turn += 1) {
    idle.push(...(await calm.rank(1, count)).taken);
    const before = await restless.usage();
    replacing.push(...(await restless.rank(1, count)).taken);
    recycled += (await restless.usage()).recycled - before.recycled;
  }
  return { times: p95(replacing) / p95(idle), meanwhile: recycled };
}

async function until(served: Served, isSo: (usage: Usage) => boolean): Promise<Usage> {
  for (;;) {
    const usage = await served.usage();
    if (isSo(usage)) return usage;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function p95(taken: readonly number[]): number {
  const sorted = taken.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN;
}
