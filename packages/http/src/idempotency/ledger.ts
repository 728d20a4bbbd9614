import type { Json, SharedOptions, StoreChange } from 'spillway';
import { StoreLink } from 'spillway/internal';
import type { BodyPrint } from './streams.ts';

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
interface KeyRecord {
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
export interface Claim extends Pick<KeyRecord, 'by' | 'print' | 'since'> {
  readonly record: string;
  readonly version: number;
}

/** State of a key when a request comes with it. */
export type KeyState =
  | { readonly kind: 'first'; readonly claim: Claim }
  | { readonly kind: 'running'; readonly retryAfterMs: number }
  /** Its first request ended without an answer, and may have done its work. */
  | { readonly kind: 'lost' }
  | { readonly kind: 'other' }
  | { readonly kind: 'done'; readonly answer: Answer };

export interface LedgerOptions extends SharedOptions {
  /** Time that an answer is kept, in milliseconds. */
  readonly ageMs: number;
  /** Time that a claim holds, in milliseconds. */
  readonly runMsMax: number;
  /** The meaning of a claim that is older: the key is free again, or nobody may use it. */
  readonly whenLost: 'again' | 'refuse';
}

/**
 * Keeps the answer of each key in a store, for all instances that share it; the store bounds how
 * many are kept. A claim whose instance died is void after `runMsMax`.
 */
export class IdempotencyLedger {
  readonly #options: LedgerOptions;
  readonly #link: StoreLink;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#link = new StoreLink(options);
  }

  /** Claims the key, or gives its state. */
  async claim(key: string, print: string): Promise<KeyState> {
    const { name, runMsMax, ageMs, whenLost } = this.#options;
    const record = `idempotency/${name}/${key}`;
    const by = this.#link.newId();
    const ttlMs = whenLost === 'refuse' ? ageMs : runMsMax;
    const { value, done } = await this.#link.update<KeyState | Claim>(
      [record],
      ({ now: since, records: [seen] }) => {
        if (seen === undefined) {
          const change = { name: record, value: { by, print, since }, ifVersion: 0, ttlMs };
          return { value: { record, by, print, since, version: 0 }, changes: [change] };
        }
        const known = seen.value as unknown as KeyRecord;
        // The claim is ours: the answer of the store to its commit was lost.
        if (known.by === by) return { value: { record, version: seen.version, ...known } };
        return { value: stateOf(known, print, since, runMsMax) };
      },
    );
    if ('kind' in value) return value;
    return { kind: 'first', claim: { ...value, version: done?.version ?? value.version } };
  }

  /** The changes that keep the answer: for the transaction in which the work itself is done. */
  changes(claim: Claim, answer: Answer): readonly StoreChange[] {
    const { record: name, version: ifVersion } = claim;
    return [{ name, value: answered(claim, answer), ifVersion, ttlMs: this.#options.ageMs }];
  }

  /** Keeps the answer, unless the claim is void by now. Wait for it before the answer is sent. */
  async finish(claim: Claim, answer: Answer): Promise<void> {
    const { record: name } = claim;
    await this.#link.update([name], ({ records: [seen] }) => {
      if (seen !== undefined && !isRunning(claim, seen.value)) return { value: undefined };
      const [change] = this.changes({ ...claim, version: seen?.version ?? 0 }, answer);
      return { value: undefined, changes: [change as StoreChange] };
    });
  }

  /** Releases the claim of a request that did nothing: the next with this key is a first one. */
  async release(claim: Claim): Promise<void> {
    const { record: name } = claim;
    await this.#link.update([name], ({ records: [seen] }) => {
      const isMine = seen !== undefined && isRunning(claim, seen.value);
      const changes = isMine ? [{ name, ifVersion: seen.version }] : undefined;
      return { value: undefined, changes };
    });
  }
}

function stateOf(known: KeyRecord, print: string, now: number, runMsMax: number): KeyState {
  if (known.print !== print) return { kind: 'other' };
  if (known.answer !== undefined) return { kind: 'done', answer: known.answer };
  const ranMs = now - known.since;
  if (ranMs >= runMsMax) return { kind: 'lost' };
  // It may run as long again as it has run; if its instance died, until the claim is void.
  const retryAfterMs = Math.min(Math.max(1_000, ranMs), runMsMax - ranMs);
  return { kind: 'running', retryAfterMs };
}

function isRunning({ by }: Claim, value: Json): boolean {
  const known = value as unknown as KeyRecord;
  return known.by === by && known.answer === undefined;
}

function answered({ by, print, since }: Claim, answer: Answer): Json {
  return { by, print, since, answer } as unknown as Json;
}
