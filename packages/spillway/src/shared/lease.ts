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
  margin,
  type SharedOptions,
  StoreLink,
  sharedRules,
  type TimedReading,
  watchedPolls,
} from './store-link.ts';

export interface LeaseOptions extends SharedOptions {
  /** Life of the lease when it is not renewed, in milliseconds; from 30. */
  readonly ttlMs: number;
  /** Waits while another process holds it, instead of `LEASE_HELD` at once. @default true */
  readonly waits?: boolean | undefined;
  /**
   * The longest time between two looks at a lease that another process holds, in ms, from 1;
   * twenty times as long if the store has `watch`. @default 100
   */
  readonly pollMs?: number | undefined;
  /** Ends the waiting. Once the lease is held, this signal changes nothing. */
  readonly signal?: AbortSignal | undefined;
}

export interface LeaseStats {
  readonly kind: 'lease';
  readonly name: string;
  readonly fence: number;
  readonly held: boolean;
  /** Milliseconds until this process gives it up, unless a renewal succeeds before. */
  readonly leftMs: number;
  readonly renewed: number;
  /** Renewals that failed. The lease is held as long as another one succeeds in time. */
  readonly failed: number;
}

const rules = {
  ...sharedRules,
  ttlMs: number(30, 2 ** 31),
  waits: or(flag, true),
  pollMs: or(number(1, 60_000), 100),
  signal: maybe(anything),
};

/** Record of the holder; it expires with the lease. */
const holderRecord = (name: string): string => `lease/${name}`;
/** Record that changes only when the holder does: its version is the fencing number. */
const fenceRecord = (name: string): string => `lease/${name}/fence`;

/** A lease that was taken. */
interface Won {
  readonly id: string;
  readonly fence: number;
  /** Local time from which `ttlMs` counts: before the store can have taken it. */
  readonly from: number;
}

/**
 * An exclusive, expiring claim with a fencing number, renewed at a third of its life. Waiters get
 * it in no particular order. `await using lease = await Lease.acquire(…)`
 */
export class Lease implements Part, Runner, AsyncDisposable {
  readonly name: string;
  /** The fencing number, greater than that of every earlier lease of this name. */
  readonly fence: number;
  readonly #link: StoreLink;
  readonly #ttlMs: number;
  readonly #id: string;
  /** Made when the signal is first asked for: most leases are released without that. */
  #end: AbortController | undefined;
  /** Undefined while it is held. */
  #lossReason: string | undefined;
  /** Local time at which this process gives it up. */
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

