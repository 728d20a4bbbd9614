import {
  type Clock,
  type CloseOptions,
  type Durability,
  deadline,
  type Json,
  type NamedRecord,
  type Part,
  SpillwayError,
  type Store,
  type StoreApplied,
  type StoreCallOptions,
  type StoreChange,
  type StoreCommit,
  type StoreDecision,
  type StoredRecord,
  type StoreListOptions,
  type StoreReading,
  type StoreWatch,
  systemClock,
} from 'spillway';
import {
  anything,
  Closing,
  check,
  checkStoreChanges,
  checkStoreList,
  checkStoreNames,
  clockRule,
  Deadlines,
  type Filled,
  inDoubt,
  integer,
  jsonText,
  maybe,
  number,
  or,
  SeenTime,
  settle,
  tracedCommit,
  untilAborted,
  word,
} from 'spillway/internal';
import { openLink, type RedisClient, type RedisLink } from './client.ts';
import { CommitGroups, type PendingCommit } from './commit-groups.ts';
import { decisionScripts } from './decisions.ts';
import { examine, type StoreKeys } from './examine.ts';
import { openingError, redisError } from './fault.ts';
import { commitScript, listScript, readScript, type Script } from './scripts.ts';
import { Watcher } from './watcher.ts';

export interface RedisStoreOptions {
  /** The server: `redis://user:password@host:6379/0`, or `rediss://` for TLS. */
  readonly url?: string | undefined;
  /** A connected client instead of an address: node-redis (cluster and Sentinel too), ioredis. */
  readonly client?: RedisClient | undefined;
  /** Stores of different names share nothing; without `{` and `}`. @default 'spillway' */
  readonly name?: string | undefined;
  /** The time that one call may take in all, in milliseconds, from 10. @default 5_000 */
  readonly deadlineMs?: number | undefined;
  /** Commits that may wait, and calls that may be under way. An integer from 1. @default 10_000 */
  readonly queueMax?: number | undefined;
  /** Replicas that must have a commit before it is acknowledged. From 0. @default 0 */
  readonly replicasMin?: number | undefined;
  readonly clock?: Clock | undefined;
}

export interface RedisStoreStats {
  readonly kind: 'redis-store';
  readonly isConnected: boolean;
  readonly durability: Durability;
  /** Commits without an answer so far. */
  readonly waiting: number;
  /** Calls of the commit script that have ended. */
  readonly groups: number;
}

/**
 * A Store on Redis or Valkey. Each call is one script, which is atomic and uses the clock of the
 * server; commits of one turn of the event loop share a call. The README says what a failover
 * loses.
 */
export class RedisStore implements Store, Part {
  readonly name: string;
  /** The durability that the server was configured for when the store was opened. */
  readonly durability: Durability;
  readonly #link: RedisLink;
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #replicasMin: number;
  readonly #commits: CommitGroups;
  readonly #watcher: Watcher;
  readonly #keys: StoreKeys;
  readonly #seen = new SeenTime();
  /** Calls without an answer, including those that were given up. */
  #inFlight = 0;
  /** Calls without an answer that were not given up, the oldest first. */
  readonly #awaited = new Set<AwaitedCall>();
  readonly #deadlines: Deadlines;
  readonly #queueMax: number;
  readonly #closing: Closing;

  private constructor(link: RedisLink, durability: Durability, options: Settings) {
    const { name, clock, deadlineMs, queueMax, replicasMin } = options;
    this.name = name;
    this.durability = replicasMin > 0 ? 'replicas' : durability;
    this.#link = link;
    this.#clock = clock;
    this.#deadlineMs = deadlineMs;
    this.#replicasMin = replicasMin;
    this.#queueMax = queueMax;
    this.#keys = keysOf(name);
    this.#watcher = new Watcher(link, this.#keys.channel);
    this.#commits = new CommitGroups(queueMax, (group) => this.#commitAll(group));
    this.#deadlines = new Deadlines(clock, (now) => this.#expire(now));
    this.#closing = new Closing(clock, (limit) => this.#close(limit));
  }

