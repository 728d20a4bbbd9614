import { dependencyMs, dependencyPlaces } from './settings.ts';

/** From this many calls on it fails them after a while, as a database without connections does. */
const insideMax = 10 * dependencyPlaces;
/** Beyond this multiple of its places, calls in flight slow each other down. */
const thrashing = 3;

/** A dependency: quick while it has places, slower beyond, and failing in the end. */
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
