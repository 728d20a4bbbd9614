import {
  Batch,
  type BatchGroup,
  type Clock,
  deadline,
  type Random,
  type Store,
  type StoreChange,
  type StoredRecord,
  type StoreNews,
  type StoreWatch,
  systemClock,
  systemRandom,
} from 'spillway';
import {
  callback,
  check,
  checkStoreNames,
  clockRule,
  integer,
  or,
  pause,
  settle,
  storeRule,
} from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import type { Channel, ChannelListener } from './channel.ts';

export interface StoreChannelOptions {
  /** Store that all instances share; it stays open when the channel closes. */
  readonly store: Store;
  /** Milliseconds between two polls of the store. An integer from 1. @default 50 */
  readonly pollMs?: number | undefined;
  /** The longest message, in bytes. An integer from 1. @default 1_048_576 */
  readonly bytesMax?: number | undefined;
  /** Messages that may wait to be published. An integer from 1. @default 1_000 */
  readonly queueMax?: number | undefined;
  /** Milliseconds that publishing or polling may take, from 1. @default 5_000 */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface StoreChannelStats {
  readonly kind: 'store-channel';
  readonly published: number;
  readonly received: number;
  /** Messages that had been overwritten or had expired when this instance came to read them. */
  readonly lost: number;
  /** Polls that failed, and listeners that threw. */
  readonly failures: number;
  /** Messages that wait to be published. */
  readonly pending: number;
}

interface Subscription {
  /** The number of the next message, and the version of the head when the last one was read. */
  next: number;
  version: number;
  /** True if the watch reported a change since the last poll began. */
  isTold: boolean;
  /** Watch on the topic's head, where the store has `watch`. */
  watch: StoreWatch | undefined;
  readonly listeners: Set<ChannelListener>;
}

interface Message {
  readonly topic: string;
  readonly bytes: Uint8Array;
}

/** Number of messages that a topic has had, and the version of the record that counts them. */
interface Head {
  readonly count: number;
  readonly version: number;
}

/** The state of a topic when it was polled, and the record of its next message, if it was read. */
interface News extends Head {
  readonly early: StoredRecord | undefined;
}

const rules = {
  store: storeRule,
  pollMs: or(integer(1), 50),
  bytesMax: or(integer(1), 1_048_576),
  queueMax: or(integer(1), 1_000),
  deadlineMs: or(integer(1), 5_000),
  clock: or(clockRule, systemClock),
  random: or(callback, systemRandom),
};

/** Messages of a topic that are kept: a subscriber further behind loses the oldest. */
const ringSize = 1_024;
const keepMs = 60_000;
const topicsMax = 1_000;
const groupMax = 64;
/** The longest pause after a commit that another process preceded, in milliseconds. */
const pauseMsMax = 10;
/** Factor on `pollMs` while all watches are live: polls then only find what they missed. */
const watchedPolls = 20;
/** The most characters of messages that go out with the notification of a commit. */
const newsLengthMax = 7_000;

/**
 * A channel on any store: a ring of the last 1,024 messages of each topic, kept for a minute. A
 * store with `watch` sends short messages to the subscribers, or a sign that there is one to read;
 * without it they poll. Messages that left the ring before they were read are reported as lost.
 */
export class StoreChannel implements Channel, AsyncDisposable {
  readonly #options;
  readonly #topics = new Map<string, Subscription>();
  readonly #batch: Batch<Message, void>;
  #heads: ReadonlyMap<string, Head> = new Map();
  readonly #stats = { published: 0, received: 0, lost: 0, failures: 0 };
  readonly #closing = new AbortController();
  #timer: Disposable | undefined;
  #polling: Promise<void> | undefined;
  /** True if a message came since the poll that is under way began. */
  #isBehind = false;

