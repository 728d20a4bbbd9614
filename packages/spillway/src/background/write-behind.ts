import { untilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type CloseOptions, Closing } from '../base/closing.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { pause } from '../wait/pause.ts';
import { Ring } from '../wait/ring.ts';
import {
  type WriteBehindOptions,
  type WriteBehindSettings,
  type WriteBehindStats,
  writeBehindSettings,
} from './write-behind-options.ts';
import { Awaiting, CachedRecord } from './write-behind-record.ts';

/**
 * Records held in memory, changed there at once and made durable in groups soon after. Values are
 * replaced, never changed in place. Whoever needs to know that a change is durable awaits
 * {@link durable}; a crash takes only what nobody was told is durable.
 */
export class WriteBehind<K, V> implements AsyncDisposable {
  readonly #settings: WriteBehindSettings<K, V>;
  readonly #records = new Map<K, CachedRecord<K, V>>();
  /** Those nobody needs now, least recently used first. */
  readonly #idle = new Ring<CachedRecord<K, V>>();
  readonly #dirty = new Set<CachedRecord<K, V>>();
  readonly #awaiting = new Ring<Awaiting>();
  readonly #abort = new AbortController();
  readonly #closing: Closing;
  /** Changes are numbered, and a flush has all up to some number. */
  #changes = 0;
  #timer: Disposable | undefined;
  #working: Promise<void> | undefined;
  #flushing = 0;
  #flushes = 0;
  #failures = 0;
  #lastFailure: unknown;

  constructor(options: WriteBehindOptions<K, V>) {
    this.#settings = writeBehindSettings(options);
    this.#closing = new Closing(this.#settings.clock, (limit) => this.#finish(limit));
  }

  get stats(): WriteBehindStats {
    const failure = this.#lastFailure;
    return {
      size: this.#records.size,
      dirty: this.#dirty.size,
      flushing: this.#flushing,
      flushes: this.#flushes,
      failures: this.#failures,
      lastFailure: failure === undefined ? undefined : String(field(failure, 'message') ?? failure),
      oldestDirtyMs: this.#oldestDirtyMs(),
    };
  }

  /** The record as it is in memory, loaded if it is not there. */
  async get(key: K, signal?: AbortSignal): Promise<V> {
    return await this.#use(key, signal, (record) => record.value as V);
  }

  /**
   * Puts what `change` makes of the value in its place, at once if it is in memory, and resolves
   * with it; a flush follows. Refuses with `WRITE_BEHIND_FULL` when too much is not durable yet.
   */
  async update(key: K, change: (value: V) => V, signal?: AbortSignal): Promise<V> {
    check(typeof change === 'function', 'change', 'a function', change);
    return await this.#use(key, signal, (record) => this.#change(record, change));
  }

