import { checkInteger } from '../base/check.ts';
import { type Random, seededRandom } from '../base/random.ts';

/**
 * Runs a scenario once for each of many seeds. A failure names its seed in the message; set
 * `SPILLWAY_SEED` to that number to run only that seed again.
 */
export async function explore(
  seeds: number,
  scenario: (random: Random, seed: number) => Promise<void>,
): Promise<void> {
  checkInteger('seeds', seeds, 1);
  const only = process.env.SPILLWAY_SEED;
  const first = only === undefined ? 1 : Number(only);
  const last = only === undefined ? seeds : first;
  for (let seed = first; seed <= last; seed += 1) {
    try {
      await scenario(seededRandom(seed), seed);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`seed ${seed}: ${reason} (replay with SPILLWAY_SEED=${seed})`, { cause });
    }
  }
}
