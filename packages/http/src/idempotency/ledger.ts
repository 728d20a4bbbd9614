import { type Json, MemoryStore, type SharedOptions, type Store, type StoreChange } from 'spillway';
import { StoreLink } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import type { BodyPrint } from './body-print.ts';

/** An answer as it is kept. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Body in base64; absent if it could not be kept. */
  readonly body?: string | undefined;
  /** Print of the request's body, if that was a stream and all of it was read. */
  readonly asked?: BodyPrint | undefined;
}

/** The record of a key in the store. */
interface Page {
  /** Identifier of the attempt that may change the record. */
  readonly by: string;
  /** Hash of the request. */
  readonly print: string;
  /** The store's time when it was claimed. */
  readonly since: number;
  /** Answer, once the request was done. */
  readonly answer?: Answer | undefined;
}

/** The exclusive right to run the request of a key, until it is released or expires. */
export interface Claim extends Pick<Page, 'by' | 'print' | 'since'> {
  readonly record: string;
}

/** State of a key when a request comes with it. */
export type Finding =
  | { readonly kind: 'first'; readonly claim: Claim }
  | { readonly kind: 'running'; readonly retryAfterMs: number }
  /** Its first request ended without an answer, and may have done its work. */
  | { readonly kind: 'lost' }
  | { readonly kind: 'other' }
  | { readonly kind: 'done'; readonly answer: Answer };

export interface IdempotencyStats {
  /** Keys of requests that have not ended, as far as this instance claimed them. */
  readonly running: number;
  /** Keys that this instance remembers as done. */
  readonly done: number;
  /** Size of their answers, in bytes of base64. */
  readonly bytes: number;
}

export interface LedgerOptions extends Omit<SharedOptions, 'store'> {
  readonly store: Store | undefined;
  /** Time that an answer is kept, in milliseconds. */
  readonly ageMs: number;
  /** Time that a claim holds, in milliseconds. */
  readonly runMsMax: number;
  /** The meaning of a claim that is older: the key is free again, or nobody may use it. */
  readonly whenLost: 'again' | 'refuse';
  /** Keys that this instance keeps. */
  readonly keysMax: number;
  /** Bytes of answers that this instance keeps. */
  readonly bytesMax: number;
}

/** A record that this instance wrote, which it has to remove if it becomes one too many. */
interface Kept {
  readonly claim: Claim;
  readonly version: number;
  readonly endsAt: number;
  readonly status: number;
}

/** Records that one request removes at most: more than it adds. */
const dropsMax = 8;

/**
 * Keeps the answer of each key in a store, for all instances that share it. A claim whose instance
 * died is void after `runMsMax`. If there are too many keys, the oldest that is done is forgotten.
 */
export class IdempotencyLedger {
  readonly #options: LedgerOptions;
  readonly #link: StoreLink;
  /** Records of this instance, the oldest first; running ones are never removed. */
  readonly #running = new Map<string, Kept>();
  readonly #done = new Map<string, Kept>();
  readonly #bodies = new Map<string, number>();
  #claiming = 0;
  #bytes = 0;

  constructor(options: LedgerOptions) {
    this.#options = options;
    const store = options.store ?? new MemoryStore({ clock: options.clock });
    this.#link = new StoreLink({ ...options, store });
  }