  /** Resolves once all that has been done to the record until now is durable; hastens that. */
  async durable(key: K, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const record = this.#records.get(key);
    if (record === undefined || !this.#dirty.has(record)) return;
    if (this.#abort.signal.aborted) throw this.#abort.signal.reason;
    const awaiting = new Awaiting(record.changedAt, signal);
    this.#awaiting.push(awaiting);
    this.#hasten();
    await awaiting.promise;
  }

  /**
   * Takes nothing more and flushes all. When the time is over it rejects with `WRITE_BEHIND_LEFT`,
   * and so does whatever awaits; every call gets the outcome of the first.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#closing.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #finish(limit: AbortSignal): Promise<void> {
    this.#timer?.[Symbol.dispose]();
    while (this.#dirty.size > 0 && !limit.aborted) {
      this.#hasten();
      const work = this.#working ?? Promise.resolve();
      await untilAborted(work, limit).catch(() => {});
    }
    if (this.#dirty.size === 0) {
      this.#abort.abort(closed());
      return;
    }
    const message = `${this.#dirty.size} changed records were not flushed`;
    const left = new SpillwayError('WRITE_BEHIND_LEFT', message, { cause: this.#lastFailure });
    this.#abort.abort(left);
    for (const awaiting of this.#awaiting) {
      this.#awaiting.remove(awaiting);
      awaiting.refuse(left);
    }
    throw left;
  }

  async #use<R>(
    key: K,
    signal: AbortSignal | undefined,
    act: (record: CachedRecord<K, V>) => R,
  ): Promise<R> {
    signal?.throwIfAborted();
    if (this.#closing.hasBegun) throw closed();
    const record = this.#records.get(key) ?? this.#admit(key);
    // In use, it is not evicted between its arrival and the moment this caller gets it.
    this.#idle.remove(record);
    record.users += 1;
    try {
      if (record.loading !== undefined) {
        await untilAborted(record.loading, signal);
      }
      return act(record);
    } finally {
      record.users -= 1;
      this.#rest(record);
    }
  }

  #admit(key: K): CachedRecord<K, V> {
    if (this.#records.size >= this.#settings.sizeMax) {
      const oldest = this.#idle.shift();
      if (oldest === undefined) throw this.#full(`${this.#records.size} records are in use`);
      this.#records.delete(oldest.key);
    }
    const record = new CachedRecord<K, V>(key);
    this.#records.set(key, record);
    record.loading = this.#load(record);
    return record;
  }

  async #load(record: CachedRecord<K, V>): Promise<void> {
    const { clock, attemptMsMax, load } = this.#settings;
    using limit = deadline(clock, attemptMsMax, this.#abort.signal);
    try {
      record.value = await untilAborted(Promise.try(load, record.key, limit.signal), limit.signal);
      record.loading = undefined;
    } catch (error) {
      this.#records.delete(record.key);
      throw error;
    }
  }

  #rest(record: CachedRecord<K, V>): void {
    if (record.users > 0 || record.loading !== undefined || this.#dirty.has(record)) return;
    if (this.#records.get(record.key) === record) this.#idle.push(record);
  }

  #full(why: string): SpillwayError {
    const { flushMsMax } = this.#settings;
    return new SpillwayError('WRITE_BEHIND_FULL', why, { retryAfterMs: flushMsMax });
  }

  #change(record: CachedRecord<K, V>, change: (value: V) => V): V {
    if (this.#abort.signal.aborted) throw closed();
    const { dirtyMax, clock } = this.#settings;
    const dirty = this.#dirty.size;
    const isDirty = this.#dirty.has(record);
    if (!isDirty && dirty >= dirtyMax) throw this.#full(`${dirty} changes are not durable yet`);
    const value = change(record.value as V);
    record.value = value;
    this.#changes += 1;
    record.changedAt = this.#changes;
    if (!isDirty) record.dirtySince = clock.now();
    this.#dirty.add(record);
    if (2 * this.#dirty.size >= dirtyMax) this.#hasten();
    else this.#arm();
    return value;
  }

  /** The set is in the order of becoming dirty: its first is the oldest. */
  #oldestDirtyMs(): number {
    for (const { dirtySince } of this.#dirty) return this.#settings.clock.now() - dirtySince;
    return 0;
  }

  #arm(): void {
    if (this.#working !== undefined || this.#timer !== undefined) return;
    const restMs = Math.max(0, this.#settings.flushMsMax - this.#oldestDirtyMs());
    this.#timer = this.#settings.clock.after(restMs, () => this.#hasten());
  }

  #hasten(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    if (this.#dirty.size > 0) this.#working ??= this.#work();
  }

  /** Flushes until nothing is urgent; one flush at a time, so that no older value comes last. */
  async #work(): Promise<void> {
    // Put off for a moment, so that those who change or await in the same breath share the flush.
    await undefined;
    const { clock, random, backoffMs, backoffMsMax } = this.#settings;
    const { signal } = this.#abort;
    let failed = 0;
    do {
      if (await this.#flush()) {
        failed = 0;
      } else {
        const waitMsMax = Math.min(backoffMs * 2 ** Math.min(failed, 50), backoffMsMax);
        failed += 1;
        await pause(clock, random() * waitMsMax, signal).catch(() => {});
      }
    } while (!signal.aborted && this.#dirty.size > 0 && (failed > 0 || this.#isUrgent()));
    this.#working = undefined;
    if (!signal.aborted && this.#dirty.size > 0) this.#arm();
  }

  #isUrgent(): boolean {
    const { dirtyMax, flushMsMax } = this.#settings;
    if (this.#awaiting.size > 0 || this.#closing.hasBegun) return true;
    return 2 * this.#dirty.size >= dirtyMax || this.#oldestDirtyMs() >= flushMsMax;
  }

  async #flush(): Promise<boolean> {
    const { clock, attemptMsMax, flush } = this.#settings;
    const upTo = this.#changes;
    const startedAt = clock.now();
    const batch = new Map([...this.#dirty].map(({ key, value }) => [key, value as V]));
    this.#flushing = batch.size;
    using limit = deadline(clock, attemptMsMax, this.#abort.signal);
    try {
      await flush(batch, limit.signal);
    } catch (error) {
      this.#failures += 1;
      this.#lastFailure = error;
      return false;
    } finally {
      this.#flushing = 0;
    }
    this.#flushes += 1;
    this.#lastFailure = undefined;
    this.#settle(upTo, startedAt);
    return true;
  }

  #settle(upTo: number, startedAt: number): void {
    for (const record of this.#dirty) {
      if (record.changedAt <= upTo) {
        this.#dirty.delete(record);
        this.#rest(record);
      } else {
        // Changed since the flush began.
        record.dirtySince = Math.max(record.dirtySince, startedAt);
      }
    }
    for (const awaiting of this.#awaiting) {
      if (awaiting.change > upTo) continue;
      this.#awaiting.remove(awaiting);
      awaiting.grant();
    }
  }
}

function closed(): SpillwayError {
  return new SpillwayError('WRITE_BEHIND_CLOSED', 'the cache takes nothing more');
}
