import assert from 'node:assert/strict';
import type pg from 'pg';
import { deadline } from 'spillway';
import { untilAborted } from 'spillway/internal';
import { migrate } from '../migrate.ts';
import { channelMigrations, notifyName, notifySql, parkSql, unparkSql } from './channel-schema.ts';
import type { PostgresEngine } from './engine.ts';

/** The callbacks of a subscriber. */
export interface PostgresChannelListener {
  /** Called for each message, in the order in which they were committed. */
  message(bytes: Uint8Array): void;
  /** Messages were lost for this subscriber: how many, or undefined when nobody can know. */
  lost(count: number | undefined): void;
}

export interface PostgresChannelStats {
  readonly listening: boolean;
  readonly published: number;
  readonly received: number;
  /** Messages that could be counted as lost; those of a broken connection cannot. */
  readonly lost: number;
  /** How many times the listening connection had to be opened again, or could not be. */
  readonly reconnects: number;
}

/** A notification holds less than 8,000 bytes; what is longer in base64 is parked in a table. */
const inlineMax = 7_500;
const bytesMax = 16 * 2 ** 20;
const topicMax = 200;
const topicsMax = 1_000;
/** How many notifications may wait for parked ones before them. */
const queueMax = 10_000;
/** How long to wait before connecting again, and how often to see whether the server is there. */
const pauseMs = 500;
const checkMs = 15_000;

/**
 * Carries messages between processes by `NOTIFY`, within a millisecond or two and without polling:
 * a `Channel` for a WebSocketHub. While the connection is broken messages are lost, which
 * subscribers are told once it is back.
 */
export class PostgresChannel implements AsyncDisposable {
  readonly #engine: PostgresEngine;
  readonly #topics = new Map<string, Set<PostgresChannelListener>>();
  /** Notifications in order; one is handled at a time, since parked ones have to be fetched. */
  readonly #queue: string[] = [];
  readonly #stats = { published: 0, received: 0, lost: 0, reconnects: 0 };
  readonly #closing = new AbortController();
  #skipped = 0;
  #handling: Promise<void> | undefined;
  #listening: Promise<void> | undefined;
  #ready = Promise.withResolvers<void>();
  #isReady = false;

  /** The table must be there already: {@link PostgresChannel.open} sees to that. */
  constructor(engine: PostgresEngine) {
    this.#engine = engine;
  }

  /** Makes the table if it is not there; whoever opened the engine closes it. */
  static async open(engine: PostgresEngine, signal?: AbortSignal): Promise<PostgresChannel> {
    const target = { engine, kind: 'postgres', table: 'spillway_channel_migrations' } as const;
    await migrate(target, channelMigrations, signal);
    return new PostgresChannel(engine);
  }

