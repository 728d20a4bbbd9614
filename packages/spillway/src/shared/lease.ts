import { runUntilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { eitherSignal } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { anything, type Filled, flag, maybe, number, or, settle } from '../base/options.ts';
import type { Part } from '../base/part.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import type { StoreChange, StoredRecord, StoreWatch } from '../store/store.ts';
import { Waiter } from '../wait/wait-queue.ts';
import {
  type Decision,
  type SharedOptions,
  type Sighting,
  StoreLink,
  sharedRules,
} from './store-link.ts';

export interface LeaseOptions extends SharedOptions {
  /** Life of the lease when it is not renewed, in milliseconds; from 30. */
  readonly ttlMs: number;
  /** Waits while another holds it; else it is refused with `LEASE_HELD`. @default true */
  readonly waits?: boolean | undefined;
  /**
   * Milliseconds between two looks at a lease that another holds, from 1; some are left out by
   * chance, and most when the store tells of changes. @default 100
   */
  readonly pollMs?: number | undefined;
  /** Ends the waiting; a lease that is held is not lost by it. */
  readonly signal?: AbortSignal | undefined;
}

export interface LeaseStats {
  readonly kind: 'lease';
  readonly name: string;
  readonly fence: number;
  readonly held: boolean;
  /** Milliseconds until it is given up, unless it is renewed before. */
  readonly leftMs: number;
  readonly renewed: number;
  /** Renewals that failed; it lives on as long as one succeeds in time. */
  readonly failed: number;
}

const rules = {
  ...sharedRules,
  ttlMs: number(30, 2 ** 31),
  waits: or(flag, true),
  pollMs: or(number(1, 60_000), 100),
  signal: maybe(anything),
};

/** The share of its life by which it is given up early: clocks and timers are not exact. */
const margin = 0.1;
/** Waiters ask so many times more rarely of a store that tells of changes. */
const watchedPolls = 20;

/** Says who holds the lease; expires with it. */
const holderRecord = (name: string): string => `lease/${name}`;
/** Changes only when the holder does, so its version is the fencing number. */
const fenceRecord = (name: string): string => `lease/${name}/fence`;

/** A claim that was won. */
interface Won {
  readonly id: string;
  readonly fence: number;
  /** The local time at which it surely still held: its life counts from here. */
  readonly from: number;
}

/**
 * An exclusive, expiring claim with a fencing number, renewed at a third of its life. Those who
 * wait get it in no particular order. `await using lease = await Lease.acquire(…)`
 */
export class Lease implements Part, Runner, AsyncDisposable {
  readonly name: string;
  /** Greater than that of every lease of this name before. */
  readonly fence: number;
  readonly #link: StoreLink;
  readonly #ttlMs: number;
  readonly #id: string;
  /** Made for the first who asks for the signal: many a lease is released without that. */
  #end: AbortController | undefined;
  /** The reason why it is not held any more. */
  #lostWhy: string | undefined;
  /** Time at which this process takes it for lost, by its own clock. */
  #until = 0;
  #expiry: Disposable | undefined;
  #renewal: Disposable | undefined;
  #release: Promise<void> | undefined;
  #renewed = 0;
  #failed = 0;

  private constructor(link: StoreLink, options: LeaseOptions, won: Won) {
    this.name = options.name;
    this.fence = won.fence;
    this.#link = link;
    this.#ttlMs = options.ttlMs;
    this.#id = won.id;
    this.#hold(won.from);
  }

  /** Waits until it is free; rejects with `LEASE_HELD` or the signal's reason. */
  static async acquire(options: LeaseOptions): Promise<Lease> {
    const settled = settle('Lease', options, rules);
    // Its record would be the fence of another lease.
    check(!settled.name.endsWith('/fence'), 'name', 'no name that ends in /fence', settled.name);
    settled.signal?.throwIfAborted();
    const link = new StoreLink(settled);
    const won = await new LeaseClaim(link, settled).win(settled.signal);
    return new Lease(link, options, won);
  }

  /** Aborts with `LEASE_LOST` before anybody else can hold it, and when it is released. */
  get signal(): AbortSignal {
    if (this.#end === undefined) {
      this.#end = new AbortController();
      if (this.#lostWhy !== undefined) this.#end.abort(this.#lostError());
    }
    return this.#end.signal;
  }

  get stats(): LeaseStats {
    const leftMs = Math.max(0, this.#until - this.#link.clock.now());
    return {
      kind: 'lease',
      name: this.name,
      fence: this.fence,
      held: this.#lostWhy === undefined && leftMs > 0,
      leftMs,
      renewed: this.#renewed,
      failed: this.#failed,
    };
  }

  /** True while it is held. */
  get ready(): boolean {
    return this.stats.held;
  }

  /** Runs the task with a signal that aborts when the lease is lost, or with the caller's own. */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    this.guard([]);
    if (signal === undefined) return await runUntilAborted(task, this.signal);
    return await runUntilAborted(task, eitherSignal(signal, this.signal));
  }

  /**
   * The changes, with a condition that makes the store refuse them all once anybody else has held
   * the lease, however late they arrive there. Throws `LEASE_LOST` if it is lost already.
   */
  guard(changes: readonly StoreChange[]): readonly StoreChange[] {
    // A process that was stopped may come here before its timers do.
    if (this.#link.clock.now() >= this.#until) this.#lose('not renewed in time');
    if (this.#lostWhy !== undefined) throw this.#lostError();
    return fenced(this, changes);
  }

  /**
   * Renews it now, for work that needs most of `ttlMs`; it is renewed by itself as well. Rejects
   * with `LEASE_LOST`, or with the store's failure: then it is held for as long as before.
   */
  async renew(): Promise<void> {
    const { name, fence } = this;
    const sentAt = this.#link.clock.now();
    this.guard([]);
    const value = { holder: this.#id };
    // Guarded by the fence and by nothing else: a renewal may be repeated, and may come late.
    const renewal = { name: holderRecord(name), value, ttlMs: this.#ttlMs };
    const changes = fenced({ name, fence }, [renewal]);
    // One that is not answered must leave time for another.
    const options = { signal: this.signal, msMax: this.#ttlMs / 4 };
    const done = await this.#link.commit(changes, options);
    if (done === undefined) this.#lose('taken by another');
    if (this.#lostWhy !== undefined) throw this.#lostError();
    this.#renewed += 1;
    this.#hold(sentAt);
  }

  /** Releases it, unless it was lost: then there is nothing to release. */
  async close(): Promise<void> {
    if (this.#lostWhy === undefined) {
      this.#lose('released');
      this.#release = release(this.#link, this);
    }
    await this.#release;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** It was confirmed by what was sent at that time, so it lives for `ttlMs` from then or later. */
  #hold(sentAt: number): void {
    this.#until = Math.max(this.#until, sentAt + this.#ttlMs * (1 - margin));
    this.#expiry?.[Symbol.dispose]();
    this.#keepIn(Math.max(0, sentAt + this.#ttlMs / 3 - this.#link.clock.now()));
  }

  #keepIn(ms: number): void {
    this.#renewal?.[Symbol.dispose]();
    this.#renewal = this.#link.clock.after(ms, () => void this.#keep());
  }

  /** Renews it, again and again until it is lost. */
  async #keep(): Promise<void> {
    const { clock } = this.#link;
    this.#expiry?.[Symbol.dispose]();
    this.#expiry = clock.after(Math.max(0, this.#until - clock.now()), () => {
      this.#lose('not renewed in time');
    });
    try {
      await this.renew();
    } catch {
      if (this.#lostWhy !== undefined) return;
      this.#failed += 1;
      this.#keepIn(this.#link.jitter(this.#ttlMs / 12));
    }
  }

  #lose(why: string): void {
    if (this.#lostWhy !== undefined) return;
    this.#lostWhy = why;
    this.#expiry?.[Symbol.dispose]();
    this.#renewal?.[Symbol.dispose]();
    this.#end?.abort(this.#lostError());
  }

  #lostError(): SpillwayError {
    return new SpillwayError('LEASE_LOST', `${this.name}: ${this.#lostWhy}`);
  }
}

/** Adds a condition to changes: the store refuses them all once a newer holder has the lease. */
export function fenced(
  lease: { readonly name: string; readonly fence: number },
  changes: readonly StoreChange[],
): readonly StoreChange[] {
  const { name, fence } = lease;
  return [{ name: fenceRecord(name), ifVersion: fence, checkOnly: true }, ...changes];
}

/** Frees the lease unless another has it; if the store cannot be told, it expires. */
async function release(link: StoreLink, lease: Lease): Promise<void> {
  const { name, fence } = lease;
  const changes = [{ name: fenceRecord(name), ifVersion: fence }, { name: holderRecord(name) }];
  // A crash of the server that undoes it leaves a lease that expires.
  const commit = () => link.commit(changes, { durability: 'none' });
  // Without an answer it is told once more: the fence is gone if it was done.
  await commit().catch(() => commit().catch(() => {}));
}

/** Frees the lease if it is held by that caller; if the store cannot be told, it expires. */
async function giveBack(link: StoreLink, name: string, id: string): Promise<void> {
  const names = [holderRecord(name), fenceRecord(name)];
  await link
    .update(names, ({ records: [holder, fence] }) => {
      const ifVersion = fence?.version ?? 0;
      const changes = [{ name: fenceRecord(name), ifVersion }, { name: holderRecord(name) }];
      return { value: undefined, changes: isHeldBy(holder, id) ? changes : undefined };
    })
    .catch(() => {});
}

function isHeldBy(record: StoredRecord | undefined, id: string): boolean {
  return (record?.value as { readonly holder: string } | undefined)?.holder === id;
}

type Terms = Filled<Pick<LeaseOptions, 'name' | 'ttlMs' | 'pollMs' | 'waits'>>;

/** One caller's way to the lease: takes it when it is free, and looks again until then. */
class LeaseClaim {
  readonly #link: StoreLink;
  readonly #terms: Terms;
  readonly #id: string;
  #waiter: Waiter<void> | undefined;
  /** True at first, and when it has changed hands: then it is worth a try to take it. */
  #hasChanged = true;

  constructor(link: StoreLink, terms: Terms) {
    this.#link = link;
    this.#terms = terms;
    this.#id = link.newId();
  }

  /** Resolves when the lease is this caller's; leaves nothing in the store if it fails. */
  async win(signal: AbortSignal | undefined): Promise<Won> {
    const { name, pollMs, waits } = this.#terms;
    let watch: StoreWatch | undefined;
    try {
      for (;;) {
        // Mostly it is free then: one trip takes it.
        const claimed = this.#hasChanged ? this.#link.commit(this.#claim(), { signal }) : undefined;
        this.#hasChanged = false;
        const taken = await claimed?.catch(() => {});
        if (taken !== undefined) return { id: this.#id, fence: taken.version, from: taken.sentAt };
        // A renewal leaves the fence as it is.
        if (waits) watch ??= this.#link.watch([fenceRecord(name)], this.#change);
        const found = await this.#look(signal);
        if ('fence' in found) return found;
        const { leftMs } = found;
        if (!waits) throw heldError(name, leftMs);
        const lookMs = this.#link.jitter(watch?.isLive ? watchedPolls * pollMs : pollMs);
        await this.#rest(Math.min(lookMs, leftMs + 1), signal);
      }
    } catch (error) {
      // The caller is told at once; what may be in the store goes behind its back, or expires.
      void giveBack(this.#link, name, this.#id);
      throw error;
    } finally {
      watch?.[Symbol.dispose]();
    }
  }

  /** Takes the lease if it is free by now; else tells for how long it is held. */
  async #look(signal: AbortSignal | undefined): Promise<Won | { readonly leftMs: number }> {
    const { name, ttlMs } = this.#terms;
    const names = [holderRecord(name), fenceRecord(name)];
    const { value, seen, done } = await this.#link.update(names, this.#take, { signal });
    if (done !== undefined) return { id: this.#id, fence: done.version, from: done.sentAt };
    const [holder, fence] = seen.records;
    const leftMs = Math.max(0, (holder?.expiresAt ?? Infinity) - seen.now);
    if (value === 'held') return { leftMs };
    // The answer to an earlier commit was lost: its life counts from before it was seen.
    const from = seen.sentAt + leftMs - ttlMs;
    return { id: this.#id, fence: fence?.version ?? 0, from };
  }

  readonly #change = (): void => {
    this.#hasChanged = true;
    this.#waiter?.grant();
  };

  async #rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#hasChanged) return;
    const waiter = new Waiter<void>(signal);
    this.#waiter = waiter;
    using _timer = this.#link.clock.after(ms, () => waiter.grant());
    await waiter.promise;
  }

  readonly #take = ({ records: [holder] }: Sighting): Decision<'won' | 'held'> => {
    if (isHeldBy(holder, this.#id)) return { value: 'won' };
    if (holder !== undefined) return { value: 'held' };
    return { value: 'won', changes: this.#claim() };
  };

  /** The changes that take the lease if nobody holds it. */
  #claim(): readonly StoreChange[] {
    const { name, ttlMs } = this.#terms;
    const value = { holder: this.#id };
    const taken = { name: holderRecord(name), ifVersion: 0, value, ttlMs };
    return [taken, { name: fenceRecord(name), value }];
  }
}

function heldError(name: string, leftMs: number): SpillwayError {
  const retryAfterMs = leftMs === Infinity ? undefined : leftMs;
  return new SpillwayError('LEASE_HELD', `${name}: held by another`, { retryAfterMs });
}
