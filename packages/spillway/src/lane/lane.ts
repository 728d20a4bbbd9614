import { leaveOnAbort, untilAborted } from '../base/abort.ts';
import { check, checkInteger } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { ownSignal } from '../base/deadline.ts';
import type { SpillwayError } from '../base/errors.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Task } from '../base/task.ts';
import { tellRefusal } from '../base/tell.ts';
import { Meter, type Refusal } from '../meter/meter.ts';
import { isTurnTaken, mayGrant, takeTurn } from '../wait/turn-budget.ts';
import { entering } from '../wait/wait-queue.ts';
import { Dispatcher, LoopTime, type Server } from './dispatcher.ts';
import {
  type LaneOptions,
  type LaneRefusal,
  type LaneStats,
  laneRefusal,
  limitMaxOf,
  settleLane,
} from './options.ts';
import { Pace } from './pace.ts';
import {
  checkEntry,
  type Entry,
  goneBy,
  holdDuring,
  LanePermit,
  type MaybePermit,
  type Permit,
  type PermitGiver,
  signalFor,
} from './permit.ts';
import { Permits } from './permits.ts';
import { LaneQueue } from './queue.ts';

type LaneServer = Server & { readonly lane: Lane };
const plainEntry: Entry = {};

/**
 * Enters a lane as `enter` does, but gives a permit with a `refusal` where that would throw. V8
 * never compiles a function that always throws: an overloaded server spent a sixth of its time in
 * such functions (2026-11).
 */
export let admit: (lane: Pick<Lane, 'enter'>, entry: Entry) => MaybePermit | Promise<Permit>;

/**
 * A class of work: its permits, its bounded queue, its deadline and its numbers. Lanes nest: a lane
 * with a `parent` borrows the parent's permits, never past its own limit, and nobody else can take
 * the permits that are guaranteed to it.
 */
export class Lane implements Part, AsyncDisposable {
  readonly name: string;
  /** The lane that this one is inside of. */
  readonly parent: Lane | undefined;
  /** Milliseconds from arrival to the end of the work. */
  readonly deadlineMs: number;
  readonly #clock: Clock;
  /** Finds how much of the limit its own callers may use, unless that is fixed. */
  readonly #pace: Pace | undefined;
  #limitMax: number;
  readonly #queueMax: number;
  readonly #permits: Permits<LaneServer>;
  /** Shared by all lanes of the tree. */
  readonly #dispatcher: Dispatcher;
  readonly #giver: PermitGiver;
  readonly #meter: Meter;
  readonly #queue: LaneQueue;
  readonly #loopTime = new LoopTime();
  readonly #onRefuse: LaneOptions['onRefuse'];
  readonly #closing: Closing;
  #isClosed = false;
  readonly #empty: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  static {
    admit = (lane, entry) => (#permits in lane ? lane.#admit(entry) : entering(lane, entry));
  }