  constructor(options: StoreChannelOptions) {
    this.#options = settle<StoreChannelOptions, typeof rules>('StoreChannel', options, rules);
    const { queueMax, deadlineMs, clock } = this.#options;
    this.#batch = new Batch({
      call: (group) => this.#append(group),
      full: (waiting) => httpError('CHANNEL_FULL', `${waiting} messages wait to be published`),
      groupMax,
      queueMax,
      deadlineMs,
      clock,
    });
  }

  get stats(): StoreChannelStats {
    const { waiting, running } = this.#batch.stats;
    return { kind: 'store-channel', ...this.#stats, pending: waiting + running };
  }

  async publish(topic: string, bytes: Uint8Array): Promise<void> {
    this.#closing.signal.throwIfAborted();
    const { bytesMax } = this.#options;
    check(bytes.byteLength <= bytesMax, 'bytes', `at most ${bytesMax} bytes`, bytes.byteLength);
    // Checked here, since one bad name would fail the commit for other callers' messages too.
    checkStoreNames([slotName(topic, ringSize - 1)]);
    await this.#batch.add({ topic, bytes });
    this.#stats.published += 1;
  }

  async subscribe(topic: string, listener: ChannelListener): Promise<Disposable> {
    check(this.#topics.size < topicsMax, 'topic', `one of at most ${topicsMax}`, topic);
    checkStoreNames([slotName(topic, ringSize - 1)]);
    const { store, clock, deadlineMs } = this.#options;
    using limit = deadline(clock, deadlineMs, this.#closing.signal);
    const { records } = await store.read([headName(topic)], limit);
    limit.signal.throwIfAborted();
    const subscription = this.#topics.get(topic) ?? this.#begin(topic, headOf(records[0]));
    // One object for each call: the same listener may subscribe twice.
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

  #begin(topic: string, { count, version }: Head): Subscription {
    const subscription: Subscription = {
      next: count,
      version,
      isTold: false,
      watch: undefined,
      listeners: new Set(),
    };
    subscription.watch = this.#options.store.watch?.([headName(topic)], (news) => {
      if (news !== undefined && this.#hear(subscription, news)) return;
      subscription.isTold = true;
      this.#isBehind = true;
      this.#arm();
    });
    return subscription;
  }

  /** Delivers the messages of a notification; false if the store has to be read. */
  #hear(subscription: Subscription, { version, text }: StoreNews): boolean {
    // A poll that is under way may have read the same messages.
    if (this.#polling !== undefined) return false;
    if (version <= subscription.version) return true;
    const [before, ...messages] = text.split(' ');
    if (Number(before) !== subscription.version) return false;
    subscription.next += messages.length;
    subscription.version = version;
    for (const message of messages) {
      this.#stats.received += 1;
      const bytes = Buffer.from(message, 'base64');
      this.#tell(subscription, (listener) => listener.message(bytes));
    }
    return true;
  }

  /** Ends publishing and polling; resolves when no call is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    const reason = new Error('the channel is closed');
    this.#closing.abort(reason);
    this.#batch.refuseAll(reason);
    for (const { watch } of this.#topics.values()) watch?.[Symbol.dispose]();
    this.#topics.clear();
    this.#arm();
    await Promise.all([this.#polling, this.#batch.idle()]);
  }

  /** Appends messages of any topics in one commit; repeats it if another process came first. */
  async #append(group: BatchGroup<Message, void>): Promise<void> {
    const entries = group.take();
    const { signal } = group;
    const { store, clock, random } = this.#options;
    const byTopic = Map.groupBy(entries, ({ item }) => item.topic);
    let known = this.#heads;
    this.#heads = new Map();
    for (;;) {
      const unknown = [...byTopic.keys()].filter((topic) => !known.has(topic));
      const heads = new Map(known);
      if (unknown.length > 0) {
        const { records } = await store.read(unknown.map(headName), { signal });
        for (const [at, topic] of unknown.entries()) heads.set(topic, headOf(records[at]));
      }
      const changes = [...byTopic].flatMap(([topic, own]) => {
        const messages = own.map(({ item }) => item.bytes);
        return appending(topic, messages, heads.get(topic) as Head);
      });
      const done = await store.commit(changes, { signal, durability: 'none' });
      if (done !== undefined) {
        const { version } = done;
        const next = ([topic, { length }]: [string, readonly unknown[]]) =>
          [topic, { count: (heads.get(topic) as Head).count + length, version }] as const;
        this.#heads = new Map([...byTopic].map(next));
        for (const entry of entries) entry.grant();
        return;
      }
      // Remembered heads may be old: the first repetition reads them, without a pause.
      if (known.size === 0) await pause(clock, random() * pauseMsMax, signal);
      known = new Map();
    }
  }

  /** One timer for all topics, and none while there are none. */
  #arm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    if (this.#topics.size === 0 || this.#polling !== undefined) return;
    const { clock, pollMs } = this.#options;
    if (this.#isBehind) {
      // Without a timer, which would take a millisecond.
      this.#polling = this.#poll();
      return;
    }
    const isWatched = this.#topics.values().every(({ watch }) => watch?.isLive === true);
    this.#timer = clock.after(isWatched ? watchedPolls * pollMs : pollMs, () => {
      this.#polling = this.#poll();
    });
  }

  async #poll(): Promise<void> {
    const { store, clock, deadlineMs } = this.#options;
    this.#isBehind = false;
    try {
      using limit = deadline(clock, deadlineMs, this.#closing.signal);
      const topics = [...this.#topics];
      const heads = topics.map(([topic]) => headName(topic));
      // A notification is mostly of one message: the same read fetches it.
      const told = topics.filter(([, { isTold }]) => isTold);
      const slots = told.map(([topic, { next }]) => slotName(topic, next));
      for (const [, subscription] of told) subscription.isTold = false;
      const { records } = await store.read([...heads, ...slots], limit);
      const early = new Map(told.map(([topic], at) => [topic, records[heads.length + at]]));
      for (const [at, [topic, subscription]] of topics.entries()) {
        const news = { ...headOf(records[at]), early: early.get(topic) };
        await this.#catchUp(topic, subscription, news, limit.signal);
      }
    } catch {
      // The next poll tries again; messages that are lost by then are reported.
      this.#stats.failures += 1;
    }
    this.#polling = undefined;
    this.#arm();
  }

  async #catchUp(
    topic: string,
    subscription: Subscription,
    { count, version, early }: News,
    signal: AbortSignal,
  ): Promise<void> {
    const { next, version: before } = subscription;
    if (count < next || (count === next && version !== before)) {
      subscription.version = version;
      this.#goBack(subscription, count);
    }
    const first = Math.max(subscription.next, count - ringSize);
    if (count <= first) return;
    const slots = Array.from({ length: count - first }, (_, at) => slotName(topic, first + at));
    const isAll = slots.length === 1 && messageIn(early, first) !== undefined;
    const { records } = isAll
      ? { records: [early] }
      : await this.#options.store.read(slots, { signal });
    if (first === next && !follows(records[0], next, before)) this.#goBack(subscription, next);
    let lost = first - subscription.next;
    subscription.next = count;
    subscription.version = version;
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

  /**
   * Reads on from message `next` after the store was emptied or a failover lost commits. Numbers
   * were then given a second time, so that the number of missed messages is unknown.
   */
  #goBack(subscription: Subscription, next: number): void {
    subscription.next = next;
    this.#tell(subscription, (listener) => listener.lost(undefined));
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

/** A slash in a topic is escaped: the head of `a/1` would be the second slot of `a`. */
function headName(topic: string): string {
  return `channel/${topic.replace(/[%/]/g, encodeURIComponent)}`;
}

function slotName(topic: string, number: number): string {
  return `${headName(topic)}/${number % ringSize}`;
}

function headOf(record: StoredRecord | undefined): Head {
  return { count: Number(record?.value ?? 0), version: record?.version ?? 0 };
}

/** Changes that append the messages, unless another process has appended meanwhile. */
function appending(topic: string, messages: readonly Uint8Array[], head: Head): StoreChange[] {
  const texts = messages.map((bytes) => Buffer.from(bytes).toString('base64'));
  const slots = texts.map((text, at) => {
    const number = head.count + at;
    return { name: slotName(topic, number), value: [number, text, head.version], ttlMs: keepMs };
  });
  const value = head.count + messages.length;
  const all = [head.version, ...texts].join(' ');
  // Subscribers read longer ones from the store.
  const news = all.length <= newsLengthMax ? all : undefined;
  return [{ name: headName(topic), ifVersion: head.version, value, news }, ...slots];
}

/** False if the message with this number was appended to a head of another version than that. */
function follows(record: StoredRecord | undefined, number: number, version: number): boolean {
  const [found, , before] = (record?.value ?? []) as readonly [number?, string?, number?];
  return found !== number || before === undefined || before === version;
}

/** The message with this number; undefined if a later one has taken its place, or it expired. */
function messageIn(record: StoredRecord | undefined, number: number): Uint8Array | undefined {
  const [found, text] = (record?.value ?? []) as readonly [number?, string?];
  return found === number && text !== undefined ? Buffer.from(text, 'base64') : undefined;
}
