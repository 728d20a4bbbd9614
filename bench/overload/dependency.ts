import { dependencyMs, dependencyPlaces } from './settings.ts';

/** From so many on it refuses to work, after a while: a database out of connections. */
const insideMax = 10 * dependencyPlaces;
/** How much faster than its load its latency grows: above 1, more load means less throughput. */
const thrashing = 1.5;

/** A thing that others call: quick while it has places, ever slower beyond, failing at last. */
export class Dependency {
  #inside = 0;

  async call(): Promise<void> {
    this.#inside += 1;
    try {
      const isTooMuch = this.#inside > insideMax;
      const load = Math.max(1, this.#inside / dependencyPlaces);
      const ms = isTooMuch ? dependencyMs : dependencyMs * load ** thrashing;
      await new Promise((resolve) => setTimeout(resolve, ms));
      if (isTooMuch) throw new Error('the dependency is overloaded');
    } finally {
      this.#inside -= 1;
    }
  }
}
