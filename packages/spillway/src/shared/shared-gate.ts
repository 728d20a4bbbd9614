import { leaveOnAbort, releaseAfter, untilAborted } from '../base/abort.ts';
import { eitherSignal } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { integer, number, or, settle } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import type { StoreWatch } from '../store/store.ts';
import { entering, WaitQueue } from '../wait/wait-queue.ts';
import {
  decideGate,
  gateRecord,
  Membership,
  partyRecord,
  type SharedGateStats,
  type SharedPermit,
} from './gate-record.ts';
import {
  margin,
  type SharedOptions,
  StoreLink,
  sharedRules,
  type TimedReading,
  watchedPolls,
} from './store-link.ts';

export interface SharedGateOptions extends SharedOptions {
  /** Callers inside at once, in all processes together. An integer from 1. */
  readonly limit: number;
  /** Callers of this process that may wait; one more is refused. An integer from 0. */
  readonly queueMax: number;
  /** Time after which the permits of a crashed process are free, in ms; from 30. @default 10_000 */
  readonly ttlMs?: number | undefined;
  /**
   * The longest time between two looks at a gate that is full, in ms, from 1; twenty times as long
   * if the store has `watch`. A process keeps an idle permit for that time, too. @default 100
   */
  readonly pollMs?: number | undefined;
}

/**
 * A gate for all processes together. Each process claims the permits that its callers need in one
 * visit to the store, passes them on among its own callers, and gives back what others need more.
 * Permits of a process that crashed are free after `ttlMs`. Without the store nobody new gets in.
 */
export class SharedGate implements Part, Runner, AsyncDisposable {
  readonly name: string;
  readonly #limit: number;
  readonly #queueMax: number;
  readonly #ttlMs: number;
  readonly #pollMs: number;
  readonly #link: StoreLink;
  readonly #queue = new WaitQueue<SharedPermit>();
  readonly #closing: Closing;
  #member: Membership;
  #others: readonly string[] = [];
  #watch: StoreWatch | undefined;
  #timer: Disposable | undefined;
  #visiting: Promise<void> | undefined;
  #dueAt = Infinity;
  #expiry: Disposable | undefined;
  /** True if the record has changed since the visit under way began. */
  #hasChanged = false;
  /** Permits that `tryEnter` found missing. */
  #wishes = 0;
  #isClosed = false;
  #idleSince = -Infinity;
  #idled: (() => void) | undefined;
  #trips = 0;
  #refused = 0;
  #lost = 0;
  #isReachable = true;

  constructor(options: SharedGateOptions) {
    const settled = settle('SharedGate', options, {
      ...sharedRules,
      limit: integer(1),
      queueMax: integer(0),
      ttlMs: or(number(30, 2 ** 31), 10_000),
      pollMs: or(number(1, 60_000), 100),
    });
    this.name = settled.name;
    this.#limit = settled.limit;
    this.#queueMax = settled.queueMax;
    this.#ttlMs = settled.ttlMs;
    this.#pollMs = settled.pollMs;
    // A visit that is not answered must leave time for another before the claims are lost.
    const deadlineMs = Math.min(settled.deadlineMs, settled.ttlMs / 3);
    this.#link = new StoreLink({ ...options, deadlineMs });
    this.#member = new Membership(this.#link.newId());
    this.#closing = new Closing(this.#link.clock, (limit) => this.#close(limit));
  }

  get stats(): SharedGateStats {
    const { inside, held } = this.#member;
    return {
      kind: 'shared-gate',
      name: this.name,
      limit: this.#limit,
      inside,
      waiting: this.#queue.size,
      held,
      trips: this.#trips,
      refused: this.#refused,
      lost: this.#lost,
      reachable: this.#isReachable,
    };
  }

  /** True while the store answers, until `close`. */
  get ready(): boolean {
    return this.#isReachable && !this.#closing.hasBegun;
  }

  /**
   * Gives a permit: at once if this process has one to spare, or by a promise that rejects with the
   * signal's reason. A refusal at the door (`GATE_FULL`, `GATE_CLOSED`) is thrown.
   */
  enter({ signal }: RunOptions = {}): SharedPermit | Promise<SharedPermit> {
    if (signal?.aborted) throw signal.reason;
    const permit = this.#enterNow();
    if (permit !== undefined) return permit;
    if (this.#queue.size >= this.#queueMax) {
      this.#refused += 1;
      const message = `${this.name}: ${this.#queue.size} waiting: the gate is full`;
      throw new SpillwayError('GATE_FULL', message);
    }
    const isFirst = this.#queue.size === 0;
    const waiting = this.#queue.wait(signal);
    // Later waiters need no visit of their own: one is under way or set.
    if (isFirst) this.#lookSoon();
    return waiting;
  }

