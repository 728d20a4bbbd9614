import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { check, checkInteger, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { type Random, systemRandom } from '../base/random.ts';
import { Gate } from '../lane/gate.ts';
import { pause } from '../wait/pause.ts';
import { FileLockHandle } from './file-lock-handle.ts';

export interface FileLockOptions {
  /** The lock's own file, in a folder that exists on a local disk; it is made, and stays empty. */
  readonly path: string;
  /** How many callers may wait; one more is refused. An integer from 0; 10,000 by default. */
  readonly queueMax?: number | undefined;
  /** How long a caller waits at most, in milliseconds; 10,000 by default. */
  readonly waitMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface FileLockStats {
  /** Whether this process holds it. */
  readonly held: boolean;
  /** How many callers of this lock wait for it. */
  readonly waiting: number;
}

/** The longest pause between two looks at a lock that another process holds. */
const pollMsMax = 10;

/**
 * What all locks on one path share within a process. Who waits in other processes stands at the
 * turnstile `next` while it looks at `owner`: a process that takes the lock again and again has to
 * queue behind it, so nobody starves.
 */
class SharedLock {
  readonly gate: Gate = new Gate({ limit: 1, queueMax: Number.MAX_SAFE_INTEGER });
  readonly owner: FileLockHandle;
  readonly next: FileLockHandle;
  users = 0;

  constructor(path: string) {
    this.owner = new FileLockHandle(path);
    this.next = new FileLockHandle(`${path}-next`);
  }
}

const sharedLocks = new Map<string, SharedLock>();

/**
 * A lock between processes, and between all who use its path in this one: first come, first served
 * within a process, fair between them. The kernel frees it when its holder dies, and only then: it
 * is never stolen by age. `using _held = await lock.acquire(signal);`
 */
export class FileLock implements Disposable {
  readonly #path: string;
  readonly #queueMax: number;
  readonly #waitMsMax: number;
  readonly #clock: Clock;
  readonly #random: Random;
  #shared: SharedLock | undefined;
  #waiting = 0;
  #closed = false;

  constructor(options: FileLockOptions) {
    const { path, queueMax = 10_000, waitMsMax = 10_000 } = options;
    check(typeof path === 'string' && path !== '', 'path', 'the path of a file', path);
    checkInteger('queueMax', queueMax, 0);
    checkNumber('waitMsMax', waitMsMax, 0);
    this.#path = resolve(path);
    this.#queueMax = queueMax;
    this.#waitMsMax = waitMsMax;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
  }

  get stats(): FileLockStats {
    return { held: (this.#shared?.gate.stats.inside ?? 0) > 0, waiting: this.#waiting };
  }

  /** Waits for the lock; rejects with `LOCK_FULL`, `DEADLINE`, or the signal's reason. */
  async acquire(signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    check(!this.#closed, 'lock', 'used before it is disposed', this.#path);
    const shared = this.#share();
    shared.users += 1;
    try {
      return this.#tryAcquire(shared) ?? (await this.#wait(shared, signal));
    } catch (error) {
      this.#leave(shared);
      throw error;
    }
  }

  /** Lets go of the file as soon as nobody in this process holds or awaits the lock. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#shared !== undefined) this.#leave(this.#shared);
  }

  #share(): SharedLock {
    if (this.#shared !== undefined) return this.#shared;
    let path = this.#path;
    try {
      path = join(realpathSync(dirname(path)), basename(path));
    } catch {
      // Opening it fails as well, and says why.
    }
    const shared = sharedLocks.get(path) ?? new SharedLock(path);
    sharedLocks.set(path, shared);
    shared.users += 1;
    this.#shared = shared;
    return shared;
  }

  #leave(shared: SharedLock): void {
    shared.users -= 1;
    if (shared.users > 0) return;
    for (const [path, one] of sharedLocks) if (one === shared) sharedLocks.delete(path);
    shared.owner[Symbol.dispose]();
    shared.next[Symbol.dispose]();
  }

  #tryAcquire(shared: SharedLock): Disposable | undefined {
    const place = shared.gate.tryEnter();
    if (place === undefined) return undefined;
    try {
      if (shared.next.tryLock()) {
        const owned = shared.owner.tryLock();
        shared.next.unlock();
        if (owned) return this.#held(shared, place);
      }
    } catch (error) {
      place[Symbol.dispose]();
      throw error;
    }
    place[Symbol.dispose]();
    return undefined;
  }

  async #wait(shared: SharedLock, signal: AbortSignal | undefined): Promise<Disposable> {
    if (this.#waiting >= this.#queueMax) {
      throw new SpillwayError('LOCK_FULL', `${this.#waiting} wait for ${this.#path} already`);
    }
    this.#waiting += 1;
    using limit = deadline(this.#clock, this.#waitMsMax, signal);
    try {
      const place = await shared.gate.enter(limit);
      try {
        await this.#poll(shared.next, limit.signal);
        try {
          await this.#poll(shared.owner, limit.signal);
        } finally {
          shared.next.unlock();
        }
      } catch (error) {
        place[Symbol.dispose]();
        throw error;
      }
      return this.#held(shared, place);
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Nothing tells when another process lets go, so it looks, less often as time passes. */
  async #poll(handle: FileLockHandle, signal: AbortSignal): Promise<void> {
    for (let waitMs = 1; ; waitMs = Math.min(2 * waitMs, pollMsMax)) {
      signal.throwIfAborted();
      if (handle.tryLock()) return;
      await pause(this.#clock, waitMs * (0.5 + this.#random() / 2), signal);
    }
  }

  #held(shared: SharedLock, place: Disposable): Disposable {
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        shared.owner.unlock();
        place[Symbol.dispose]();
        this.#leave(shared);
      },
    };
  }
}
