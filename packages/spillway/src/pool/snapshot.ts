import { check, checkInteger } from '../base/check.ts';

export interface SnapshotOptions<T> {
  /**
   * Called exactly once per version, when it has been replaced and its last view is disposed. An
   * error that it throws reaches the caller of `publish` or `dispose`; the version is gone anyway.
   */
  readonly release?: ((value: T, version: number) => void) | undefined;
}

/** One version, held from here until it is disposed; reading it later is a bug. */
export interface View<T> extends Disposable {
  readonly value: T;
  readonly version: number;
}

export interface SnapshotStats {
  readonly kind: 'snapshot';
  /** The version that {@link Snapshot.acquire} gives now. */
  readonly version: number;
  /** Every version not yet released, oldest first; the last one is the current. */
  readonly held: readonly { readonly version: number; readonly views: number }[];
}

interface Version<T> {
  readonly value: T;
  readonly version: number;
  views: number;
}

/**
 * Immutable state that is replaced whole: a task holds one version from start to end, whatever is
 * published meanwhile. To let go of the last version too, publish an empty one.
 */
export class Snapshot<T> {
  readonly #held = new Map<number, Version<T>>();
  readonly #release: ((value: T, version: number) => void) | undefined;
  #current: Version<T>;

  /** The first version is number 0. */
  constructor(initial: T, options: SnapshotOptions<T> = {}) {
    this.#release = options.release;
    this.#current = this.#hold(initial, 0);
  }

  /** The newest value, to be used before the next `await`; a view holds it for longer. */
  get current(): T {
    return this.#current.value;
  }

  get stats(): SnapshotStats {
    const held = this.#held.values().map(({ version, views }) => ({ version, views }));
    return { kind: 'snapshot', version: this.#current.version, held: held.toArray() };
  }

  /** Replaces the value and gives its version: the next one, or a higher one chosen elsewhere. */
  publish(value: T, version: number = this.#current.version + 1): number {
    checkInteger('version', version, this.#current.version + 1);
    const old = this.#current;
    this.#current = this.#hold(value, version);
    this.#letGo(old);
    return version;
  }

  /** Holds the newest version: `using view = snapshot.acquire();` */
  acquire(): View<T> {
    let held: Version<T> | undefined = this.#current;
    held.views += 1;
    const read = (): Version<T> => {
      check(held !== undefined, 'view', 'read before it is disposed', 'a disposed one');
      return held;
    };
    const dispose = () => {
      const old = held;
      held = undefined;
      if (old === undefined) return;
      old.views -= 1;
      this.#letGo(old);
    };
    return {
      get value() {
        return read().value;
      },
      get version() {
        return read().version;
      },
      [Symbol.dispose]: dispose,
    };
  }

  #hold(value: T, version: number): Version<T> {
    const held = { value, version, views: 0 };
    this.#held.set(version, held);
    return held;
  }

  #letGo(old: Version<T>): void {
    if (old === this.#current || old.views > 0) return;
    this.#held.delete(old.version);
    this.#release?.(old.value, old.version);
  }
}
