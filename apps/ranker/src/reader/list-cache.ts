import type { Observable } from 'spillway-http';
import type { UserChanges } from '../ranking/ranking-parts.ts';
import { type ListsOptions, ReaderLists, type ReaderListsOptions } from './reader-lists.ts';

export interface ListCacheOptions extends ListsOptions {
  readonly changes: UserChanges;
}

/** The number of users whose lists are kept in memory. */
const usersMax = 32;

export interface ListCacheStats {
  readonly users: number;
  /** Times that lists were made anew. */
  readonly changes: number;
  readonly failures: number;
}

/** The lists of the users who read now; tells subscribers when a list has changed. */
export class ListCache implements Observable, Disposable {
  readonly #shared: Omit<ReaderListsOptions, 'userId'>;
  /** By user; the one that was asked for last is the last. */
  readonly #byUser = new Map<string, ReaderLists>();
  readonly #listeners = new Set<() => void>();
  readonly #subscription: Disposable;
  #version = 0;
  #failures = 0;

  constructor(options: ListCacheOptions) {
    const { changes, onFailure } = options;
    this.#shared = {
      ...options,
      onChange: () => {
        this.#version += 1;
        for (const listener of this.#listeners) listener();
      },
      onFailure: (error) => {
        this.#failures += 1;
        onFailure(error);
      },
    };
    this.#subscription = changes.listen((userId, change) => {
      const lists = this.#byUser.get(userId);
      if (lists?.isLeft) this.#drop(userId, lists);
      else lists?.refreshSoon(change);
    });
  }

  get version(): number {
    return this.#version;
  }

  get stats(): ListCacheStats {
    return { users: this.#byUser.size, changes: this.#version, failures: this.#failures };
  }

  /** Calls back when a list has changed, until it is disposed. */
  subscribe(listener: () => void): Disposable {
    const own = () => listener();
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  /** The lists of a user if they are in memory. */
  find(userId: string): ReaderLists | undefined {
    return this.#byUser.get(userId);
  }

  /** The lists of a user; the least recently used lists make room for them. */
  open(userId: string): ReaderLists {
    const lists = this.#byUser.get(userId) ?? new ReaderLists({ ...this.#shared, userId });
    this.#byUser.delete(userId);
    this.#byUser.set(userId, lists);
    for (const [oldest, old] of this.#byUser) {
      if (this.#byUser.size <= usersMax) break;
      this.#drop(oldest, old);
    }
    return lists;
  }

  #drop(userId: string, lists: ReaderLists): void {
    this.#byUser.delete(userId);
    lists[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    for (const lists of this.#byUser.values()) lists[Symbol.dispose]();
    this.#byUser.clear();
  }
}
