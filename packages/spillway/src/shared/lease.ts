import { runUntilAborted } from '../base/abort.ts';
import { deadline, msLeft, noteEnd } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { anything, flag, maybe, number, or, settle } from '../base/options.ts';
import type { Part } from '../base/part.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import type { StoreChange } from '../store/store.ts';
import { fenceRecord, holderRecord, LeaseClaim, released, type Won } from './lease-claim.ts';
import { type SharedOptions, StoreLink, sharedRules } from './store-link.ts';

export interface LeaseOptions extends SharedOptions {
  /** For how long it lasts without being renewed, in milliseconds; from 30. */
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

/** The share of its life by which it is given up early: clocks and timers are not exact. */
const margin = 0.1;

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
  readonly #end = new AbortController();
  /** When this process takes it for lost, by its own clock, from before it was last confirmed. */
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
    const { name, ttlMs, waits, pollMs, signal } = settle('Lease', options, {
      ...sharedRules,
      ttlMs: number(30, 2 ** 31),
      waits: or(flag, true),
      pollMs: or(number(1, 60_000), 100),
      signal: maybe(anything),
    });
    const link = new StoreLink(options);
    const won = await new LeaseClaim(link, { name, ttlMs, waits, pollMs }).win(signal);
    return new Lease(link, options, won);
  }

  /** Aborts with `LEASE_LOST` before anybody else can hold it, and when it is released. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  get stats(): LeaseStats {
    const leftMs = Math.max(0, this.#until - this.#link.clock.now());
    return {
      kind: 'lease',
      name: this.name,
      fence: this.fence,
      held: !this.signal.aborted && leftMs > 0,
      leftMs,
      renewed: this.#renewed,
      failed: this.#failed,
    };
  }

  /** Whether it is held. */
  get ready(): boolean {
    return this.stats.held;
  }

  /** Runs the task with a signal that aborts when the lease is lost, or with the caller's own. */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    this.guard([]);
    if (signal === undefined) return await runUntilAborted(task, this.signal);
    const both = AbortSignal.any([signal, this.signal]);
    const { clock } = this.#link;
    noteEnd(both, clock, clock.now() + msLeft(signal));
    return await runUntilAborted(task, both);
  }

  /**
   * The changes, with a condition that makes the store refuse them all once anybody else has held
   * the lease, however late they arrive there. Throws `LEASE_LOST` if it is lost already.
   */
  guard(changes: readonly StoreChange[]): readonly StoreChange[] {
    // A process that was stopped may come here before its timers do.
    if (this.#link.clock.now() >= this.#until) this.#lose('not renewed in time');
    this.signal.throwIfAborted();
    return fenced(this, changes);
  }

  /** Releases it, unless it was lost: then there is nothing to release. */
  async close(): Promise<void> {
    if (!this.signal.aborted) {
      this.#lose('released');
      this.#release = this.#giveBack();
    }
    await this.#release;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #giveBack(): Promise<void> {
    const names = [fenceRecord(this.name)];
    const changes = released(this.name, this.fence);
    // If the store cannot be told, the lease expires by itself.
    await this.#link
      .update(names, ({ records: [fence] }) => {
        const isMine = fence?.version === this.fence;
        return { value: undefined, changes: isMine ? changes : undefined };
      })
      .catch(() => {});
  }

  /** It was confirmed by what was sent at that time, so it lives for `ttlMs` from then or later. */
  #hold(sentAt: number): void {
    const now = this.#link.clock.now();
    this.#until = sentAt + this.#ttlMs * (1 - margin);
    this.#expiry?.[Symbol.dispose]();
    this.#expiry = this.#link.clock.after(Math.max(0, this.#until - now), () => {
      this.#lose('not renewed in time');
    });
    this.#renewIn(Math.max(0, sentAt + this.#ttlMs / 3 - now));
  }

  #renewIn(ms: number): void {
    this.#renewal = this.#link.clock.after(ms, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const { name, fence } = this;
    const value = { holder: this.#id };
    // Guarded by the fence and by nothing else: a renewal may be repeated, and may come late.
    const renewal = { name: holderRecord(name), value, ttlMs: this.#ttlMs };
    const sentAt = this.#link.clock.now();
    if (sentAt >= this.#until) return this.#lose('not renewed in time');
    // One that is not answered must leave time for another.
    using limit = deadline(this.#link.clock, this.#ttlMs / 4, this.signal);
    try {
      const done = await this.#link.commit(fenced({ name, fence }, [renewal]), limit.signal);
      if (this.signal.aborted) return;
      if (done === undefined) return this.#lose('taken by another');
      this.#renewed += 1;
      this.#hold(sentAt);
    } catch {
      if (this.signal.aborted) return;
      this.#failed += 1;
      this.#renewIn(this.#link.jitter(this.#ttlMs / 12));
    }
  }

  #lose(why: string): void {
    if (this.signal.aborted) return;
    this.#expiry?.[Symbol.dispose]();
    this.#renewal?.[Symbol.dispose]();
    this.#end.abort(new SpillwayError('LEASE_LOST', `${this.name}: ${why}`));
  }
}

/** For whoever was handed the fencing number of a lease: changes that a newer holder makes void. */
export function fenced(
  lease: { readonly name: string; readonly fence: number },
  changes: readonly StoreChange[],
): readonly StoreChange[] {
  const { name, fence } = lease;
  return [{ name: fenceRecord(name), ifVersion: fence, checkOnly: true }, ...changes];
}