  get stats(): IdempotencyStats {
    return { running: this.#running.size, done: this.#done.size, bytes: this.#bytes };
  }

  /** Claims the key, or gives its state. Throws `IDEMPOTENCY_FULL` if all keys are running. */
  async claim(key: string, print: string): Promise<Finding> {
    const { name, runMsMax, ageMs, whenLost } = this.#options;
    const record = `idempotency/${name}/${key}`;
    const by = this.#link.newId();
    const ttlMs = whenLost === 'refuse' ? ageMs : runMsMax;
    let drops: readonly Kept[] | undefined;
    try {
      const { value, done, seen } = await this.#link.update<Finding>([record], (sighting) => {
        const [known] = sighting.records;
        const claim = { record, by, print, since: sighting.now };
        if (known !== undefined) {
          return { value: found(claim, known.value as unknown as Page, runMsMax) };
        }
        // Only a new key removes others, and it counts as present before anything is awaited.
        drops ??= this.#makeRoom();
        const change = { name: record, value: { by, print, since: sighting.now }, ifVersion: 0 };
        return { value: { kind: 'first', claim }, changes: [{ ...change, ttlMs }] };
      });
      if (value.kind === 'first') {
        const version = done?.version ?? seen.records[0]?.version ?? 0;
        const endsAt = this.#link.clock.now() + ttlMs;
        this.#running.set(record, { claim: value.claim, version, endsAt, status: 0 });
      }
      return value;
    } finally {
      if (drops !== undefined) this.#claiming -= 1;
      for (const { claim, version } of drops ?? []) {
        // A record that has expired or has another owner by now has another version: it stays.
        await this.#link.commit([{ name: claim.record, ifVersion: version }]).catch(() => {});
      }
    }
  }

  /** The changes that keep the answer: for the transaction in which the work itself is done. */
  changes(claim: Claim, answer: Answer): readonly StoreChange[] {
    const { record } = claim;
    const { ageMs: ttlMs } = this.#options;
    const { version: ifVersion = 0 } = this.#running.get(record) ?? {};
    return [{ name: record, value: page(claim, answer), ifVersion, ttlMs }];
  }

  /** Keeps the answer, unless the claim is void by now. Wait for it before the answer is sent. */
  async finish(claim: Claim, answer: Answer): Promise<void> {
    const { record } = claim;
    const { ageMs, bytesMax } = this.#options;
    const { done } = await this.#link.update([record], ({ records: [seen] }) => {
      if (seen !== undefined && !isRunning(claim, seen.value)) return { value: undefined };
      const change = { name: record, value: page(claim, answer), ifVersion: seen?.version ?? 0 };
      return { value: undefined, changes: [{ ...change, ttlMs: ageMs }] };
    });
    this.#running.delete(record);
    if (done === undefined) return;
    this.#forget(record);
    const { status, body = '' } = answer;
    this.#done.set(record, {
      claim,
      version: done.version,
      endsAt: done.receivedAt + ageMs,
      status,
    });
    this.#bodies.set(record, body.length);
    this.#bytes += body.length;
    while (this.#bytes > bytesMax) await this.#dropOldestBody();
  }

  /** Releases the claim of a request that did nothing: the next with this key is a first one. */
  async release(claim: Claim): Promise<void> {
    const { record } = claim;
    await this.#link.update([record], ({ records: [seen] }) => {
      const isMine = seen !== undefined && isRunning(claim, seen.value);
      const changes = isMine ? [{ name: record, ifVersion: seen.version }] : undefined;
      return { value: undefined, changes };
    });
    this.#running.delete(record);
  }

  /** Makes room: removes expired records and, if that is not enough, the oldest that is done. */
  #makeRoom(): readonly Kept[] {
    const now = this.#link.clock.now();
    const drops: Kept[] = [];
    const isFull = () =>
      this.#running.size + this.#done.size + this.#claiming >= this.#options.keysMax;
    for (const [record, kept] of this.#running) {
      if (kept.endsAt > now || drops.length >= dropsMax) break;
      this.#running.delete(record);
      drops.push(kept);
    }
    for (const [record, kept] of this.#done) {
      if ((kept.endsAt > now && !isFull()) || drops.length >= dropsMax) break;
      this.#forget(record);
      drops.push(kept);
    }
    if (!isFull()) {
      this.#claiming += 1;
      return drops;
    }
    const [oldest] = this.#running.values();
    const retryAfterMs = Math.max(1, (oldest?.endsAt ?? now) - now);
    throw httpError('IDEMPOTENCY_FULL', 'too many keys are in use', { retryAfterMs });
  }

  #forget(record: string): void {
    this.#done.delete(record);
    this.#bytes -= this.#bodies.get(record) ?? 0;
    this.#bodies.delete(record);
  }

  /** Drops the answer but keeps the key as done: want of room never runs a request twice. */
  async #dropOldestBody(): Promise<void> {
    const [[record, bytes] = ['', this.#bytes]] = this.#bodies;
    this.#bodies.delete(record);
    this.#bytes -= bytes;
    const kept = this.#done.get(record);
    if (kept === undefined || bytes === 0) return;
    const { claim, status, version, endsAt } = kept;
    const value = page(claim, { status, headers: {} });
    const ttlMs = Math.max(0, endsAt - this.#link.clock.now());
    const change = { name: record, value, ifVersion: version, ttlMs };
    const done = await this.#link.commit([change]).catch(() => undefined);
    if (done && this.#done.get(record) === kept) {
      this.#done.set(record, { ...kept, version: done.version });
    }
  }
}

function found(claim: Claim, { by, print, since, answer }: Page, runMsMax: number): Finding {
  if (print !== claim.print) return { kind: 'other' };
  if (answer !== undefined) return { kind: 'done', answer };
  // The claim is its own: the answer of the store to it was lost.
  if (by === claim.by) return { kind: 'first', claim };
  const ranMs = claim.since - since;
  if (ranMs >= runMsMax) return { kind: 'lost' };
  // It may take as long again as it has taken; after its instance died, until the claim is void.
  const retryAfterMs = Math.min(Math.max(1_000, ranMs), runMsMax - ranMs);
  return { kind: 'running', retryAfterMs };
}

function isRunning({ by }: Claim, value: Json): boolean {
  const known = value as unknown as Page;
  return known.by === by && known.answer === undefined;
}

function page({ by, print, since }: Claim, answer: Answer): Json {
  return { by, print, since, answer } as unknown as Json;
}
