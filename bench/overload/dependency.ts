import { dependencyMs, dependencyPlaces } from './settings.ts';

/** From so many on it refuses to work, after a while: a database out of connections. */
const insideMax = 10 * dependencyPlaces;
/** From so many times its places on, those inside are in each other's way: less gets done. */
const thrashing = 3;

/** A thing that others call: quick while it has places, slower beyond, failing at last. */
export class Dependency {
  #inside = 0;

  async call(): Promise<void> {
    this.#inside += 1;
    try {
      const isTooMuch = this.#inside > insideMax;
      const load = Math.max(1, this.#inside / dependencyPlaces);
      const slowness = load * Math.max(1, load / thrashing);
      const ms = isTooMuch ? dependencyMs : dependencyMs * slowness;
      await new Promise((resolve) => setTimeout(resolve, ms));
      if (isTooMuch) throw new Error('the dependency is overloaded');
    } finally {
      this.#inside -= 1;
    }
  }
}