  /** Rejects within `deadlineMs` if the server cannot be reached or is not suitable. */
  static async open(options: RedisStoreOptions): Promise<RedisStore> {
    const settings = settle('RedisStore', options, {
      url: maybe(word),
      client: maybe(anything),
      name: or(word, 'spillway'),
      deadlineMs: or(number(10, 2 ** 31 - 1), 5_000),
      queueMax: or(integer(1), 10_000),
      replicasMin: or(integer(0), 0),
      clock: or(clockRule, systemClock),
    });
    const { url, client, name, deadlineMs, replicasMin, clock } = settings;
    // The address is left out of the message: there may be a password in it.
    const given = [url && 'url', client && 'client'].filter(Boolean);
    check(given.length === 1, 'url', 'given, or else client', given);
    check(!/[{}]/.test(name), 'name', 'without { and }', name);
    const keys = keysOf(name);
    const place = { url, client, key: keys.state, connectMs: deadlineMs };
    const connecting = openLink({ ...place, replicasMin });
    using limit = deadline(clock, deadlineMs);
    let link: RedisLink | undefined;
    try {
      link = await untilAborted(connecting, limit.signal);
      const durability = await untilAborted(examine(link, keys), limit.signal);
      return new RedisStore(link, durability, settings);
    } catch (error) {
      if (link !== undefined) link.close();
      else connecting.then((late) => late.close()).catch(() => {});
      throw openingError(error);
    }
  }

  get stats(): RedisStoreStats {
    return {
      kind: 'redis-store',
      isConnected: this.#link.isReady,
      durability: this.durability,
      waiting: this.#commits.waiting,
      groups: this.#commits.ended,
    };
  }

  /** True while connected, until `close`; a cluster or a Sentinel always counts as connected. */
  get ready(): boolean {
    return this.#link.isReady && !this.#closing.hasBegun;
  }

  async read(names: readonly string[], { signal }: StoreCallOptions = {}): Promise<StoreReading> {
    checkStoreNames(names);
    const keys = [this.#keys.state, ...names.map((name) => this.#keys.records + name)];
    const touch = this.#replicasMin > 0 ? 'touch' : '';
    const { now, rows } = await this.#ask(readScript, { keys, args: [touch], signal });
    return { now, records: rows.map(recordOf) };
  }

  async list(prefix: string, options: StoreListOptions): Promise<readonly NamedRecord[]> {
    checkStoreList(prefix, options);
    const { max, after = '', signal } = options;
    const { state, names, records } = this.#keys;
    const keys = [state, names];
    const found: NamedRecord[] = [];
    let behind = after;
    do {
      const args = [prefix, String(max - found.length), behind, records];
      const { rows } = await this.#ask(listScript, { keys, args, signal });
      behind = rows[0] as string;
      for (let at = 1; at < rows.length; at += 2) {
        found.push({ name: rows[at] as string, ...(recordOf(rows[at + 1]) as StoredRecord) });
      }
    } while (found.length < max && behind !== '');
    return found;
  }

  apply(
    name: string,
    decision: StoreDecision,
    argument: Json,
    { signal }: StoreCallOptions = {},
  ): Promise<StoreApplied> | undefined {
    checkStoreNames([name]);
    const script = decisionScripts.get(decision.name);
    if (script === undefined) return undefined;
    const { state, names, expiries, records } = this.#keys;
    const keys = [state, names, expiries, records + name];
    const args = [records, jsonText(argument)];
    const answer = this.#ask(script, { keys, args, signal, doubt: true });
    return answer.then(({ now, rows }) => ({ now, answer: JSON.parse(rows[0] as string) as Json }));
  }

  watch(names: readonly string[], changed: () => void): StoreWatch {
    checkStoreNames(names);
    return this.#watcher.watch(names, changed);
  }

  async commit(
    changes: readonly StoreChange[],
    { signal }: StoreCallOptions = {},
  ): Promise<StoreCommit | undefined> {
    signal?.throwIfAborted();
    checkStoreChanges(changes);
    this.#checkOpen();
    const values = changes.map(({ value }) => (value === undefined ? '' : jsonText(value)));
    const add = () => this.#commits.add(changes, values);
    return await untilAborted(tracedCommit('redis', changes.length, add), signal, inDoubt);
  }

  /** Resolves when no call is under way; a client of the caller stays open. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    try {
      await untilAborted(this.#commits.idle(), limit);
    } finally {
      this.#watcher.close();
      this.#link.close();
      if (this.#awaited.size === 0) this.#deadlines.clear();
    }
  }

  /** Makes a group of commits by one call of the script. */
  async #commitAll(group: readonly PendingCommit[]): Promise<void> {
    const { state, names, expiries, records, channel } = this.#keys;
    const keys = [state, names, expiries];
    const args = [records, channel];
    for (const { changes, values } of group) {
      args.push(String(changes.length));
      for (const [at, { name, ifVersion, ttlMs, checkOnly }] of changes.entries()) {
        keys.push(records + name);
        args.push(ifVersion === undefined ? '' : String(ifVersion), values[at] ?? '');
        args.push(checkOnly ? 'check' : String(ttlMs ?? ''));
      }
    }
    const { now, rows } = await this.#send(commitScript, { keys, args, doubt: true });
    for (const [at, { resolve }] of group.entries()) {
      resolve(rows[at] === '' ? undefined : { now, version: Number(rows[at]) });
    }
  }