  /** Gives a permit that this process has to spare, else undefined, and claims one for later. */
  tryEnter(): SharedPermit | undefined {
    const permit = this.#enterNow();
    if (permit === undefined && this.#queue.size === 0) {
      this.#wishes = 1;
      this.#lookSoon();
    }
    return permit;
  }

  #enterNow(): SharedPermit | undefined {
    if (this.#closing.hasBegun) throw closed(this.name);
    this.#checkLife();
    return this.#queue.size === 0 && this.#hasFree() ? this.#take() : undefined;
  }

  /**
   * Runs the task inside, with a signal that aborts when the permit is lost, or with the caller's.
   * The permit is held until the task has really ended.
   */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    const permit = await entering(this, { signal });
    const both = signal === undefined ? permit.signal : eitherSignal(signal, permit.signal);
    const held = async () => {
      try {
        both.throwIfAborted();
        return await task(both);
      } finally {
        releaseAfter(permit, both);
      }
    };
    return await leaveOnAbort(held(), both, signal);
  }

  /** Refuses all who wait, lets those inside finish, and gives the permits back. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    this.#queue.refuseAll(closed(this.name));
    try {
      if (this.#member.inside > 0) {
        const idle = Promise.withResolvers<void>();
        this.#idled = idle.resolve;
        await untilAborted(idle.promise, limit);
      }
      this.#isClosed = true;
      await untilAborted(this.#visiting ?? Promise.resolve(), limit);
      this.#idleSince = -Infinity;
      this.#wishes = 0;
      if (this.#member.isJoined || this.#member.isInDoubt) await untilAborted(this.#look(), limit);
    } finally {
      // Permits of tasks that go on are not renewed any more, and lost in the end.
      this.#isClosed = true;
      this.#disarm();
      if (this.#member.inside === 0) this.#expiry?.[Symbol.dispose]();
      this.#watch?.[Symbol.dispose]();
    }
  }

  #hasFree(): boolean {
    const { inside, held, share } = this.#member;
    return inside < Math.min(held, share);
  }

  #take(): SharedPermit {
    const member = this.#member;
    member.inside += 1;
    let isHeld = true;
    return {
      signal: member.end.signal,
      [Symbol.dispose]: () => {
        if (isHeld) this.#leave(member);
        isHeld = false;
      },
    };
  }

  #leave(member: Membership): void {
    member.inside -= 1;
    if (member !== this.#member) return;
    this.#idleSince = this.#link.clock.now();
    this.#dispatch();
    if (member.inside === 0) this.#idled?.();
    if (this.#isClosed && member.inside === 0) this.#expiry?.[Symbol.dispose]();
    if (member.inside < member.held) this.#arm();
  }

  /** Passes permits straight to the oldest waiters. */
  #dispatch(): void {
    this.#checkLife();
    while (this.#queue.size > 0 && this.#hasFree()) this.#queue.wake(this.#take());
  }

  /** Notices a lost membership even if this process was stopped and its timers are late. */
  #checkLife(): void {
    if (this.#link.clock.now() >= this.#member.until) this.#lose();
  }

  #lose(): void {
    const before = this.#member;
    this.#expiry?.[Symbol.dispose]();
    this.#member = new Membership(this.#link.newId());
    this.#lost += before.held > 0 ? 1 : 0;
    before.end.abort(new SpillwayError('GATE_LOST', `${this.name}: not renewed in time`));
    this.#idled?.();
    if (this.#queue.size > 0) this.#lookSoon();
  }

  #lookSoon(): void {
    if (this.#visiting === undefined && !this.#isClosed) void this.#look();
  }

  /** Visits the store, one visit at a time; never rejects. */
  #look(): Promise<void> {
    this.#visiting ??= this.#visit().finally(() => {
      this.#visiting = undefined;
      this.#dispatch();
      if (this.#isClosed) return;
      this.#disarm();
      const { held, demand } = this.#member;
      // Callers came meanwhile, and there may be permits for them.
      const isBehind = held === demand && demand < Math.min(this.#limit, this.#needed());
      const looksAgain = isBehind || (this.#hasChanged && this.#queue.size > 0);
      if (looksAgain && this.#isReachable) void this.#look();
      else this.#arm();
    });
    return this.#visiting;
  }

  async #visit(): Promise<void> {
    const member = this.#member;
    const known = this.#others;
    const ownRecord = (id: string) => partyRecord(this.name, id);
    const names = [gateRecord(this.name), ...[member.id, ...known].map(ownRecord)];
    this.#trips += 1;
    this.#hasChanged = false;
    try {
      const decide = (seen: TimedReading) => this.#decide(member, known, seen);
      const { value, done } = await this.#link.update(names, decide);
      this.#isReachable = true;
      if (member !== this.#member) return;
      if (value.isLost) return this.#lose();
      member.held = value.held;
      member.demand = value.demand;
      member.share = value.share;
      // Crashed processes matter only to one that lacks permits.
      this.#others = value.held < value.demand ? value.others : [];
      if (this.#wishes > 0) this.#idleSince = this.#link.clock.now();
      this.#wishes = 0;
      if (done !== undefined) this.#confirm(member, value.isMember, done.sentAt);
    } catch (error) {
      this.#isReachable = false;
      this.#queue.refuseAll(error);
    }
  }

  /** The claims were confirmed by what was sent at that time. */
  #confirm(member: Membership, isJoined: boolean, sentAt: number): void {
    member.isInDoubt = false;
    member.isJoined = isJoined;
    member.renewedAt = sentAt;
    member.until = isJoined ? sentAt + this.#ttlMs * (1 - margin) : Infinity;
    this.#expiry?.[Symbol.dispose]();
    if (!isJoined) return;
    const { clock } = this.#link;
    this.#expiry = clock.after(Math.max(0, member.until - clock.now()), () => this.#lose());
  }

  #decide(member: Membership, known: readonly string[], seen: TimedReading) {
    const { id, inside, isJoined, isInDoubt } = member;
    const decision = decideGate(
      {
        name: this.name,
        id,
        limit: this.#limit,
        ttlMs: this.#ttlMs,
        inside,
        demand: this.#demand(member),
        isMember: isJoined,
        renews: isInDoubt || seen.sentAt >= member.renewedAt + this.#ttlMs / 3,
        known,
      },
      seen,
    );
    // Permits that are about to be given back are not used any more.
    member.held = Math.min(member.held, decision.value.held);
    if (decision.changes !== undefined) member.isInDoubt = true;
    return decision;
  }

  /** The permits that callers use or wait for, and idle ones that are kept for a moment. */
  #demand({ inside, held }: Membership): number {
    const needed = inside + this.#queue.size + this.#wishes;
    const isKept = this.#link.clock.now() < this.#idleSince + this.#pollMs;
    return isKept ? Math.max(held, needed) : needed;
  }

  #needed(): number {
    return this.#member.inside + this.#queue.size;
  }

  /** Sets the time of the next visit, if one is needed, unless an earlier one is set. */
  #arm(): void {
    const { isJoined, isInDoubt } = this.#member;
    if (this.#isClosed || this.#visiting !== undefined) return;
    if (!(isJoined || isInDoubt || this.#queue.size > 0)) {
      this.#watch?.[Symbol.dispose]();
      this.#watch = undefined;
      return;
    }
    if (this.#queue.size > 0) {
      this.#watch ??= this.#link.watch([gateRecord(this.name)], this.#change);
    }
    const now = this.#link.clock.now();
    const ms = this.#msUntilVisit(now);
    if (now + ms >= this.#dueAt) return;
    this.#disarm();
    this.#dueAt = now + ms;
    this.#timer = this.#link.clock.after(ms, () => {
      this.#disarm();
      if (this.#isDue()) this.#lookSoon();
      else this.#arm();
    });
  }

  #disarm(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    this.#dueAt = Infinity;
  }

  #msUntilVisit(now: number): number {
    const { inside, held, share, demand, renewedAt } = this.#member;
    if (!this.#isReachable) return this.#link.jitter(Math.min(this.#pollMs, this.#ttlMs / 12));
    // Other processes need the permits that are idle here.
    if (inside < held && held > share) return 0;
    const renewMs = Math.max(0, renewedAt + this.#ttlMs / 3 - now);
    const pollMs = this.#watch?.isLive ? watchedPolls * this.#pollMs : this.#pollMs;
    if (this.#queue.size > 0) return Math.min(renewMs, this.#link.jitter(pollMs));
    return demand > this.#needed() ? Math.min(renewMs, this.#pollMs) : renewMs;
  }

  /** False if the idle permits were used since the timer was set: then they are kept. */
  #isDue(): boolean {
    const { inside, held, share, demand, renewedAt, isInDoubt } = this.#member;
    if (this.#queue.size > 0 || isInDoubt || !this.#isReachable) return true;
    const isOld = this.#link.clock.now() >= renewedAt + this.#ttlMs / 3;
    return isOld || demand > this.#demand(this.#member) || (inside < held && held > share);
  }

  readonly #change = (): void => {
    this.#hasChanged = true;
    if (this.#queue.size > 0) this.#lookSoon();
  };
}

function closed(name: string): SpillwayError {
  return new SpillwayError('GATE_CLOSED', `${name}: the gate is closed`);
}
