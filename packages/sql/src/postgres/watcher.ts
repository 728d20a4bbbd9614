import { createHash } from 'node:crypto';
import type pg from 'pg';
import { deadline, type StoreNews, type StoreWatch } from 'spillway';
import { pause, untilAborted, Watchers } from 'spillway/internal';
import type { PostgresEngine } from './engine.ts';
import { notifyPrefix } from './store-schema.ts';

/** The time before the next attempt to connect, in milliseconds. */
const pauseMs = 500;
/** The time between two queries that find out whether the server still answers, in ms. */
const checkMs = 15_000;

/**
 * Listens for changes of records on one connection of its own, which is opened with the first watch
 * and replaced when it breaks. All watchers are called then, since they may have missed a change.
 */
export class PostgresWatcher {
  readonly #engine: PostgresEngine;
  /** The callbacks, by channel. */
  readonly #watchers = new Watchers();
  /** The channels whose `LISTEN` the server has confirmed. */
  readonly #heard = new Set<string>();
  readonly #closing = new AbortController();
  /** Aborts when the watcher or the engine is closed. */
  readonly #closed: AbortSignal;
  #client: pg.Client | undefined;
  #listening: Promise<void> | undefined;
  /** Settles when the last query on the connection has ended. */
  #lastQuery: Promise<unknown> = Promise.resolve();

  constructor(engine: PostgresEngine) {
    this.#engine = engine;
    this.#closed = AbortSignal.any([engine.closing, this.#closing.signal]);
  }

  watch(names: readonly string[], changed: (news?: StoreNews) => void): StoreWatch {
    const channels = names.map(channelOf);
    const remove = this.#watchers.add(channels, changed);
    for (const channel of channels) void this.#listenTo(channel);
    if (!this.#closed.aborted) this.#listening ??= this.#run();
    const isLive = () => channels.every((channel) => this.#heard.has(channel));
    return {
      get isLive() {
        return isLive();
      },
      [Symbol.dispose]: () => {
        remove();
        for (const channel of channels) this.#unlisten(channel);
      },
    };
  }

  /** Stops listening; the engine stays open. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#watchers.clear();
    await this.#listening;
  }

  #unlisten(channel: string): void {
    if (this.#watchers.has(channel) || !this.#heard.delete(channel)) return;
    if (this.#client === undefined) return;
    void this.#query(this.#client, `unlisten ${channel}`).catch(() => {});
  }

  /** Runs queries one after the other: a client of `pg` takes no second one meanwhile. */
  #query(client: pg.Client, sql: string): Promise<unknown> {
    const answer = this.#lastQuery.then(() => client.query(sql));
    this.#lastQuery = answer.catch(() => {});
    return answer;
  }

  /** Listens to a channel, then calls its watchers: earlier changes may have been missed. */
  async #listenTo(channel: string): Promise<void> {
    if (this.#client === undefined || this.#heard.has(channel)) return;
    try {
      await this.#query(this.#client, `listen ${channel}`);
      if (!this.#watchers.has(channel)) return;
      this.#heard.add(channel);
      this.#watchers.tell(channel);
    } catch {
      // The connection is broken: the next one listens to all channels again.
    }
  }

  async #listenToAll(): Promise<void> {
    for (const channel of this.#watchers.names()) await this.#listenTo(channel);
  }

  readonly #hear = ({ channel, payload = '' }: pg.Notification): void => {
    const at = payload.indexOf(' ');
    const news = { version: Number(payload.slice(0, at)), text: payload.slice(at + 1) };
    this.#watchers.tell(channel, at < 0 ? undefined : news);
  };

  /** Keeps one connection listening, and opens another when it breaks. */
  async #run(): Promise<void> {
    const signal = this.#closed;
    while (!signal.aborted) {
      try {
        const client = await this.#engine.connect(this.#engine.listenUrl);
        try {
          client.on('notification', this.#hear);
          this.#client = client;
          // Not awaited: `#untilBroken` notices a server that never answers, and then these fail.
          void this.#listenToAll();
          await this.#untilBroken(client);
        } finally {
          this.#client = undefined;
          this.#heard.clear();
          client.off('notification', this.#hear);
          await this.#engine.end(client);
        }
      } catch {
        // Tried again while the store is open; `isLive` is false meanwhile, and callers poll.
      }
      await pause(this.#engine.clock, pauseMs, signal).catch(() => {});
    }
  }

  /** Returns when the connection has ended, no longer answers, or is not needed. */
  async #untilBroken(client: pg.Client): Promise<void> {
    const { clock, deadlineMs } = this.#engine;
    const ended = new AbortController();
    client.once('end', () => ended.abort());
    const stop = AbortSignal.any([this.#closed, ended.signal]);
    while (!stop.aborted) {
      await pause(clock, checkMs, stop).catch(() => {});
      if (stop.aborted) return;
      using limit = deadline(clock, Math.min(deadlineMs, checkMs), stop);
      try {
        await untilAborted(this.#query(client, 'select 1'), limit.signal);
      } catch {
        client.connection.stream.destroy();
        return;
      }
    }
  }
}

/** A hash, since channel names have at most 63 bytes; the commit function uses `md5`, too. */
function channelOf(name: string): string {
  return `${notifyPrefix}${createHash('md5').update(name).digest('hex')}`;
}
