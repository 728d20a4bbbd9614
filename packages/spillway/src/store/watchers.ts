import { callHook } from '../base/tell.ts';

/** The callbacks of a store's watches, by the names that they watch. */
export class Watchers {
  /** No set is empty. */
  readonly #callbacks = new Map<string, Set<() => void>>();

  /** Adds a callback for each of the names; gives what removes it from them. */
  add(names: readonly string[], changed: () => void): () => void {
    // One function for each call: the same one may be given twice.
    const own = () => changed();
    for (const name of names) {
      this.#callbacks.set(name, (this.#callbacks.get(name) ?? new Set()).add(own));
    }
    return () => {
      for (const name of names) {
        const callbacks = this.#callbacks.get(name);
        callbacks?.delete(own);
        if (callbacks?.size === 0) this.#callbacks.delete(name);
      }
    };
  }

  /** The names that somebody watches. */
  names(): readonly string[] {
    return [...this.#callbacks.keys()];
  }

  has(name: string): boolean {
    return this.#callbacks.has(name);
  }

  tell(name: string): void {
    const callbacks = this.#callbacks.get(name) ?? new Set();
    // A copy: one that watches anew when it is told would be told for ever.
    for (const changed of [...callbacks]) if (callbacks.has(changed)) callHook(changed);
  }

  clear(): void {
    this.#callbacks.clear();
  }
}
