import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Seeds that each simulation plays; more with `SPILLWAY_SEEDS`, one with `SPILLWAY_SEED`. */
export const seeds: number = Number(process.env.SPILLWAY_SEEDS ?? 2_000);

/**
 * Plays a simulation in a process of its own, where promises are several times as fast as under the
 * test runner, and gives back what it counted. Rejects with its words, the failing seed among them.
 */
export async function play(name: string): Promise<Readonly<Record<string, number>>> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const path = join(import.meta.dirname, `${name}.ts`);
  const { stdout } = await promisify(execFile)(process.execPath, [path, String(seeds)], { env });
  return JSON.parse(stdout) as Record<string, number>;
}
