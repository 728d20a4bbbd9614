import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import {
  callback,
  clockRule,
  type Filled,
  integer,
  number,
  or,
  settle,
  word,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { RunOptions } from '../base/task.ts';
import { Gate } from '../lane/gate.ts';
import { pause } from '../wait/wait-queue.ts';
import { FileLockHandle } from './file-lock-handle.ts';

export interface FileLockOptions {
  /**
   * Path that names the lock, in a folder that exists on a local disk. Nothing is made there: the
   * lock's own two empty files are in a folder `.locks` beside it.
   */
  readonly path: string;
  /** Callers that may wait; one more is refused. An integer from 0. @default 10_000 */
  readonly queueMax?: number | undefined;
  /** The longest wait of a caller, in milliseconds, from 0. @default 10_000 */
  readonly deadlineMs?: number | undefined;
  /** Source of time. @default systemClock */
  readonly clock?: Clock | undefined;
  /** Source of chance. @default systemRandom */
  readonly random?: Random | undefined;
}

export interface FileLockStats {
  readonly kind: 'file-lock';
  /** True if this process held the lock when it last looked. */
  readonly held: boolean;
  /** Callers of this lock that wait for it. */
  readonly waiting: number;
}

/** A lock that is held until it is disposed. */
export interface HeldLock extends Disposable {
  /**
   * Aborts with `LOCK_LOST` when the lock is lost. The process checks that once a second, from the
   * first use of this property on.
   */
  readonly signal: AbortSignal;
  /** Throws `LOCK_LOST` if this process can see that the lock is lost. */
  check(): void;
}

/** The longest pause between two looks at a lock that another process holds. */
const pollMsMax = 10;
/** The pause between two looks at whether a lock is still held. */
const lossCheckMs = 1_000;

/**
 * The state that all locks on one path share within a process. Waiters of other processes hold
 * `next` while they look at `owner`: a process that takes the lock again and again has to queue
 * behind them, so no process starves.
 */
class SharedLock {
  readonly gate: Gate = new Gate({ limit: 1, queueMax: Number.MAX_SAFE_INTEGER });
  readonly owner: FileLockHandle;
  readonly next: FileLockHandle;
  held: Held | undefined = undefined;
  users = 0;

  constructor(path: string) {
    // With a suffix on both, no lock has a file of another, whatever their names are.
    this.owner = new FileLockHandle(`${path}-owner`);
    this.next = new FileLockHandle(`${path}-next`);
  }

  /** Takes the lock if it is free and no other process is next. */
  tryLock(): boolean {
    if (!this.next.tryLock()) return false;
    try {
      return this.owner.tryLock();
    } finally {
      this.next.unlock();
    }
  }
}

const sharedLocks = new Map<string, SharedLock>();

/**
 * A lock between processes, and between all users of its path in one process: first come, first
 * served within a process, fair between processes. The kernel frees it when its holder dies; it
 * does not expire. `using _held = await lock.acquire({ signal });`
 *
 * It can be lost in two ways, and then another process may take it: its files are deleted, or other
 * code of this process opens and closes one of them (a backup that reads `.locks`, for example).
 * {@link HeldLock.signal} aborts up to a second later. The holder cannot notice a loss of the
 * second kind on systems other than Linux, nor any loss on network file systems.
 */
export class FileLock implements Disposable {
  readonly #settings: Filled<FileLockOptions>;
  #shared: SharedLock | undefined;
  #waiting = 0;
  #closed = false;

  constructor(options: FileLockOptions) {
    const settled = settle('FileLock', options, {
      path: word,
      queueMax: or(integer(0), 10_000),
      deadlineMs: or(number(0), 10_000),
      clock: or(clockRule, systemClock),
      random: or(callback, systemRandom),
    });
    this.#settings = { ...settled, path: resolve(settled.path) };
  }

  get stats(): FileLockStats {
    const held = this.#shared?.held?.isLost === false;
    return { kind: 'file-lock', held, waiting: this.#waiting };
  }

  /** Waits for the lock; rejects with `LOCK_FULL`, `DEADLINE`, or the signal's reason. */
  async acquire({ signal }: RunOptions = {}): Promise<HeldLock> {
    signal?.throwIfAborted();
    const { path, queueMax, deadlineMs, clock } = this.#settings;
    check(!this.#closed, 'lock', 'used before it is disposed', path);
    const shared = this.#share();
    shared.users += 1;
    using undo = new DisposableStack();
    undo.defer(() => this.#leave(shared));
    const place = shared.gate.tryEnter();
    if (place !== undefined) undo.use(place);
    if (place === undefined || !shared.tryLock()) {
      if (this.#waiting >= queueMax) {
        throw new SpillwayError('LOCK_FULL', `${this.#waiting} wait for ${path} already`);
      }
      using limit = deadline(clock, deadlineMs, signal);
      this.#waiting += 1;
      try {
        if (place === undefined) undo.use(await shared.gate.enter({ signal: limit.signal }));
        await this.#poll(shared.next, limit.signal);
        try {
          await this.#poll(shared.owner, limit.signal);
        } finally {
          shared.next.unlock();
        }
      } finally {
        this.#waiting -= 1;
      }
    }
    const release = undo.move();
    return new Held(shared, path, clock, () => release.dispose());
  }

  /** Closes the files once no caller in this process holds or awaits the lock. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#shared !== undefined) this.#leave(this.#shared);
  }

  #share(): SharedLock {
    if (this.#shared !== undefined) return this.#shared;
    let folder = dirname(this.#settings.path);
    try {
      folder = realpathSync(folder);
    } catch {
      // Opening the lock fails as well, and its error has the reason.
    }
    const path = join(folder, '.locks', basename(this.#settings.path));
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

  /** Polls until the lock is free, at growing intervals. */
  async #poll(handle: FileLockHandle, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#settings;
    for (let waitMs = 1; ; waitMs = Math.min(2 * waitMs, pollMsMax)) {
      signal.throwIfAborted();
      if (handle.tryLock()) return;
      await pause(clock, waitMs * (0.5 + random() / 2), signal);
    }
  }
}

class Held implements HeldLock {
  readonly #shared: SharedLock;
  readonly #path: string;
  readonly #clock: Clock;
  readonly #release: () => void;
  readonly #loss = new AbortController();
  #timer: Disposable | undefined = undefined;

  constructor(shared: SharedLock, path: string, clock: Clock, release: () => void) {
    this.#shared = shared;
    this.#path = path;
    this.#clock = clock;
    this.#release = release;
    shared.held = this;
  }

  get isLost(): boolean {
    return this.#loss.signal.aborted;
  }

  get signal(): AbortSignal {
    if (this.#timer === undefined) this.#look();
    return this.#loss.signal;
  }

  check(): void {
    this.#find();
    this.#loss.signal.throwIfAborted();
  }

  [Symbol.dispose](): void {
    if (this.#shared.held !== this) return;
    this.#shared.held = undefined;
    this.#timer?.[Symbol.dispose]();
    this.#shared.owner.unlock();
    // A lock that was lost is taken again on the file that exists then.
    if (this.isLost) this.#shared.owner[Symbol.dispose]();
    this.#release();
  }

  #look(): void {
    if (this.#find()) this.#timer = this.#clock.after(lossCheckMs, () => this.#look());
  }

  /** True if the lock is held, as far as this process can see. */
  #find(): boolean {
    if (this.#shared.held !== this || this.isLost) return false;
    const reason = this.#shared.owner.findLoss();
    if (reason === undefined) return true;
    this.#loss.abort(new SpillwayError('LOCK_LOST', `${this.#path} is locked no more: ${reason}`));
    return false;
  }
}
