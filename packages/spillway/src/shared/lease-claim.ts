import { SpillwayError } from '../base/errors.ts';
import type { StoreChange, StoredRecord } from '../store/store.ts';
import { Waiter } from '../wait/wait-queue.ts';
import type { Committed, Decision, Sighting, StoreLink } from './store-link.ts';

/** The fields of a claim that stay the same while it lives. */
export interface LeaseTerms {
  readonly name: string;
  readonly ttlMs: number;
  readonly pollMs: number;
  readonly waits: boolean;
}

/** A claim that was won. */
export interface Won {
  readonly id: string;
  readonly fence: number;
  /** The local time at which it surely still held: its life counts from here. */
  readonly from: number;
}

/** Says who holds the lease; expires with it. */
export const holderRecord = (name: string): string => `lease/${name}`;
/** Changes only when the holder does, so its version is the fencing number. */
export const fenceRecord = (name: string): string => `lease/${name}/fence`;

/** Waiters ask so many times more rarely of a store that tells of changes. */
const watchedPolls = 20;

/** One caller's way to the lease: takes it when it is free, and looks again until then. */
export class LeaseClaim {
  readonly #link: StoreLink;
  readonly #terms: LeaseTerms;
  readonly #id: string;
  readonly #names: readonly [string, string];
  #holder: StoredRecord | undefined;
  #waiter: Waiter<void> | undefined;
  #hasChanged = false;

  constructor(link: StoreLink, terms: LeaseTerms) {
    this.#link = link;
    this.#terms = terms;
    this.#id = link.newId();
    this.#names = [holderRecord(terms.name), fenceRecord(terms.name)];
  }

  /** Resolves when the lease is this caller's; leaves nothing in the store if it fails. */
  async win(signal: AbortSignal | undefined): Promise<Won> {
    signal?.throwIfAborted();
    const { name, pollMs, waits } = this.#terms;
    using watch = waits ? this.#link.watch([holderRecord(name)], this.#change) : undefined;
    try {
      for (;;) {
        this.#hasChanged = false;
        const { value, seen, done } = await this.#link.update(this.#names, this.#take, { signal });
        if (value === 'won') return this.#won(seen, done);
        const leftMs = Math.max(0, (this.#holder?.expiresAt ?? Infinity) - seen.now);
        if (!waits) throw this.#refusal(leftMs);
        const lookMs = this.#link.jitter(watch?.isLive ? watchedPolls * pollMs : pollMs);
        await this.#rest(Math.min(lookMs, leftMs + 1), signal);
      }
    } catch (error) {
      // The caller is told at once; what may be in the store goes behind its back, or expires.
      this.#link.update(this.#names, this.#withdraw).catch(() => {});
      throw error;
    }
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

  #won(seen: Sighting, done: Committed | undefined): Won {
    if (done !== undefined) return { id: this.#id, fence: done.version, from: done.sentAt };
    // The answer to an earlier commit was lost: what is left counts from before it was seen.
    const [holder, fence] = seen.records;
    const leftMs = (holder?.expiresAt ?? seen.now) - seen.now;
    const from = seen.sentAt + leftMs - this.#terms.ttlMs;
    return { id: this.#id, fence: fence?.version ?? 0, from };
  }

  readonly #take = (seen: Sighting): Decision<'won' | 'held'> => {
    const [holder] = seen.records;
    this.#holder = holder;
    if (isHeldBy(holder, this.#id)) return { value: 'won' };
    if (holder !== undefined) return { value: 'held' };
    const value = { holder: this.#id };
    const [name, fence] = this.#names;
    const taken = { name, ifVersion: 0, value, ttlMs: this.#terms.ttlMs };
    return { value: 'won', changes: [taken, { name: fence, value }] };
  };

  readonly #withdraw = (seen: Sighting): Decision<void> => {
    const [holder, fence] = seen.records;
    const isMine = isHeldBy(holder, this.#id);
    const changes = isMine ? released(this.#terms.name, fence?.version ?? 0) : undefined;
    return { changes, value: undefined };
  };

  #refusal(leftMs: number): SpillwayError {
    const retryAfterMs = leftMs === Infinity ? undefined : leftMs;
    return new SpillwayError('LEASE_HELD', `${this.#terms.name}: held by another`, {
      retryAfterMs,
    });
  }
}

/** Ends a lease, if that fencing number is still the newest. */
export function released(name: string, fence: number): StoreChange[] {
  return [{ name: fenceRecord(name), ifVersion: fence }, { name: holderRecord(name) }];
}

function isHeldBy(record: StoredRecord | undefined, id: string): boolean {
  return (record?.value as { readonly holder: string } | undefined)?.holder === id;
}