  constructor(options: LaneOptions) {
    const settled = settleLane(options, (lane) => #permits in lane);
    const { parent, limit, guaranteed, deadlineMs, waitMsMax, codel, random } = settled;
    const above = parent === undefined ? undefined : parent.#permits;
    const promised = above === undefined ? guaranteed === 0 : above.canPromise(guaranteed);
    check(promised, 'guaranteed', 'permits that the parent has not promised yet', guaranteed);
    this.name = options.name;
    this.parent = parent;
    const clock = options.clock ?? (parent === undefined ? systemClock : parent.#clock);
    this.#clock = clock;
    this.deadlineMs = deadlineMs;
    if (typeof limit === 'number') this.#pace = new Pace(limit, deadlineMs);
    this.#limitMax = limitMaxOf(limit);
    this.#queueMax = options.queueMax;
    const rule = typeof limit === 'object' && 'size' in limit ? limit : undefined;
    const sizes = { limit: rule, sizeMax: this.#limitMax, guaranteed, parent: above };
    const server: LaneServer = {
      lane: this,
      nextWeight: this.#nextWeight,
      keepTurn: this.#keepTurn,
      serveNext: this.#serveNext,
      trimAll: this.#trimAll,
      refuseMisfits: this.#refuseMisfits,
    };
    this.#permits = new Permits(server, sizes);
    this.#dispatcher = parent ? parent.#dispatcher : new Dispatcher(clock, this.#permits);
    this.#meter = new Meter(clock.now());
    const ways = { leave: this.#leave, abandon: this.#abandon };
    this.#giver = { name: this.name, clock, deadlineMs, ...ways };
    this.#queue = new LaneQueue({ clock, waitMsMax, codel, random, onDue: this.#expire });
    this.#onRefuse = settled.onRefuse;
    this.#closing = new Closing(clock, (limit) =>
      untilAborted(this.#empty.promise, limit).catch(() => this.#refuseAll('closed')),
    );
    if (guaranteed > 0) {
      this.#dispatcher.root.owner.refuseMisfits();
      // Those behind a waiter that was refused may fit.
      this.#dispatcher.dispatch(clock.now());
    }
    if (parent !== undefined && !parent.ready) void this.close();
  }

  get stats(): LaneStats {
    return {
      kind: 'lane',
      name: this.name,
      parent: this.parent?.name,
      limit: Math.min(this.#permits.size, this.#pace?.size ?? Infinity),
      inside: this.#permits.inside,
      waiting: this.#queue.size,
      ...this.#meter.stats(this.#clock.now()),
      lanes: this.#permits.children.map((child) => child.owner.lane.stats),
    };
  }

  /** False once the lane is closing. */
  get ready(): boolean {
    return !this.#isClosed;
  }

  /**
   * Gives a permit: at once if one is free, or by a promise that rejects at the deadline, with the
   * signal's reason, or when the lane sends the waiter away. A refusal at the door is thrown.
   */
  enter(entry: Entry = plainEntry): Permit | Promise<Permit> {
    const permit = this.#admit(entry);
    if (permit instanceof Promise || permit.refusal === undefined) return permit;
    throw permit.refusal;
  }

  #admit(entry: Entry): LanePermit | Promise<Permit> {
    const refusal = this.#arrive(entry);
    const now = this.#clock.now();
    const permit = new LanePermit(this.#giver, entry, now);
    if (refusal !== undefined) return this.#turnAway(permit, refusal);
    const isTry = this.#pace?.mayTry(permit, now) === true;
    // Within the budget of a turn, as a caller who only tries cannot be put off to the next.
    const isTurn = !(this.#loopTime.isLong && isTurnTaken());
    const isNext = (isTry || this.#dispatcher.waiting === 0) && isTurn && (mayGrant(now) || isTry);
    if (isNext && this.#tryBegin(permit, now)) return permit;
    if (!this.#canWait(permit, now)) return this.#turnAway(permit, 'late');
    if (isNext && this.#waitersMax() === 0) return this.#turnAway(permit, 'full');
    this.#join(permit, now, false);
    if (permit.ring !== undefined) permit.listen();
    return permit.ring === undefined ? permit : permit.wait();
  }

  /** Gives a permit at once, or none; nobody who waits is overtaken. */
  tryEnter(entry: Entry = plainEntry): Permit | undefined {
    const refusal = this.#arrive(entry);
    if (refusal !== undefined) {
      this.#meter.refuse(refusal);
      return undefined;
    }
    const now = this.#clock.now();
    const permit = new LanePermit(this.#giver, entry, now);
    if (this.#dispatcher.waiting === 0) {
      if (this.#tryBegin(permit, now)) return permit;
    } else if (this.#canWait(permit, now)) {
      this.#join(permit, now, true);
      // A waiter that was refused meanwhile has been counted.
      if (permit.ring === undefined) return permit.refusal === undefined ? permit : undefined;
      this.#remove(permit);
    }
    this.#meter.refuse('full');
    return undefined;
  }

  /**
   * Runs the task inside. The caller hears of an abort or the deadline at once; the permit is held
   * until the task has really ended, so that the numbers tell the truth.
   */
  async run<T>(task: Task<T>, entry?: Entry): Promise<T> {
    const permit = await entering(this, entry);
    const signal = ownSignal(signalFor(permit), entry?.signal);
    return leaveOnAbort(holdDuring(permit, task, signal), signal, entry?.signal);
  }

  /**
   * Changes the number that `limit` was given as. A larger one lets waiters in at once: as many as
   * fit, or in a lane that measures up to twice as many as before. A smaller one sends nobody out.
   */
  resize(limit: number): void {
    const isPlain = this.#permits.limit === undefined;
    check(isPlain, 'Lane.resize', 'of a lane whose limit is a number', this.name);
    checkInteger('Lane.resize: limit', limit, Math.max(1, this.#permits.promised));
    const now = this.#clock.now();
    this.#limitMax = limit;
    this.#pace?.resize(limit, now);
    this.#permits.resize(limit, limit);
    this.#refuseMisfits();
    this.#dispatcher.dispatch(now);
    if (!this.#dispatcher.isYielding) while (this.#trim(now));
  }

  /** Lets nobody in, here and in the lanes inside, until `resume`, or `close`; deadlines run on. */
  pause(): void {
    if (!this.#isClosed) this.#permits.setPaused(true);
  }

  /** Undoes `pause`, and lets waiters in at once. */
  resume(): void {
    this.#permits.setPaused(false);
    this.#dispatcher.dispatch(this.#clock.now());
  }

  /** Refuses all who wait, here and in the lanes inside, with `CLEARED`. */
  clear(): void {
    this.#refuseAll('cleared');
    this.#dispatcher.dispatch(this.#clock.now());
  }

  /**
   * Lets nobody else in, here and in the lanes inside, and resolves when the last has left. At the
   * end of `withinMs` those who still wait are refused; those inside go on to their own deadline.
   */
  close(options: CloseOptions = {}): Promise<void> {
    if (!this.#isClosed) this.#beginClose();
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Weight of the next waiter of this lane; 0 when nobody waits, or the lane is full itself. */
  readonly #nextWeight = (now: number): number => {
    if (this.#loopTime.isLong && !this.#dispatcher.seeksComputing) return 0;
    const next = this.#queue.next(now);
    if (next === undefined) return 0;
    const pace = this.#pace;
    if (pace === undefined || pace.hasRoom(next)) return next.weight;
    const { weight, priority } = next;
    if (weight > 1 && pace.hasRoom({ weight: 1, priority })) this.#keepTurn(now);
    return 0;
  };

  readonly #keepTurn = (now: number): void => this.#queue.reserve(now);

  /** Takes a permit back, and passes it straight on to the next waiter. */
  readonly #leave = (permit: LanePermit): void => {
    const now = this.#clock.now();
    const { outcome, isWhole, startedAt } = permit;
    const ending = outcome === 'overloaded' ? 'failed' : outcome;
    this.#meter.finish(now, ending, isWhole ? now - startedAt : undefined);
    this.#permits.observe(permit, now);
    this.#permits.give(permit.weight);
    const isLong = permit.loopMs > 0 && this.#loopTime.learn(permit.loopMs);
    if (isLong) this.#dispatcher.hasComputing = true;
    if (this.#pace?.leave(permit, now)) this.#queue.adapt(this.#pace.needMs, this.#pace.patienceMs);
    if (this.#dispatcher.waiting > 0) this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  /** Counts the caller; gives the reason why it may neither enter nor wait, if there is one. */
  #arrive(entry: Entry): Refusal | undefined {
    const weight = entry === plainEntry ? 1 : checkEntry(entry, this.#limitMax);
    this.#meter.arrive();
    if (this.#isClosed) return 'closed';
    return goneBy(entry, this.#clock) ?? (this.#permits.canEverFit(weight) ? undefined : 'full');
  }

  #turnAway(permit: LanePermit, reason: Refusal): LanePermit {
    if (reason === 'aborted') this.#meter.refuse(reason);
    permit.refusal = reason === 'aborted' ? permit.entry.signal?.reason : this.#refusal(reason);
    return permit;
  }

  /** Lets the caller in if there is room and it can end in time. Nobody waits. */
  #tryBegin(permit: LanePermit, now: number): boolean {
    if (this.#pace?.mayBegin(permit, now) === false) return false;
    if (!this.#permits.tryTake(permit.weight)) return false;
    this.#pace?.take(permit, now);
    if (this.#loopTime.isLong) takeTurn();
    this.#meter.start(now, 0);
    return true;
  }

  #canWait(permit: LanePermit, now: number): boolean {
    return this.#pace?.canWait(permit, now, this.#queue, this.#dispatcher.isYielding) ?? true;
  }

  #join(permit: LanePermit, now: number, isForced: boolean): void {
    this.#queue.push(permit);
    this.#permits.wait(1);
    this.#dispatcher.dispatch(now, isForced);
    if (!(isForced || this.#dispatcher.isYielding)) while (this.#trim(now, permit));
  }

  #remove(waiter: LanePermit): boolean {
    const isHere = this.#queue.remove(waiter);
    if (isHere) this.#permits.wait(-1);
    return isHere;
  }

  readonly #abandon = (waiter: LanePermit): void => {
    const now = this.#clock.now();
    this.#meter.refuse('aborted');
    this.#pace?.giveUp(now - waiter.arrivedAt);
    this.#remove(waiter);
    // A waiter that needed many permits may have kept those behind it waiting.
    this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  #drop(waiter: LanePermit, reason: LaneRefusal): void {
    // A hook that is told of another refusal may have sent it away already.
    if (this.#remove(waiter)) waiter.refuse(this.#refusal(reason));
  }

  /** Lets the next waiter in, or sends it away if its time is over. */
  readonly #serveNext = (now: number): void => {
    const waiter = this.#queue.next(now) as LanePermit;
    const reason = this.#queue.lateness(waiter, now);
    if (reason !== undefined) {
      this.#drop(waiter, reason);
      return;
    }
    this.#queue.take(waiter, now);
    this.#permits.takeTurn(waiter.weight);
    this.#pace?.take(waiter, now);
    if (this.#loopTime.isLong) takeTurn();
    this.#meter.start(now, now - waiter.arrivedAt);
    waiter.grant(now);
  };

  readonly #trimAll = (now: number): void => {
    while (this.#trim(now));
    for (const child of this.#permits.children) child.owner.trimAll(now);
  };

  /** Callers that may wait: those for whom there is a permit, but no turn yet, wait besides. */
  #waitersMax(): number {
    const size = this.#pace?.size ?? this.#limitMax;
    const used = this.#loopTime.isLong ? Math.min(size, this.#permits.inside) : size;
    return this.#queueMax + this.#limitMax - used;
  }

  /** Sends one waiter away if one too many waits, or if the last to be served waits in vain. */
  #trim(now: number, newcomer?: LanePermit): boolean {
    const queue = this.#queue;
    const pace = queue.isStanding(now) ? this.#pace : undefined;
    const isFull = queue.size > this.#waitersMax();
    if (!isFull && pace === undefined) return false;
    const last = queue.surplus(newcomer, now);
    if (last === undefined) return false;
    const isVain = pace !== undefined && queue.size > pace.standingMax(queue.leftMs(last, now));
    if (isFull || isVain) this.#drop(last, isFull ? 'full' : 'late');
    return isFull || isVain;
  }

  /** Sends away the waiters that fit no more, after a new child was promised permits. */
  readonly #refuseMisfits = (): void => {
    for (const waiter of [...this.#queue]) {
      if (!this.#permits.canEverFit(waiter.weight)) this.#drop(waiter, 'full');
    }
    for (const child of this.#permits.children) child.owner.refuseMisfits();
  };

  readonly #expire = (now: number): void => {
    for (const [waiter, reason] of this.#queue.overdue(now)) this.#drop(waiter, reason);
    this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  #refusal(reason: LaneRefusal): SpillwayError {
    this.#meter.refuse(reason);
    const waiting = this.#queue.size;
    const { inside } = this.#permits;
    const size = this.#pace?.size ?? Math.max(1, this.#permits.size);
    // Before anything has ended it is only known that all is over by the deadline.
    const retryAfterMs = this.#meter.retryAfterMs(waiting, size) ?? this.deadlineMs;
    const error = laneRefusal(reason, { name: this.name, inside, waiting, retryAfterMs });
    return tellRefusal(this, error, this.#onRefuse);
  }

  #beginClose(): void {
    this.#isClosed = true;
    for (const child of [...this.#permits.children]) child.owner.lane.#beginClose();
    this.resume();
    this.#settleClose();
  }

  #refuseAll(reason: LaneRefusal): void {
    for (const waiter of [...this.#queue]) this.#drop(waiter, reason);
    for (const child of [...this.#permits.children]) child.owner.lane.#refuseAll(reason);
    if (this.#isClosed) this.#settleClose();
  }

  #settleClose(): void {
    if (this.#permits.inside > 0 || this.#permits.waiting > 0) return;
    this.#permits.leave();
    this.#empty.resolve();
    if (this.parent && !this.parent.ready) this.parent.#settleClose();
  }
}
