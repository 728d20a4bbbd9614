import type { StoreWatch } from 'spillway';
import type { RedisLink, RedisSubscription } from './client.ts';

/** Tells of changed names. One subscription serves all watches; it is opened with the first. */
export class Watcher {
  readonly #link: RedisLink;
  readonly #channel: string;
  /** The callbacks by name; no empty sets. */
  readonly #callbacks = new Map<string, Set<() => void>>();
  #subscription: RedisSubscription | undefined;

  constructor(link: RedisLink, channel: string) {
    this.#link = link;
    this.#channel = channel;
  }

  watch(names: readonly string[], changed: () => void): StoreWatch {
    // One function for each call: the same one may be given twice.
    const own = () => changed();
    for (const name of names) {
      this.#callbacks.set(name, (this.#callbacks.get(name) ?? new Set()).add(own));
    }
    this.#subscription ??= this.#link.subscribe(this.#channel, this.#hear, this.#tellAll);
    const subscription = this.#subscription;
    return {
      get isLive() {
        return subscription.isLive;
      },
      [Symbol.dispose]: () => {
        for (const name of names) {
          const callbacks = this.#callbacks.get(name);
          callbacks?.delete(own);
          if (callbacks?.size === 0) this.#callbacks.delete(name);
        }
      },
    };
  }

  close(): void {
    this.#callbacks.clear();
    this.#subscription?.[Symbol.dispose]();
  }

  readonly #hear = (message: string): void => {
    for (const name of message.split('\0')) this.#tell(name);
  };

  /** After a reconnect: what changed meanwhile went unheard. */
  readonly #tellAll = (): void => {
    for (const name of this.#callbacks.keys()) this.#tell(name);
  };

  #tell(name: string): void {
    for (const changed of this.#callbacks.get(name) ?? []) changed();
  }
}