  async #ask(script: Script, call: Call & { readonly signal?: AbortSignal | undefined }) {
    const { signal } = call;
    signal?.throwIfAborted();
    this.#checkOpen();
    return await untilAborted(this.#send(script, call), signal);
  }

  /** Settles within the deadline; replaces a connection that has not answered by then. */
  #send(script: Script, { keys, args, doubt = false }: Call): Promise<Answer> {
    if (this.#inFlight >= this.#queueMax) {
      throw new SpillwayError('LANE_FULL', `${this.#inFlight} calls of the store are under way`);
    }
    const { now: seen = '', wall: seenWall = '' } = this.#seen;
    const words = [String(keys.length), ...keys, String(seen), String(seenWall), ...args];
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const call = { dueAt: this.#clock.now() + this.#deadlineMs, doubt, reject };
    const end = () => {
      this.#inFlight -= 1;
      this.#awaited.delete(call);
      if (this.#awaited.size === 0 && this.#closing.hasBegun) this.#deadlines.clear();
    };
    const answered = (answer: unknown) => {
      end();
      const [now, wall, ...rows] = answer as [string, string, ...unknown[]];
      this.#seen.note(Number(now), Number(wall));
      resolve({ now: Number(now), rows });
    };
    const failed = (error: unknown) => {
      end();
      reject(redisError(error, { doubt }));
    };
    this.#sendReplicated(['EVALSHA', script.sha, ...words], doubt)
      .catch((error: unknown) => {
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
        return this.#sendReplicated(['EVAL', script.lua, ...words], doubt);
      })
      .then(answered, failed);
    this.#awaited.add(call);
    this.#deadlines.watch(call.dueAt);
    this.#inFlight += 1;
    return promise;
  }

  /** Rejects the calls whose deadline has come, and replaces their connection. */
  #expire(now: number): number {
    for (const call of this.#awaited) {
      const { dueAt, doubt, reject } = call;
      if (dueAt > now) return dueAt;
      this.#awaited.delete(call);
      this.#link.reset();
      const late = new SpillwayError('DEADLINE', `not done within ${this.#deadlineMs} ms`);
      reject(doubt ? inDoubt(late) : late);
    }
    return Infinity;
  }

  /** Sends a command, and waits until the replicas have what it wrote. */
  #sendReplicated(command: readonly string[], doubt: boolean): Promise<unknown> {
    const answer = this.#link.send(command);
    return this.#replicasMin === 0 ? answer : this.#untilReplicated(answer, doubt);
  }

  async #untilReplicated(answer: Promise<unknown>, doubt: boolean): Promise<unknown> {
    const wait = ['WAIT', String(this.#replicasMin), String(Math.ceil(0.8 * this.#deadlineMs))];
    if (!this.#link.isOneServer) await answer;
    const [done, count] = await Promise.allSettled([answer, this.#link.send(wait)]);
    if (done.status === 'rejected') throw done.reason;
    if (count.status === 'fulfilled' && Number(count.value) >= this.#replicasMin) {
      return done.value;
    }
    const message = `redis: fewer than ${this.#replicasMin} replicas have confirmed it`;
    const error = new SpillwayError('DATABASE_LOST', message);
    throw doubt ? inDoubt(error) : error;
  }

  #checkOpen(): void {
    if (this.#closing.hasBegun) throw new SpillwayError('DATABASE_CLOSED', 'the store is closed');
  }
}

type Settings = Filled<
  Pick<RedisStoreOptions, 'name' | 'clock' | 'deadlineMs' | 'queueMax' | 'replicasMin'>
>;

interface Call {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly doubt?: boolean;
}

interface AwaitedCall {
  readonly dueAt: number;
  readonly doubt: boolean;
  readonly reject: (reason: unknown) => void;
}

interface Answer {
  readonly now: number;
  readonly rows: readonly unknown[];
}

/** Parses a record in the format of the scripts: version, expiry or nothing, value. */
function recordOf(row: unknown): StoredRecord | undefined {
  if (typeof row !== 'string') return undefined;
  const first = row.indexOf(' ');
  const second = row.indexOf(' ', first + 1);
  const expires = row.slice(first + 1, second);
  const expiresAt = expires === '' ? undefined : Number(expires);
  const value = JSON.parse(row.slice(second + 1));
  return { value, version: Number(row.slice(0, first)), expiresAt };
}

function keysOf(name: string): StoreKeys {
  // The braces keep all keys of a store on one server of a cluster.
  const tag = `{${name}}`;
  return {
    state: `${tag}.state`,
    names: `${tag}.names`,
    expiries: `${tag}.expiries`,
    records: `${tag}:`,
    channel: `${tag}.changed`,
  };
}
