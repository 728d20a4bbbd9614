import {
  type Clock,
  deadline,
  type Random,
  type Store,
  type StoreWatch,
  systemClock,
  systemRandom,
} from 'spillway';
import { check, checkInteger, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import type { Channel, ChannelListener } from './channel.ts';
import {
  appending,
  headCount,
  headName,
  messageIn,
  ringSize,
  slotNames,
} from './store-channel-ring.ts';

export interface StoreChannelOptions {
  /** Store that all instances share; it stays open when the channel closes. */
  readonly store: Store;
  /** Milliseconds between two looks for news. An integer from 1. @default 50 */
  readonly pollMs?: number | undefined;
  /** The longest message, in bytes. An integer from 1. @default 1_048_576 */
  readonly bytesMax?: number | undefined;
  /** Messages that may wait to be published. An integer from 1. @default 1_000 */
  readonly queueMax?: number | undefined;
  /** Milliseconds the store has for a call. An integer from 1. @default 5_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface StoreChannelStats {
  readonly published: number;
  readonly received: number;
  /** Messages that had been overwritten or had expired when this instance came to read them. */
  readonly lost: number;
  /** Calls of the store that failed, and listeners that threw. */
  readonly failures: number;
  /** Messages that wait to be published. */
  readonly pending: number;
}

interface Subscription {
  /** The number of the next message to be heard. */
  next: number;
  /** Watch on the topic's head, where the store has `watch`. */
  readonly watch: StoreWatch | undefined;
  readonly listeners: Set<ChannelListener>;
}

interface Pending extends PromiseWithResolvers<void> {
  readonly bytes: Uint8Array;
}

/** Topics at most. */
const topicsMax = 1_000;
/** Messages in one commit at most. */
const batchMax = 64;
/** The longest pause before a commit that came too late is tried again, in milliseconds. */
const pauseMsMax = 10;
/** Factor on `pollMs` for a store with `watch`, which is polled in case a call was missed. */
const watchedPolls = 20;

/**
 * A channel on any store: a ring of the last 1,024 messages of each topic, which every subscriber
 * reads when `Store.watch` calls back, or polls where the store has none. A message that a
 * subscriber reads later than that, or than a minute, is lost and reported as lost.
 */
export class StoreChannel implements Channel, AsyncDisposable {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #pollMs: number;
  readonly #bytesMax: number;
  readonly #queueMax: number;
  readonly #deadlineMs: number;
  readonly #topics = new Map<string, Subscription>();
  /** Messages that wait to be published, by topic; no empty ones. */
  readonly #queues = new Map<string, Pending[]>();
  readonly #stats = { published: 0, received: 0, lost: 0, failures: 0, pending: 0 };
  readonly #closing = new AbortController();
  readonly #working = new Set<Promise<void>>();
  #timer: Disposable | undefined;
  #polling = false;
  /** True if a message came since the poll that is under way began. */
  #isBehind = false;

  constructor(options: StoreChannelOptions) {
    const { store, pollMs = 50, bytesMax = 1_048_576, queueMax = 1_000 } = options;
    checkInteger('pollMs', pollMs, 1);
    checkInteger('bytesMax', bytesMax, 1);
    checkInteger('queueMax', queueMax, 1);
    this.#deadlineMs = options.deadlineMs ?? 5_000;
    checkInteger('deadlineMs', this.#deadlineMs, 1);
    this.#store = store;
    this.#pollMs = pollMs;
    this.#bytesMax = bytesMax;
    this.#queueMax = queueMax;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
  }

  get stats(): StoreChannelStats {
    return { ...this.#stats };
  }

  /** An abort may come too late to keep the message back. */
  async publish(topic: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    const isShort = bytes.byteLength <= this.#bytesMax;
    check(isShort, 'bytes', `at most ${this.#bytesMax} bytes`, bytes.byteLength);
    const isKnown = this.#queues.has(topic) || this.#queues.size < topicsMax;
    if (this.#stats.pending >= this.#queueMax || !isKnown) {
      throw httpError('CHANNEL_FULL', `${this.#stats.pending} messages wait to be published`);
    }
    const pending = { bytes, ...Promise.withResolvers<void>() };
    this.#stats.pending += 1;
    const queue = this.#queues.get(topic);
    if (queue === undefined) {
      this.#queues.set(topic, [pending]);
      this.#work(this.#publishAll(topic));
    } else {
      queue.push(pending);
    }
    await untilAborted(pending.promise, signal);
  }

  async subscribe(
    topic: string,
    listener: ChannelListener,
    signal?: AbortSignal,
  ): Promise<Disposable> {
    check(this.#topics.size < topicsMax, 'topic', `one of at most ${topicsMax}`, topic);
    using limit = deadline(this.#clock, this.#deadlineMs, signal);
    const { records } = await this.#store.read([headName(topic)], { signal: limit.signal });
    this.#closing.signal.throwIfAborted();
    const known = this.#topics.get(topic);
    const watch =
      known === undefined ? this.#store.watch?.([headName(topic)], this.#hear) : undefined;
    const next = headCount(records[0]);
    const subscription = known ?? { next, watch, listeners: new Set<ChannelListener>() };
    // One object for each call: a listener may be given twice.
    const own: ChannelListener = {
      message: (bytes) => listener.message(bytes),
      lost: (count) => listener.lost(count),
    };
    this.#topics.set(topic, subscription);
    subscription.listeners.add(own);
    this.#arm();
    return {
      [Symbol.dispose]: () => {
        subscription.listeners.delete(own);
        const isLast = subscription.listeners.size === 0;
        if (isLast) subscription.watch?.[Symbol.dispose]();
        if (isLast && this.#topics.get(topic) === subscription) this.#topics.delete(topic);
        this.#arm();
      },
    };
  }

  /** Ends publishing and polling; resolves when no call is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('the channel is closed'));
    for (const { watch } of this.#topics.values()) watch?.[Symbol.dispose]();
    this.#topics.clear();
    this.#arm();
    await Promise.all(this.#working);
  }

  #work(work: Promise<void>): void {
    this.#working.add(work);
    void work.finally(() => this.#working.delete(work));
  }

  async #publishAll(topic: string): Promise<void> {
    const queue = this.#queues.get(topic) as Pending[];
    let head: { count: number; version: number } | undefined;
    while (queue.length > 0) {
      const batch = queue.slice(0, batchMax);
      try {
        using limit = deadline(this.#clock, this.#deadlineMs, this.#closing.signal);
        head = await this.#append(topic, batch, head, limit.signal);
        this.#stats.published += batch.length;
        for (const { resolve } of batch) resolve();
      } catch (error) {
        head = undefined;
        this.#stats.failures += 1;
        for (const { reject } of batch) reject(error);
      }
      queue.splice(0, batch.length);
      this.#stats.pending -= batch.length;
    }
    this.#queues.delete(topic);
  }

  /** Retries until its commit is first; gives the new head, with which the next try begins. */
  async #append(
    topic: string,
    batch: readonly Pending[],
    known: { count: number; version: number } | undefined,
    signal: AbortSignal,
  ): Promise<{ count: number; version: number }> {
    const messages = batch.map(({ bytes }) => bytes);
    let head = known;
    for (;;) {
      if (head === undefined) {
        const [record] = (await this.#store.read([headName(topic)], { signal })).records;
        head = { count: headCount(record), version: record?.version ?? 0 };
      }
      const done = await this.#store.commit(appending(topic, messages, head), { signal });
      if (done !== undefined) {
        return { count: head.count + messages.length, version: done.version };
      }
      head = undefined;
      await this.#pause();
      signal.throwIfAborted();
    }
  }

  #pause(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#clock.after(this.#random() * pauseMsMax, resolve);
    return promise;
  }

  /** One timer for all topics, and none while there are none. */
  #arm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    if (this.#topics.size === 0 || this.#polling) return;
    const isTold = this.#topics.values().every(({ watch }) => watch?.isLive === true);
    const ms = isTold ? watchedPolls * this.#pollMs : this.#pollMs;
    this.#timer = this.#clock.after(this.#isBehind ? 0 : ms, () => this.#work(this.#poll()));
  }

  readonly #hear = (): void => {
    this.#isBehind = true;
    this.#arm();
  };

  async #poll(): Promise<void> {
    this.#polling = true;
    this.#isBehind = false;
    try {
      using limit = deadline(this.#clock, this.#deadlineMs, this.#closing.signal);
      const topics = [...this.#topics];
      const heads = topics.map(([topic]) => headName(topic));
      const { records } = await this.#store.read(heads, { signal: limit.signal });
      for (const [at, [topic, subscription]] of topics.entries()) {
        await this.#catchUp(topic, subscription, headCount(records[at]), limit.signal);
      }
    } catch {
      // The next poll tries again; messages that are lost by then are reported.
      this.#stats.failures += 1;
    }
    this.#polling = false;
    this.#arm();
  }

  async #catchUp(
    topic: string,
    subscription: Subscription,
    count: number,
    signal: AbortSignal,
  ): Promise<void> {
    const first = Math.max(subscription.next, count - ringSize);
    if (count < subscription.next) {
      // The store was emptied or restored from a copy, so the number of lost messages is unknown.
      subscription.next = count;
      this.#tell(subscription, (listener) => listener.lost(undefined));
    }
    if (count <= first) return;
    const { records } = await this.#store.read(slotNames(topic, first, count), { signal });
    let lost = first - subscription.next;
    subscription.next = count;
    for (const [at, record] of records.entries()) {
      const bytes = messageIn(record, first + at);
      if (bytes === undefined) {
        lost += 1;
        continue;
      }
      lost = this.#tellLost(subscription, lost);
      this.#stats.received += 1;
      this.#tell(subscription, (listener) => listener.message(bytes));
    }
    this.#tellLost(subscription, lost);
  }

  #tellLost(subscription: Subscription, lost: number): number {
    if (lost === 0) return 0;
    this.#stats.lost += lost;
    this.#tell(subscription, (listener) => listener.lost(lost));
    return 0;
  }

  #tell({ listeners }: Subscription, call: (listener: ChannelListener) => void): void {
    for (const listener of listeners) {
      try {
        call(listener);
      } catch {
        this.#stats.failures += 1;
      }
    }
  }
}