  /** Takes the lease when it is free; rejects with `LEASE_HELD` or the signal's reason. */
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
      if (this.#lossReason !== undefined) this.#end.abort(this.#lostError());
    }
    return this.#end.signal;
  }

  get stats(): LeaseStats {
    const leftMs = Math.max(0, this.#until - this.#link.clock.now());
    return {
      kind: 'lease',
      name: this.name,
      fence: this.fence,
      held: this.#lossReason === undefined && leftMs > 0,
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
   * Adds a condition to the changes: the store refuses them all once anybody else has held the
   * lease, however late they arrive. Throws `LEASE_LOST` if it is lost already.
   */
  guard(changes: readonly StoreChange[]): readonly StoreChange[] {
    // A process that was stopped may call this before its timers run.
    if (this.#link.clock.now() >= this.#until) this.#lose('not renewed in time');
    if (this.#lossReason !== undefined) throw this.#lostError();
    return fenced(this, changes);
  }

  /**
   * Renews it now, besides the renewals in the background, for work that needs most of `ttlMs`.
   * Rejects with `LEASE_LOST`, or with the store's failure: then it is held as long as before.
   */
  async renew(): Promise<void> {
    const { name, fence } = this;
    const sentAt = this.#link.clock.now();
    this.guard([]);
    const value = { holder: this.#id };
    // Only the fence guards it, so a renewal may be repeated and may arrive late.
    const renewal = { name: holderRecord(name), value, ttlMs: this.#ttlMs };
    const changes = fenced({ name, fence }, [renewal]);
    // A renewal without an answer must leave time for another.
    const options = { signal: this.signal, msMax: this.#ttlMs / 4 };
    const done = await this.#link.commit(changes, options);
    if (done === undefined) this.#lose('taken by another');
    if (this.#lossReason !== undefined) throw this.#lostError();
    this.#renewed += 1;
    this.#hold(sentAt);
  }

  /** Releases it, unless it was lost. */
  async close(): Promise<void> {
    if (this.#lossReason === undefined) {
      this.#lose('released');
      this.#release = release(this.#link, this);
    }
    await this.#release;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Extends its life after a call that was sent at that time and has confirmed it. */
  #hold(sentAt: number): void {
    this.#until = Math.max(this.#until, sentAt + this.#ttlMs * (1 - margin));
    this.#expiry?.[Symbol.dispose]();
    this.#renewIn(Math.max(0, sentAt + this.#ttlMs / 3 - this.#link.clock.now()));
  }

  #renewIn(ms: number): void {
    this.#renewal?.[Symbol.dispose]();
    this.#renewal = this.#link.clock.after(ms, () => void this.#renewUntilLost());
  }

  /** Renews it, and sets the time of the next renewal, until it is lost. */
  async #renewUntilLost(): Promise<void> {
    const { clock } = this.#link;
    this.#expiry?.[Symbol.dispose]();
    this.#expiry = clock.after(Math.max(0, this.#until - clock.now()), () => {
      this.#lose('not renewed in time');
    });
    try {
      await this.renew();
    } catch {
      if (this.#lossReason !== undefined) return;
      this.#failed += 1;
      this.#renewIn(this.#link.jitter(this.#ttlMs / 12));
    }
  }

  #lose(why: string): void {
    if (this.#lossReason !== undefined) return;
    this.#lossReason = why;
    this.#expiry?.[Symbol.dispose]();
    this.#renewal?.[Symbol.dispose]();
    this.#end?.abort(this.#lostError());
  }

  #lostError(): SpillwayError {
    return new SpillwayError('LEASE_LOST', `${this.name}: ${this.#lossReason}`);
  }
}

/** Adds a condition to changes: the store refuses them all once a newer holder had the lease. */
export function fenced(
  lease: { readonly name: string; readonly fence: number },
  changes: readonly StoreChange[],
): readonly StoreChange[] {
  const { name, fence } = lease;
  return [{ name: fenceRecord(name), ifVersion: fence, checkOnly: true }, ...changes];
}

/** Frees the lease unless another process has it; if the store is away, it expires. */
async function release(link: StoreLink, lease: Lease): Promise<void> {
  const { name, fence } = lease;
  const changes = [{ name: fenceRecord(name), ifVersion: fence }, { name: holderRecord(name) }];
  // If a crash of the server undoes the release, the lease expires.
  const commit = () => link.commit(changes, { durability: 'none' });
  // Repeated once if there was no answer; the fence is gone if the first call was done.
  await commit().catch(() => commit().catch(() => {}));
}

/** Frees the lease if this caller holds it; if the store is away, it expires. */
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

/** Takes the lease for one caller as soon as it is free. */
class LeaseClaim {
  readonly #link: StoreLink;
  readonly #terms: Terms;
  readonly #id: string;
  #waiter: Waiter<void> | undefined;
  /** True at first, and when the holder has changed: then a claim may succeed. */
  #hasChanged = true;

  constructor(link: StoreLink, terms: Terms) {
    this.#link = link;
    this.#terms = terms;
    this.#id = link.newId();
  }

  /** Resolves when this caller holds the lease; leaves nothing in the store if it fails. */
  async win(signal: AbortSignal | undefined): Promise<Won> {
    const { name, pollMs, waits } = this.#terms;
    let watch: StoreWatch | undefined;
    try {
      for (;;) {
        // It is mostly free then, and one call takes it.
        const claimed = this.#hasChanged ? this.#link.commit(this.#claim(), { signal }) : undefined;
        this.#hasChanged = false;
        const taken = await claimed?.catch(() => {});
        if (taken !== undefined) return { id: this.#id, fence: taken.version, from: taken.sentAt };
        // The fence record changes with the holder, and not with a renewal.
        if (waits) watch ??= this.#link.watch([fenceRecord(name)], this.#change);
        const found = await this.#look(signal);
        if ('fence' in found) return found;
        const { leftMs } = found;
        if (!waits) throw heldError(name, leftMs);
        const lookMs = this.#link.jitter(watch?.isLive ? watchedPolls * pollMs : pollMs);
        await this.#rest(Math.min(lookMs, leftMs + 1), signal);
      }
    } catch (error) {
      // The caller does not wait until its claim is removed from the store.
      void giveBack(this.#link, name, this.#id);
      throw error;
    } finally {
      watch?.[Symbol.dispose]();
    }
  }

  /** Takes the lease if it is free by now, else gives the rest of its life. */
  async #look(signal: AbortSignal | undefined): Promise<Won | { readonly leftMs: number }> {
    const { name, ttlMs } = this.#terms;
    const names = [holderRecord(name), fenceRecord(name)];
    const { value, seen, done } = await this.#link.update(names, this.#take, { signal });
    if (done !== undefined) return { id: this.#id, fence: done.version, from: done.sentAt };
    const [holder, fence] = seen.records;
    const leftMs = Math.max(0, (holder?.expiresAt ?? Infinity) - seen.now);
    if (value === 'held') return { leftMs };
    // An earlier claim was made, and its answer was lost.
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

  readonly #take = ({ records: [holder] }: TimedReading): Decision<'won' | 'held'> => {
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
