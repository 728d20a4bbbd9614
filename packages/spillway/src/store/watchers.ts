import { callHook } from '../base/tell.ts';
import type { StoreNews } from './store.ts';

type Changed = (news?: StoreNews) => void;

/** The callbacks of a store's watches, by the names that they watch. */
export class Watchers {
  /** No set is empty. */
  readonly #callbacks = new Map<string, Set<Changed>>();

  /** Adds a callback for each of the names; gives what removes it from them. */
  add(names: readonly string[], changed: Changed): () => void {
    // One function for each call: the same one may be given twice.
    const own: Changed = (news) => changed(news);
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

  tell(name: string, news?: StoreNews): void {
    const callbacks = this.#callbacks.get(name) ?? new Set();
    // A copy: one that watches anew when it is told would be told for ever.
    for (const changed of [...callbacks]) if (callbacks.has(changed)) callHook(changed, news);
  }

  clear(): void {
    this.#callbacks.clear();
  }
}
