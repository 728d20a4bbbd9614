import { type Clock, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { callback, clockRule, type Filled, integer, number, or, settle } from '../base/options.ts';

export interface KeyedOptions<Part extends object> {
  /** Makes the part of a key: `(host) => new Bucket({ ratePerSecond: 2, queueMax: 50 })`. */
  readonly make: (key: string) => Part;
  /** Largest number of keys with a part. An integer from 1. @default 10_000 */
  readonly keysMax?: number | undefined;
  /**
   * Milliseconds without use after which a part may be closed and forgotten; from 0. Choose more
   * than a bucket needs to fill, since a new bucket begins full. @default 60_000
   */
  readonly idleMs?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface KeyedStats {
  readonly kind: 'keyed';
  readonly keys: number;
  /** Calls for a new key that were refused, since no part was idle. */
  readonly refused: number;
}

/** Parts that are checked for being idle before a new key is refused. */
const looksMax = 8;

/**
 * One part for each key, made on first use: lanes of hosts, buckets of users, breakers of others.
 * Their number is bounded: a new key closes the part that was unused for longest, if it is idle.
 * `lanes.for(host).run(task)`
 */
export class Keyed<Part extends object> {
  readonly #options: Filled<KeyedOptions<Part>>;
  /** In order of their last use. */
  readonly #parts = new Map<string, { readonly part: Part; usedAt: number }>();
  #refused = 0;

  constructor(options: KeyedOptions<Part>) {
    this.#options = settle('Keyed', options, {
      make: callback,
      keysMax: or(integer(1), 10_000),
      idleMs: or(number(0), 60_000),
      clock: or(clockRule, systemClock),
    });
  }

  get stats(): KeyedStats {
    return { kind: 'keyed', keys: this.#parts.size, refused: this.#refused };
  }

  /** The part of the key; throws `KEYS_FULL` for a new key while no part is idle. */
  for(key: string): Part {
    const { make, clock } = this.#options;
    const usedAt = clock.now();
    const known = this.#parts.get(key);
    if (known === undefined) this.#makeRoom(usedAt);
    else this.#parts.delete(key);
    const part = known?.part ?? make(key);
    this.#parts.set(key, { part, usedAt });
    return part;
  }

  #makeRoom(now: number): void {
    const { keysMax, idleMs } = this.#options;
    let looks = 0;
    for (const [key, entry] of this.#parts) {
      if (this.#parts.size < keysMax) return;
      if (looks === looksMax || now - entry.usedAt < idleMs) break;
      looks += 1;
      this.#parts.delete(key);
      // A part that is busy now counts as used now.
      if (isBusy(entry.part)) this.#parts.set(key, { part: entry.part, usedAt: now });
      else void (entry.part as { close?(): unknown }).close?.();
    }
    if (this.#parts.size < keysMax) return;
    this.#refused += 1;
    const message = `all ${keysMax} keys are in use or were used within ${idleMs} ms`;
    throw new SpillwayError('KEYS_FULL', message, { retryAfterMs: 1_000 });
  }
}

/** True if a caller is inside or waits, or a breaker is not closed, also in a part inside. */
function isBusy(part: object): boolean {
  return isBusyBy(field(part, 'stats'));
}

function isBusyBy(stats: unknown): boolean {
  const isUsed = Number(field(stats, 'inside') ?? 0) + Number(field(stats, 'waiting') ?? 0) > 0;
  const isBreaker = String(field(stats, 'kind')).endsWith('breaker');
  if (isUsed || (isBreaker && field(stats, 'state') !== 'closed')) return true;
  // The stats of an outbound contain those of its parts.
  return Object.values(Object(stats)).some((inner) => typeof inner === 'object' && isBusyBy(inner));
}
