import type { StoreWatch } from 'spillway';
import { Watchers } from 'spillway/internal';
import type { RedisLink, RedisSubscription } from './client.ts';

/** Calls watchers of changed names. All share one subscription, opened with the first watch. */
export class Watcher {
  readonly #link: RedisLink;
  readonly #channel: string;
  readonly #watchers = new Watchers();
  #subscription: RedisSubscription | undefined;

  constructor(link: RedisLink, channel: string) {
    this.#link = link;
    this.#channel = channel;
  }

  watch(names: readonly string[], changed: () => void): StoreWatch {
    const remove = this.#watchers.add(names, changed);
    this.#subscription ??= this.#link.subscribe(this.#channel, this.#hear, this.#tellAll);
    const subscription = this.#subscription;
    return {
      get isLive() {
        return subscription.isLive;
      },
      [Symbol.dispose]: remove,
    };
  }

  close(): void {
    this.#watchers.clear();
    this.#subscription?.[Symbol.dispose]();
  }

  readonly #hear = (message: string): void => {
    for (const name of message.split('\0')) this.#watchers.tell(name);
  };

  /** Called after a reconnect, since changes may have been missed. */
  readonly #tellAll = (): void => {
    for (const name of this.#watchers.names()) this.#watchers.tell(name);
  };
}
