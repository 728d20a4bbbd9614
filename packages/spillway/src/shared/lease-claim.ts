import { SpillwayError } from '../base/errors.ts';
import type { StoreChange, StoredRecord } from '../store/store.ts';
import { pause } from '../wait/pause.ts';
import type { Decision, Sighting, StoreLink } from './store-link.ts';

/** What a claim is about: what stays the same while it lives. */
export interface LeaseTerms {
  readonly name: string;
  readonly ttlMs: number;
  readonly queueMax: number;
  readonly pollMs: number;
}

/** A claim that was won: the fencing number, and the local time at which it surely still held. */
export interface Won {
  readonly id: string;
  readonly fence: number;
  /** Its life counts from here. */
  readonly from: number;
}

type Ticket = { readonly id: string; readonly until: number };
type Turn = 'won' | 'waits';

/** Who holds it; expires with the lease. */
export const holderRecord = (name: string): string => `lease/${name}`;
/** Changes only when the holder does, so its version is the fencing number. */
export const fenceRecord = (name: string): string => `lease/${name}/fence`;
const queueRecord = (name: string): string => `lease/${name}/queue`;

/** One caller's way to the lease: a ticket in the store's queue until it is the first. */
export class LeaseClaim {
  readonly #link: StoreLink;
  readonly #terms: LeaseTerms;
  readonly #id: string;
  readonly #names: readonly string[];
  #waitMs = 0;

  constructor(link: StoreLink, terms: LeaseTerms) {
    this.#link = link;
    this.#terms = terms;
    this.#id = link.newId();
    const { name } = terms;
    this.#names = [holderRecord(name), fenceRecord(name), queueRecord(name)];
  }

  /** Resolves when the lease is this caller's; leaves nothing in the store if it fails. */
  async win(signal?: AbortSignal): Promise<Won> {
    signal?.throwIfAborted();
    try {
      for (;;) {
        const { value, seen, done } = await this.#link.update(this.#names, this.#turn, { signal });
        if (value === 'won') return this.#won(seen, done);
        await pause(this.#link.clock, this.#link.jitter(this.#waitMs), signal);
      }
    } catch (error) {
      // The caller is told at once; what may be in the store goes behind its back, or expires.
      this.#link.update(this.#names, this.#withdrawal).catch(() => {});
      throw error;
    }
  }

  #won(seen: Sighting, done: { readonly sentAt: number; readonly version: number } | undefined) {
    if (done !== undefined) return { id: this.#id, fence: done.version, from: done.sentAt };
    // The answer to an earlier commit was lost: what is left counts from before it was seen.
    const [holder, fence] = seen.records;
    const leftMs = (holder?.expiresAt ?? seen.now) - seen.now;
    const from = seen.sentAt + leftMs - this.#terms.ttlMs;
    return { id: this.#id, fence: fence?.version ?? 0, from };
  }

  readonly #turn = (seen: Sighting): Decision<Turn> => {
    const { ttlMs, queueMax, pollMs } = this.#terms;
    const [holder, , queue] = seen.records;
    if (isHeldBy(holder, this.#id)) return { value: 'won' };
    const tickets = alive(queue, seen.now);
    const place = tickets.findIndex(({ id }) => id === this.#id);
    if (holder === undefined && (place === 0 || tickets.length === 0)) {
      const value = { holder: this.#id };
      const [name, fence] = this.#names as [string, string];
      const taken = { name, ifVersion: 0, value, ttlMs };
      const rest = this.#queueChange(queue, tickets.slice(1), seen.now);
      return { value: 'won', changes: [taken, { name: fence, value }, rest] };
    }
    if (place < 0 && tickets.length >= queueMax) throw this.#refusal(holder, tickets, seen.now);
    const ticketMs = 20 * pollMs;
    const at = place < 0 ? tickets.length : place;
    const expiresMs = (holder?.expiresAt ?? Infinity) - seen.now;
    // The further back, the rarer it asks: all before it have to hold the lease first.
    this.#waitMs = Math.max(1, Math.min(pollMs * (1 + at), ticketMs / 4, expiresMs + 1));
    const until = tickets[place]?.until ?? 0;
    if (until - seen.now > ticketMs / 2) return { value: 'waits' };
    const mine = { id: this.#id, until: seen.now + ticketMs };
    const renewed = [...tickets.slice(0, at), mine, ...tickets.slice(at + 1)];
    return { value: 'waits', changes: [this.#queueChange(queue, renewed, seen.now)] };
  };

  readonly #withdrawal = (seen: Sighting): Decision<void> => {
    const [holder, fence, queue] = seen.records;
    const changes: StoreChange[] = [];
    if (isHeldBy(holder, this.#id)) {
      changes.push(...released(this.#terms.name, fence?.version ?? 0));
    }
    const tickets = alive(queue, seen.now);
    const rest = tickets.filter(({ id }) => id !== this.#id);
    if (rest.length < tickets.length) changes.push(this.#queueChange(queue, rest, seen.now));
    return { changes: changes.length > 0 ? changes : undefined, value: undefined };
  };

  #queueChange(
    queue: StoredRecord | undefined,
    tickets: readonly Ticket[],
    now: number,
  ): StoreChange {
    const change = { name: queueRecord(this.#terms.name), ifVersion: queue?.version ?? 0 };
    if (tickets.length === 0) return { ...change, checkOnly: queue === undefined };
    const ttlMs = Math.max(...tickets.map(({ until }) => until)) - now;
    return { ...change, value: { tickets }, ttlMs };
  }

  #refusal(
    holder: StoredRecord | undefined,
    tickets: readonly Ticket[],
    now: number,
  ): SpillwayError {
    const message = `${this.#terms.name}: held by another, ${tickets.length} waiting`;
    const retryAfterMs = holder?.expiresAt === undefined ? undefined : holder.expiresAt - now;
    return new SpillwayError('LEASE_HELD', message, { retryAfterMs });
  }
}

/** Ends a lease, if that fencing number is still the newest. */
export function released(name: string, fence: number): StoreChange[] {
  return [{ name: fenceRecord(name), ifVersion: fence }, { name: holderRecord(name) }];
}

function isHeldBy(record: StoredRecord | undefined, id: string): boolean {
  return (record?.value as { readonly holder: string } | undefined)?.holder === id;
}

function alive(queue: StoredRecord | undefined, now: number): readonly Ticket[] {
  const all = (queue?.value as { readonly tickets: readonly Ticket[] } | undefined)?.tickets ?? [];
  return all.filter(({ until }) => until > now);
}