  get stats(): PostgresChannelStats {
    return { listening: this.#isReady, ...this.#stats };
  }

  /** Resolves when the message is committed; it has gone to everybody who listens. */
  async publish(topic: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    checkTopic(topic);
    const { byteLength } = bytes;
    assert(byteLength <= bytesMax, `bytes: must be at most ${bytesMax}, got ${byteLength}`);
    this.#closing.signal.throwIfAborted();
    const text = `${topic}\n=${Buffer.from(bytes).toString('base64')}`;
    const isShort = Buffer.byteLength(text) <= inlineMax;
    const values = isShort ? [text] : [`${topic}\n#`, Buffer.from(bytes)];
    const session = await this.#engine.session(signal);
    try {
      await session.query(isShort ? notifySql : parkSql, values, { commits: true });
    } finally {
      session.close();
    }
    this.#stats.published += 1;
  }

  /** Once it resolves, every later message is heard or told to be lost. */
  async subscribe(
    topic: string,
    listener: PostgresChannelListener,
    signal?: AbortSignal,
  ): Promise<Disposable> {
    checkTopic(topic);
    assert(this.#topics.size < topicsMax, `topic: must be one of at most ${topicsMax}`);
    this.#closing.signal.throwIfAborted();
    using limit = deadline(this.#engine.clock, this.#engine.deadlineMs, signal);
    this.#listening ??= this.#listen();
    await untilAborted(this.#ready.promise, limit.signal);
    // One object for each call: a listener may be given twice.
    const own: PostgresChannelListener = {
      message: (bytes) => listener.message(bytes),
      lost: (count) => listener.lost(count),
    };
    const listeners = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, listeners.add(own));
    return {
      [Symbol.dispose]: () => {
        listeners.delete(own);
        if (listeners.size === 0 && this.#topics.get(topic) === listeners) {
          this.#topics.delete(topic);
        }
      },
    };
  }

  /** Hears no more; the engine stays open. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('the channel is closed'));
    this.#ready.promise.catch(() => {});
    this.#ready.reject(this.#closing.signal.reason);
    this.#topics.clear();
    await this.#listening;
    await this.#handling;
  }

  /** Keeps one connection listening, and opens another when it breaks. */
  async #listen(): Promise<void> {
    let isFirst = true;
    while (!this.#closing.signal.aborted) {
      try {
        const client = await this.#engine.connect();
        try {
          client.on('notification', this.#hear);
          await client.query(`listen ${notifyName}`);
          this.#isReady = true;
          this.#ready.resolve();
          // Told only now, so that whoever reads anew misses nothing that comes after.
          if (!isFirst) this.#tellAll();
          isFirst = false;
          await this.#untilBroken(client);
        } finally {
          client.off('notification', this.#hear);
          await client.end().catch(() => {});
        }
      } catch {
        // It is tried again for as long as the channel is open; `reconnects` tells of it.
      }
      if (this.#isReady) this.#ready = Promise.withResolvers<void>();
      this.#isReady = false;
      if (this.#closing.signal.aborted) return;
      this.#stats.reconnects += 1;
      await this.#pause(pauseMs);
    }
  }

  /** Returns when the connection has ended, does not answer any more, or is not needed. */
  async #untilBroken(client: pg.Client): Promise<void> {
    const { clock, deadlineMs } = this.#engine;
    const ended = new AbortController();
    client.once('end', () => ended.abort());
    const { signal } = this.#closing;
    const stop = AbortSignal.any([signal, ended.signal]);
    while (!stop.aborted) {
      await this.#pause(checkMs, stop);
      if (stop.aborted) return;
      using limit = deadline(clock, Math.min(deadlineMs, checkMs), stop);
      try {
        await untilAborted(client.query('select 1'), limit.signal);
      } catch {
        client.connection.stream.destroy();
        return;
      }
    }
  }

  #pause(ms: number, signal: AbortSignal = this.#closing.signal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = (): void => {
      timer[Symbol.dispose]();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = this.#engine.clock.after(ms, end);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
    return promise;
  }

  readonly #hear = ({ payload = '' }: pg.Notification): void => {
    if (!this.#topics.has(topicOf(payload))) return;
    if (this.#queue.length < queueMax) this.#queue.push(payload);
    else this.#skipped += 1;
    this.#handling ??= this.#handleAll();
  };

  async #handleAll(): Promise<void> {
    // Many notifications come in one piece; and what says that it runs must be set before it ends.
    await undefined;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      const topic = topicOf(next);
      const content = next.slice(topic.length + 2);
      const isParked = next[topic.length + 1] === '#';
      const bytes = isParked ? await this.#unpark(content) : Buffer.from(content, 'base64');
      if (bytes === undefined) this.#stats.lost += 1;
      else this.#stats.received += 1;
      this.#tell(topic, (listener) => {
        if (bytes === undefined) listener.lost(1);
        else listener.message(bytes);
      });
    }
    this.#handling = undefined;
    if (this.#skipped === 0) return;
    this.#stats.lost += this.#skipped;
    this.#skipped = 0;
    this.#tellAll();
  }

  async #unpark(id: string): Promise<Buffer | undefined> {
    try {
      const session = await this.#engine.session(this.#closing.signal);
      try {
        return (await session.query(unparkSql, [id], { commits: false })).rows[0]?.payload;
      } finally {
        session.close();
      }
    } catch {
      return undefined;
    }
  }

  #tellAll(): void {
    for (const topic of this.#topics.keys()) this.#tell(topic, (one) => one.lost(undefined));
  }

  #tell(topic: string, call: (listener: PostgresChannelListener) => void): void {
    for (const listener of this.#topics.get(topic) ?? []) {
      try {
        call(listener);
      } catch {
        // A listener's own mistake must not keep the others from hearing.
      }
    }
  }
}

function topicOf(payload: string): string {
  return payload.slice(0, payload.indexOf('\n'));
}

function checkTopic(topic: string): void {
  const holds = /^[^\n\0]+$/.test(topic) && topic.length <= topicMax;
  assert(holds, `topic: must be 1 to ${topicMax} characters without line ends, got ${topic}`);
}
